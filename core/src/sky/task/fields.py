"""THE table of a task file's fields. Reading, validation, options and docs/task-fields.md are driven by it.

`python -m sky.task.fields` prints that page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["supported", "later", "unsupported"]
"""`later`: read and checked, then refused by name. `unsupported`: SkyPilot knows it, refused by name."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: where it is, how it's read, whether this version does it."""

    path: str
    kind: str
    """Names a parser of `sky.task.scalars`, or a reader of `sky.task.read` for what has structure."""
    description: str
    status: Status = "supported"
    reason: str = ""
    """Why not, for `later` and `unsupported` (and where only some values are): what follows "it"."""
    option: str = ""
    """The command-line option that replaces it."""

    @property
    def refusal(self) -> str:
        """The message for a value that this version doesn't do."""
        return f"not supported: it {self.reason}"

    @property
    def attribute(self) -> str:
        """Where `sky.task.overrides.Overrides` keeps the option."""
        special = {"--label": "labels", "--idle-minutes-to-autostop": "autostop"}
        return special.get(self.option) or self.option.lstrip("-").replace("-", "_")


_LATER = "comes in a later version"
_JOBS = "belongs to managed jobs, which this version doesn't have"
_SERVE = "belongs to services and pools, which this version doesn't have"
_SERVER = "needs a server, which Sky doesn't have"
_TPU = "is for TPUs, which this version doesn't have"
_NO_MOUNT = "isn't planned; use file_mounts"
_INTERNAL = "is internal to SkyPilot"

