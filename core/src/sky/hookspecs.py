"""THE contract between Sky's core and its plugins, by lifecycle phase, read from top to bottom.

A plugin is a class, named by an entry point (`sky.clouds`, `sky.runners`, `sky.observers`, `sky.commands`);
the entry's name is what users type. It declares `api = (1, 1)`, the version it was built for, and
implements the hooks below as methods marked with `sky.api.hookimpl`. Its module must import in well under
250 ms: SDKs are imported inside the methods.

Rules for every hook, each tested by the kit in `sky.testing`:

- Arguments and results are the frozen types of `sky.types`; errors are those of `sky.errors`.
- *Blocks* means it may do I/O; it then respects `ctx.deadline` (`TimedOut`) and `ctx.cancel` (`Cancelled`).
- *Idempotent* means that a repeat, after success or after a crash at any point, changes nothing more.
- Hooks may be called from several threads at once, also for the same host.
- Nothing is printed: what people should see goes through `ctx.emit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sky.task.model import Task
    from sky.types import (
        Allocation,
        CatalogQuery,
        CloudInfo,
        Command,
        Context,
        CredentialStatus,
        Diagnosis,
        Event,
        Feasibility,
        Forward,
        Host,
        InstanceStatus,
        Job,
        JobReference,
        JobStatus,
        LaunchSpec,
        Offer,
        Place,
        Request,
        Transfer,
        TransferResult,
    )

API_VERSION = (1, 1)
"""Minor: a new hook, optional argument, field with a default, capability. Major: anything that breaks."""

hookspec = pluggy.HookspecMarker("sky")

# === describe (clouds) ===============================================================================


@hookspec(firstresult=True)
def sky_cloud_info() -> CloudInfo | None:
    """What this cloud is. No I/O, no SDK; the same answer every time."""


@hookspec(firstresult=True)
def sky_config_schema() -> Mapping[str, Any] | None:
    """JSON schema (draft 2020-12) of the plugin's section of the configuration. No I/O.

    An object with `properties`; a key outside it is reported to the user with the nearest right name.
    Also for runners.
    """


# === who (clouds) ====================================================================================


@hookspec(firstresult=True)
def sky_check_credentials(ctx: Context) -> CredentialStatus | None:
    """Whether this cloud can be used now, and what to do if not. Blocks; idempotent.

    A missing login is an answer, not an error. Raises `Unreachable` or `TimedOut` if it can't be told.
    """


@hookspec(firstresult=True)
def sky_identity(ctx: Context) -> str | None:
    """Who the credentials are: stable, the same for every session of the same principal. Blocks; idempotent.

    Clusters belong to the identity that created them. None where the cloud knows no identities.
    Raises `CredentialsError`.
    """


@hookspec(firstresult=True)
def sky_credential_fingerprint(ctx: Context) -> str | None:
    """A digest of where the credentials come from. No network, no SDK; at most a few file stats and reads.

    Whenever the SDK would resolve another principal, this differs. Holds no secret and nothing from which
    one could be found.
    """


# === what (clouds, optional) =========================================================================


@hookspec(firstresult=True)
def sky_catalog(ctx: Context, query: CatalogQuery) -> Sequence[Offer] | None:
    """What the cloud sells, whether or not there is room for it now; cheapest first. Blocks; idempotent."""


# === can (clouds) ====================================================================================


@hookspec(firstresult=True)
def sky_feasible(ctx: Context, request: Request) -> Feasibility | None:
    """Where this cloud could run `request` now. Blocks; idempotent; creates nothing.

    Offers come best first and each satisfies all of the request. Every place that was looked at and can't
    serve is a rejection with its rule and near misses; no offers and no rejections is a defect. The core
    asks every enabled cloud at once and names, rather than waits for, those that miss the deadline.
    """


# === get (clouds) ====================================================================================


@hookspec(firstresult=True)
def sky_bootstrap(ctx: Context, spec: LaunchSpec) -> None:
    """Make what clusters of this kind share (a namespace, a network). Optional. Blocks; idempotent."""


@hookspec(firstresult=True)
def sky_preview(ctx: Context, spec: LaunchSpec) -> str | None:
    """What `sky_run_instances` would ask for, as text for people: a manifest, a request. Optional; calls nobody.

    Shown by `--dryrun`. Holds no secret, as none is in `spec`.
    """


@hookspec(firstresult=True)
def sky_run_instances(ctx: Context, spec: LaunchSpec) -> Allocation | None:
    """Create the cluster, or adopt or resume what carries its `cluster_id`. Returns at once, not when ready.

    Blocks for the provider's answer only; idempotent: two calls, also at the same time, give one cluster.
    All nodes or none: when it raises, what it had begun is gone, or carries the tags so that
    `sky_terminate_instances` finds it. Raises `NoCapacity`, `QuotaExceeded`, `NotPermitted`, …
    """


@hookspec(firstresult=True)
def sky_wait_instances(ctx: Context, allocation: Allocation) -> None:
    """Return when every node runs and its runner can reach it. Blocks; idempotent.

    Emits `phase` events that say why it still waits, in the provider's words, within seconds of a change.
    Raises `ProvisioningFailed` as soon as it's certain that a node won't run, `NoCapacity` when there is
    no room for it, `TimedOut` at the deadline with the last reason.
    """


@hookspec(firstresult=True)
def sky_query_instances(ctx: Context, allocation: Allocation) -> Sequence[InstanceStatus] | None:
    """Every node now, by rank. Blocks; idempotent. Nodes that are gone are ENDED or absent, never an error.

    An empty answer means the cluster doesn't exist; it is never given because the provider was unreachable.
    """


@hookspec(firstresult=True)
def sky_cluster_hosts(ctx: Context, allocation: Allocation) -> Sequence[Host] | None:
    """The hosts, rank 0 first, all of them. Blocks; idempotent. Raises `NotYet` while any is missing."""


@hookspec(firstresult=True)
def sky_list_clusters(ctx: Context, tags: Mapping[str, str]) -> Sequence[Allocation] | None:
    """Every cluster that carries at least `tags`, found by tags alone, without our state. Blocks; idempotent.

    Ended ones included while the provider still lists them. Where a cloud has several places (contexts,
    regions) and some can't be asked, the others' clusters are the answer, with a `warning` event for each
    that is missing; when none can be asked it raises.
    """


# === give back (clouds) ==============================================================================


@hookspec(firstresult=True)
def sky_stop_instances(ctx: Context, allocation: Allocation) -> None:
    """Stop without losing the disk; only with the capability `stop`. Blocks; idempotent."""


@hookspec(firstresult=True)
def sky_terminate_instances(ctx: Context, allocation: Allocation) -> None:
    """Give everything back that carries the cluster's id. Blocks until the provider has accepted it.

    Idempotent; what is absent is success. After it, `sky_query_instances` soon answers empty or ENDED.
    """


# === reach (runners) =================================================================================


@hookspec(firstresult=True)
def sky_run(
    ctx: Context,
    host: Host,
    command: Command,
    stdin: BinaryIO | None,
    stdout: BinaryIO,
    stderr: BinaryIO,
) -> int | None:
    """Run a program on the host; return its exit code, 0 to 255 (128 + N for signal N). Blocks.

    Bytes end to end: nothing is decoded, added, lost or reordered within a stream; written to `stdout` and
    `stderr` (with `write`, from one thread at a time) as they arrive. `stdin` is read as the program
    takes it, of any size; None means empty. The environment is the host's own. The working directory is
    the home directory: $HOME where that is a writable directory, else `home` below `host.work_dir` (made
    if missing), to which HOME is then set; `~` in transfers means the same directory.

    A code is returned only when the program is known to have ended with it. Otherwise: `ProgramMissing`
    (nothing was started), `Unreachable` (nothing was started), `HostGone`, `ConnectionLost`, `Cancelled`,
    `TimedOut`; after the last two the program is sent SIGTERM where the transport can. Not idempotent.
    An exception of `stdin.read` or `stdout.write` ends the program and is raised unchanged.
    """


@hookspec(firstresult=True)
def sky_rsync(ctx: Context, host: Host, transfer: Transfer) -> TransferResult | None:
    """Make the target equal to the source. Blocks; idempotent: a repeat sends nothing that is there.

    - A directory *becomes* the target (its content, hidden files and empty directories included); a file
      becomes a file of the target's name, or lands inside the target if that ends in `/`. Missing parents
      are made.
    - Modes, modification times (whole seconds) and symbolic links (as links) are kept; owners are not.
    - Nothing outside is removed; inside, only with `delete`, and never what is excluded.
    - A final name holds the old or the new content, never a part of it, at every moment.
    - Any name that a file can have works. What isn't a file, directory or link is skipped with a warning.

    Raises `TransferFailed` (with the first path it couldn't read or write), and what `sky_run` raises.
    """


@hookspec(firstresult=True)
def sky_shell(ctx: Context, host: Host, command: Command | None) -> int | None:
    """An interactive shell (or `command`) on the caller's terminal; its exit code. Blocks. Optional."""


@hookspec(firstresult=True)
def sky_forward(ctx: Context, host: Host, remote_port: int, local_port: int | None) -> Forward | None:
    """Lead a local port to one of the host. Returns once it listens. Optional; raises `NotSupported`."""


@hookspec(firstresult=True)
def sky_disconnect(ctx: Context, host: Host | None) -> None:
    """Close connections kept for `host`, or for all. Idempotent; never fails for what is already gone."""


@hookspec(firstresult=True)
def sky_publish_hosts(ctx: Context, place: Place) -> None:
    """Let the user's own tools reach the hosts by the cluster's name (an entry of the ssh config). Optional.

    Called once the hosts are known, and again when they are found anew. Blocks briefly; idempotent: the last
    call for an allocation holds. Needs no connection. What it can't do is a `warning` event, not an error.
    """


@hookspec(firstresult=True)
def sky_withdraw_hosts(ctx: Context, allocation: Allocation) -> None:
    """Take back what `sky_publish_hosts` did for this allocation, once it is given back. Optional. Idempotent."""


# === jobs (runners, optional) ========================================================================


@hookspec(firstresult=True)
def sky_submit_job(ctx: Context, place: Place, job: Job) -> JobReference | None:
    """Hand the job to the place's own engine, which gangs, queues and kills. Blocks until it has accepted.

    Idempotent by `job.token`. Without this hook the core's portable engine is used, built on `sky_run`.
    A runner that implements it implements the next two as well.
    """


@hookspec(firstresult=True)
def sky_query_jobs(
    ctx: Context, place: Place, references: Sequence[JobReference] | None
) -> Sequence[JobStatus] | None:
    """The jobs named, or all of the place, oldest first. Blocks; idempotent. Unknown ids are left out."""


@hookspec(firstresult=True)
def sky_cancel_job(ctx: Context, place: Place, reference: JobReference) -> None:
    """End the job and everything it started; a finished or unknown job is success. Blocks; idempotent."""


# === explain (clouds and runners, optional) ==========================================================


@hookspec(firstresult=True)
def sky_classify_error(ctx: Context, error: BaseException) -> Diagnosis | None:
    """What an error of this plugin's own SDK, escaped from one of its hooks, means. No I/O."""


# === watch (observers) ===============================================================================


@hookspec
def sky_task_policy(ctx: Context, task: Task) -> Task | None:
    """Change the task (return another), refuse it (raise `UsageError`) or let it be (None).

    Observers are asked in the order of their names, each given what the one before returned; any other
    exception refuses the task too, naming the observer.
    """


@hookspec
def sky_event(event: Event) -> None:
    """Something happened. Must return quickly; may stop nothing: what it raises is reported and ignored."""
