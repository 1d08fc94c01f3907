"""A task written as a task file that reads back as the same task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sky.task.environment import escape
from sky.task.quantities import number_text, quantity_text
from sky.task.scalars import parse_infra
from sky.types import Accelerator, Request

if TYPE_CHECKING:
    from sky.task.model import Autostop, Task

# A word that no reader of YAML takes for anything but text.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.+-]*")
# A block would turn them into line feeds.
_OTHER_BREAKS = frozenset("\x85\u2028\u2029")
_NOT_TEXT = frozenset(["null", "true", "false", "yes", "no", "on", "off", "y", "n"])


def task_to_yaml(task: Task, *, show_secrets: bool = False) -> str:
    """The task as YAML. Without `show_secrets` secrets are empty: they must be given again to load it, and so
    must the password in the address of a repository.

    `load_task_text` of it, with the same `base_dir`, is equal to `task` (with `allow_later` if it has
    something that this version can't run).
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style: str | None = '"'
        if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
            style = None
        elif "\n" in value and _OTHER_BREAKS.isdisjoint(value):
            style = "|"  # The emitter falls back to quotes where a block can't hold it.
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    document = task_to_dict(task, show_secrets=show_secrets)
    return yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**31 - 1)


def task_to_dict(task: Task, *, show_secrets: bool = False) -> dict[str, Any]:
    """The task in the shape of a task file, as plain data; fields that aren't set are left out."""
    document: dict[str, Any] = {
        "name": task.name,
        "workdir": _workdir(task, show_secrets),
        "num_nodes": task.num_nodes if task.num_nodes != 1 else None,
        "resources": _resources(task),
        "envs": dict(task.envs),
        "secrets": dict(task.secrets) if show_secrets else dict.fromkeys(task.secrets),
        "file_mounts": {escape(target): escape(source) for target, source in task.file_mounts.items()},
        "setup": task.setup,
        "run": task.run,
        "config": task.config,
    }
    return {name: value for name, value in document.items() if value is not None and value != {}}


def _workdir(task: Task, show_secrets: bool) -> Any:
    if task.git is not None:
        url = escape(task.git.url if show_secrets else task.git.shown_url)
        return {"url": url, "ref": escape(task.git.ref)} if task.git.ref else {"url": url}
    return escape(task.workdir) if task.workdir is not None else None


def _resources(task: Task) -> dict[str, Any]:
    alternatives = [_request(request) for request in task.resources]
    autostop = {"autostop": _autostop(task.autostop)} if task.autostop is not None else {}
    if task.ordered:
        return {**autostop, "ordered": alternatives}
    if len(alternatives) > 1:
        return {**autostop, "any_of": alternatives}
    return {**alternatives[0], **autostop}


def _request(request: Request) -> dict[str, Any]:
    price = request.max_price_usd_per_hour
    values: dict[str, Any] = {
        **_place(request),
        "accelerators": _accelerator(request.accelerator) if request.accelerator else None,
        "cpus": quantity_text(request.cpus) if request.cpus else None,
        "memory": quantity_text(request.memory) if request.memory else None,
        "instance_type": request.instance_type,
        "use_spot": request.use_spot or None,
        "disk_size": request.disk_size_gb,
        "disk_tier": request.disk_tier,
        "image_id": request.image_id,
        "ports": list(request.ports) or None,
        "labels": dict(request.labels) or None,
        "max_hourly_cost": number_text(price) if price is not None else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _place(request: Request) -> Mapping[str, str | None]:
    parts = {"cloud": request.cloud, "region": request.region, "zone": request.zone}
    infra = "/".join(part or "*" for part in parts.values()).rstrip("/*")
    if infra and "/" not in f"{request.cloud}{request.region}" and parse_infra(infra) == parts:
        return {"infra": infra}
    return parts


def _accelerator(accelerator: Accelerator) -> str:
    return f"{accelerator.name}:{number_text(accelerator.count)}"


def _autostop(autostop: Autostop) -> dict[str, Any]:
    values = {
        "idle_minutes": autostop.idle_minutes,
        "down": autostop.down or None,
        "wait_for": autostop.wait_for,
        "hook": autostop.hook,
        "hook_timeout": autostop.hook_timeout_seconds,
    }
    return {name: value for name, value in values.items() if value is not None}