_ROWS = (
    Field("name", "line", "Name of the task; shown in queues and logs.", option="--name"),
    Field("workdir", "workdir", "Local directory: the working directory on every node.", option="--workdir"),
    Field("workdir.url", "line", "Repository whose files are the working directory.", option="--git-url"),
    Field("workdir.ref", "line", "Branch, tag or commit of it; else its default.", option="--git-ref"),
    Field("num_nodes", "count", "How many nodes, all equal.", option="--num-nodes"),
    Field("resources", "section", "What each node must have."),
    Field("resources.infra", "infra", "`cloud[/region[/zone]]`, with `*` for any.", option="--infra"),
    Field("resources.cloud", "cloud", "Older form of infra.", option="--cloud"),
    Field("resources.region", "line", "Older form of infra.", option="--region"),
    Field("resources.zone", "line", "Older form of infra.", option="--zone"),
    Field(
        "resources.accelerators",
        "accelerators",
        "`H100:8` or `{H100: 8}`; `{T4: 1, L4: 1}` is any of them, `[T4:1, L4:1]` tries them in that order.",
        option="--gpus",
    ),
    Field("resources.cpus", "cpus", "vCPUs: `4`, or `4+` for at least 4.", option="--cpus"),
    Field("resources.memory", "memory", "GiB: `16`, `16+`; `4x` for each vCPU; `512MB`.", option="--memory"),
    Field("resources.instance_type", "line", "The cloud's own name of a machine.", option="--instance-type"),
    Field("resources.use_spot", "bool", "Interruptible, cheaper capacity.", option="--use-spot"),
    Field("resources.disk_size", "disk_size", "GB of disk.", option="--disk-size"),
    Field("resources.disk_tier", "disk_tier", "`low` to `ultra`, `best`, `none`.", option="--disk-tier"),
    Field("resources.image_id", "image", "An image, or `docker:NAME`.", option="--image-id"),
    Field("resources.ports", "ports", "`8080`, `8000-8010`, or a list of these.", option="--ports"),
    Field("resources.labels", "labels", "Labels of what is created.", option="--label"),
    Field("resources.max_hourly_cost", "number", "USD an hour, all nodes.", option="--max-hourly-cost"),
    Field(
        "resources.autostop",
        "autostop",
        "When an idle cluster ends.",
        "later",
        _LATER,
        "--idle-minutes-to-autostop",
    ),
    Field("resources.autostop.idle_minutes", "minutes", "Minutes without work.", "later", _LATER),
    Field("resources.autostop.down", "bool", "Give the cluster back rather than stop it.", "later", _LATER),
    Field(
        "resources.autostop.wait_for",
        "wait_for",
        "What is work: `jobs_and_ssh`, `jobs` or `none`.",
        "later",
        _LATER,
    ),
    Field("resources.autostop.hook", "script", "Script run on the cluster before.", "later", _LATER),
    Field("resources.autostop.hook_timeout", "count", "Seconds that it may take.", "later", _LATER),
    Field("resources.any_of", "alternatives", "Alternatives; the cheapest wins."),
    Field("resources.ordered", "alternatives", "Alternatives; the first that can be had wins."),
    Field("resources.job_recovery", "any", "Restarts after an interruption.", "later", _JOBS),
    Field("resources.spot_recovery", "any", "Older form.", "unsupported", _JOBS),
    Field("resources.network_tier", "any", "Faster networks.", "later", _LATER),
    Field("resources.local_disk", "any", "Local disks of a machine.", "later", _LATER),
    Field("resources.ephemeral_storage", "any", "Ephemeral storage of a pod.", "unsupported", _LATER),
    Field("resources.accelerator_args", "any", "Settings of TPUs.", "unsupported", _TPU),
    Field("resources.volumes", "any", "Volumes to attach.", "later", _LATER),
    Field("resources.priority", "any", "Priority of a job.", "unsupported", _JOBS),
    Field("resources.priority_class", "any", "Priority of a job.", "unsupported", _JOBS),
    Field("resources._docker_login_config", "any", "", "unsupported", _INTERNAL),
    Field("resources._is_image_managed", "any", "", "unsupported", _INTERNAL),
    Field("resources._requires_fuse", "any", "", "unsupported", _INTERNAL),
    Field("resources._cluster_config_overrides", "any", "", "unsupported", _INTERNAL),
    Field("resources._no_missing_accel_warnings", "any", "", "unsupported", _INTERNAL),
    Field("envs", "envs", "Variables of setup and run; an empty one must come from `--env`."),
    Field("secrets", "envs", "Like envs, never shown; an empty one must come from `--secret`."),
    Field("file_mounts", "mounts", "Path on nodes to local path; buckets come later.", "supported", _LATER),
    Field("setup", "script", "Run once on each node, before run."),
    Field("run", "script", "The job."),
    Field("config", "config", "Settings of clouds for this task alone, by section."),
    Field("service", "any", "A service.", "later", _SERVE),
    Field("pool", "any", "A pool of workers.", "later", _SERVE),
    Field("volumes", "any", "Volumes to mount.", "later", _LATER),
    Field("volume_mounts", "any", "Volumes to mount.", "later", _LATER),
    Field("managed_secrets", "any", "Secrets kept by a server.", "unsupported", _SERVER),
    Field("inputs", "any", "Inputs of a task.", "unsupported", _NO_MOUNT),
    Field("outputs", "any", "Outputs of a task.", "unsupported", _NO_MOUNT),
    Field("event_callback", "any", "Script run at events.", "unsupported", _JOBS),
    Field("api_server_access", "any", "Access to the server.", "unsupported", _SERVER),
    Field("experimental", "any", "Older form of config.", "unsupported", "is an older form; use config"),
    Field("file_mounts_mapping", "any", "", "unsupported", _INTERNAL),
    Field("_metadata", "any", "", "unsupported", _INTERNAL),
)

FIELDS: Mapping[str, Field] = {row.path: row for row in _ROWS}


def children(section: str) -> dict[str, Field]:
    """The fields directly inside `section` (empty for the file itself), by their own names."""
    prefix = f"{section}." if section else ""
    return {
        path[len(prefix) :]: row
        for path, row in FIELDS.items()
        if path.startswith(prefix) and "." not in path[len(prefix) :]
    }


if __name__ == "__main__":
    import sys

    from sky.task.fields_page import markdown

    sys.stdout.write(markdown())
