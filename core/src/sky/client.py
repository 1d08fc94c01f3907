"""Sky as a library: what each command does, as a function. The command line calls these and shows the rest.

Every function blocks and raises `sky.errors`. A `Session` carries configuration, messages and
cancellation; without one, a function makes its own, silent one.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import Cancelled, HostGone, SkyError, UsageError
from sky.state.clusters import Cluster, ClusterStatus, State, locked
from sky.types import CredentialStatus, Host, JobState, JobStatus, TransferResult

if TYPE_CHECKING:
    from sky.launch.candidates import Candidate, Candidates
    from sky.launch.lifecycle import Downed
    from sky.node.engine import Stream
    from sky.session import Session
    from sky.task.model import Task

Confirm = Callable[["Candidates", str], bool]
OnState = Callable[["Stream"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What came of `launch` or `exec`."""

    cluster: str
    job_id: str = ""
    """Empty when the task runs nothing."""
    state: JobState | None = None
    exit_code: int | None = None
    """The job's own, once it has ended and was followed."""


def _silent() -> Session:
    # Imported here: `status` of what is known needs no session, and so neither plugins nor configuration.
    from sky.session import Session

    return Session()


def launch(
    task: Task,
    cluster_name: str | None = None,
    *,
    session: Session | None = None,
    confirm: Confirm = lambda candidates, name: True,
    detach: bool = False,
    no_setup: bool = False,
    wait_seconds: float | None = None,
    out: BinaryIO | None = None,
    on_state: OnState = lambda stream: None,
) -> Launched:
    """Get a cluster (or take the one of that name), sync files, run setup and the job, pass its log to `out`.

    May be repeated: a launch that was cut short is taken up again, an existing cluster is used again.
    `confirm` is asked before a new cluster is made; false raises `Cancelled`.
    """
    from sky.launch import candidates, files, jobs, names

    session = session or _silent()
    name = names.check(cluster_name) if cluster_name else names.automatic()
    task = _with_policy(session, task)
    files.check(task)
    seconds = candidates.FEASIBLE_SECONDS if wait_seconds is None else wait_seconds
    with State() as state:
        with locked(name, session.cancel, lambda holder: session.phase(f"waiting for {holder}")):
            cluster = _obtain(session, state, name, task, confirm, seconds)
            files.upload(session, cluster.hosts, task)
        if task.run is None and (task.setup is None or no_setup):
            return Launched(cluster=name)
        job = jobs.job_from(task, cluster, with_setup=not no_setup)
        return _submit(session, state, cluster, task, job, detach, out, on_state)


def _obtain(
    session: Session, state: State, name: str, task: Task, confirm: Confirm, wait_seconds: float
) -> Cluster:
    """The cluster of that name, up: as it is, taken up again, or made."""
    from sky.launch import candidates, jobs, lifecycle, provision

    cluster = state.get(name)
    if cluster is not None and cluster.status is ClusterStatus.UP:
        jobs.check_fits(session, task, cluster)
        # It may have ended by itself since: a launch then makes it anew, where a job would only fail.
        lifecycle.refresh(session, state, [cluster])
        cluster = state.require(name)
        if cluster.status is ClusterStatus.UP:
            return cluster
    if cluster is not None and cluster.status is ClusterStatus.INIT:
        jobs.check_fits(session, task, cluster)
        return provision.resume(session, state, cluster, task)
    if cluster is not None and cluster.status is not ClusterStatus.ENDED:
        jobs.place_of(cluster)  # raises what is wrong with it
    found = candidates.find(session, task, wait_seconds)
    found.require()
    if not confirm(found, name):
        raise Cancelled("nothing was launched")
    if cluster is not None:
        session.phase(f"{name!r} ended ({cluster.reason or 'by itself'}); it is made anew")
        provision.terminate(session, state, cluster)
    return provision.create(session, state, name, task, found.rows, " ".join(sys.argv[1:2]))


def exec_(
    task: Task,
    cluster_name: str,
    *,
    session: Session | None = None,
    detach: bool = False,
    out: BinaryIO | None = None,
    on_state: OnState = lambda stream: None,
) -> Launched:
    """Run a task's `run` on a cluster that is up: no setup, and only the workdir is synced."""
    from dataclasses import replace

    from sky.launch import jobs

    session = session or _silent()
    with State() as state:
        cluster = state.require(cluster_name)
        task = _with_policy(session, task)
        jobs.place_of(cluster)
        jobs.check_fits(session, task, cluster)
        if task.run is None:
            raise UsageError(
                "there is nothing to run", remedy="the task has no `run`, and no command was given"
            )
        if task.workdir is not None:
            from sky.launch import files

            task = replace(task, file_mounts={})
            files.check(task)
            files.upload(session, cluster.hosts, task)
        job = jobs.job_from(task, cluster, with_setup=False)
        return _submit(session, state, cluster, task, job, detach, out, on_state)


def _submit(
    session: Session,
    state: State,
    cluster: Cluster,
    task: Task,
    job: object,
    detach: bool,
    out: BinaryIO | None,
    on_state: OnState,
) -> Launched:
    from sky.launch import jobs

    engine = jobs.engine_of(session, cluster)
    sink = out or io.BytesIO()
    job_id = ""

    def heard(stream: Stream) -> None:
        nonlocal job_id
        job_id = stream.job_id
        on_state(stream)

    try:
        stream = engine.submit(job, not detach, sink, heard)  # type: ignore[arg-type]
    except HostGone as error:
        raise _gone(session, state, cluster, error) from error
    except Cancelled as error:
        raise _detached(cluster.name, job_id) from error
    return Launched(
        cluster=cluster.name,
        job_id=stream.job_id,
        state=stream.state if stream.ended else None,
        exit_code=stream.code if stream.ended else None,
    )


def _detached(cluster_name: str, job_id: str) -> Cancelled:
    """Who follows a job and gives up ends nothing: say so."""
    if not job_id:
        return Cancelled(
            "cancelled while the job was handed over", remedy=f"sky queue {cluster_name} tells if it runs"
        )
    return Cancelled(
        f"no longer following; job {job_id} goes on",
        remedy=f"sky logs {cluster_name} {job_id} follows it, sky cancel {cluster_name} {job_id} ends it",
    )


def _gone(session: Session, state: State, cluster: Cluster, error: HostGone) -> SkyError:
    """A host vanished: note what its cloud says of it, so that `status` shows it, too."""
    from sky.launch import lifecycle

    lifecycle.refresh(session, state, [cluster])
    now = state.get(cluster.name)
    reason = now.reason if now is not None and now.reason else ""
    detail = f" ({reason})" if reason and reason not in error.message else ""
    return HostGone(
        error.message + detail, remedy=error.remedy or f"sky down {cluster.name} removes what is left"
    )


def _with_policy(session: Session, task: Task) -> Task:
    observers = session.registry.observers()
    if not observers:
        return task
    return observers.policy(session.observer_context(), task)


def plan(task: Task, *, session: Session | None = None, wait_seconds: float | None = None) -> Candidates:
    """Where the task could run and what it would cost; creates nothing."""
    from sky.launch import candidates, files

    session = session or _silent()
    task = _with_policy(session, task)
    files.check(task)
    return candidates.find(
        session, task, candidates.FEASIBLE_SECONDS if wait_seconds is None else wait_seconds
    )


def preview(task: Task, candidate: Candidate, cluster_name: str | None, *, session: Session) -> str:
    """What the candidate's cloud would be asked for, as text; empty where the cloud can't tell."""
    from sky.launch import names, provision

    cloud = session.registry.cloud(candidate.offer.cloud)
    if not cloud.has("sky_preview"):
        return ""
    spec = provision.new_spec(cluster_name or names.automatic(), task, candidate)
    ctx = session.context(cloud, task_config=task.config)
    return str(cloud.call("sky_preview", ctx=ctx, spec=spec))


def status(
    names: Sequence[str] = (),
    *,
    session: Session | None = None,
    refresh: bool = False,
    rebuild: bool = False,
    everyone: bool = False,
) -> list[Cluster]:
    """The clusters known here, newest first; `refresh` asks their clouds, `rebuild` finds unknown ones by tags."""
    with State() as state:
        if rebuild or refresh:
            from sky.launch import lifecycle

            session = session or _silent()
            if rebuild:
                for added in lifecycle.rebuild(session, state, everyone):
                    session.phase(f"found {added!r}")
        clusters = [state.require(name) for name in names] if names else state.all()
        if refresh:
            lifecycle.refresh(session, state, clusters)  # type: ignore[arg-type]
            clusters = [found for cluster in clusters if (found := state.get(cluster.name)) is not None]
        return clusters


def queue(cluster_name: str, *, session: Session | None = None) -> list[JobStatus]:
    """Every job of a cluster, oldest first, as the place itself tells."""
    from sky.launch import jobs

    session = session or _silent()
    with State() as state:
        cluster = state.require(cluster_name)
        engine = jobs.engine_of(session, cluster)
        try:
            return [job for job, _ in engine.jobs()]
        except HostGone as error:
            raise _gone(session, state, cluster, error) from error


def logs(
    cluster_name: str,
    job_id: str | None = None,
    *,
    session: Session | None = None,
    follow: bool = True,
    tail: int = -1,
    out: BinaryIO | None = None,
    on_state: OnState = lambda stream: None,
) -> Launched:
    """Pass the log of a job (by default the newest) to `out`: all of it or the last `tail` lines."""
    from sky.launch import jobs

    session = session or _silent()
    with State() as state:
        cluster = state.require(cluster_name)
        engine = jobs.engine_of(session, cluster)
        try:
            chosen = job_id or _newest(engine.jobs(), cluster_name)
            stream = engine.logs(chosen, out or io.BytesIO(), follow, tail, on_state)
        except HostGone as error:
            raise _gone(session, state, cluster, error) from error
    return Launched(cluster=cluster_name, job_id=chosen, state=stream.state, exit_code=stream.code)


def _newest(found: Sequence[tuple[JobStatus, str]], cluster_name: str) -> str:
    if not found:
        raise UsageError(
            f"cluster {cluster_name!r} has no jobs", remedy=f"sky exec {cluster_name} -- COMMAND"
        )
    return found[-1][0].id


def sync_down_logs(
    cluster_name: str, job_ids: Sequence[str], target: str, *, session: Session | None = None
) -> dict[str, Path]:
    """Copy logs of jobs (by default all) to `target`/ID/run.log; paths by job id."""
    from sky.launch import files, jobs
    from sky.types import Transfer

    session = session or _silent()
    with State() as state:
        cluster = state.require(cluster_name)
        found = {status.id: status for status, _ in jobs.engine_of(session, cluster).jobs()}
    paths = {}
    for job_id in job_ids or list(found):
        reference = found[job_id].reference if job_id in found else None
        if reference is None or reference.log_host is None:
            raise UsageError(
                f"cluster {cluster_name!r} has no job {job_id}", remedy="sky queue lists its jobs"
            )
        path = Path(target, job_id, "run.log")
        files.one(
            session,
            reference.log_host,
            Transfer(direction="down", source=reference.log_path, target=str(path.absolute())),
        )
        paths[job_id] = path
    return paths


def cancel(
    cluster_name: str, job_ids: Sequence[str] = (), *, session: Session | None = None, every: bool = False
) -> list[tuple[str, str]]:
    """End jobs and everything they started; (id, state afterwards) of each. Finished jobs stay as they are."""
    from sky.launch import jobs

    session = session or _silent()
    with State() as state:
        cluster = state.require(cluster_name)
        engine = jobs.engine_of(session, cluster)
        if not every and not job_ids:
            job_ids = [_newest(engine.jobs(), cluster_name)]
        result: list[tuple[str, str]] = []
        for which in ["all"] if every else job_ids:
            result += engine.cancel(which)
        return result


def down(
    names: Sequence[str] = (), *, session: Session | None = None, every: bool = False, purge: bool = False
) -> list[Downed]:
    """Give clusters back and forget them. Absent ones are success for the cloud, and an error by name here."""
    from sky.launch import lifecycle

    session = session or _silent()
    with State() as state:
        clusters = state.all() if every else [state.require(name) for name in names]
        return lifecycle.down(session, state, clusters, purge)


def check(
    names: Sequence[str] = (), *, session: Session | None = None, seconds: float = 20.0
) -> dict[str, CredentialStatus]:
    """Whether each cloud can be used, all asked at once; a broken or late one is a status as well."""
    from sky.fanout import fan_out

    session = session or _silent()
    registry = session.registry
    wanted = [registry.canonical("cloud", name) for name in names] or list(registry.names("cloud"))

    def ask(name: str) -> CredentialStatus:
        plugin = session.registry.cloud(name)
        ctx = session.context(plugin, seconds)
        result: CredentialStatus = plugin.call("sky_check_credentials", ctx=ctx)
        return result

    found = {}
    for name, answer in fan_out({n: (lambda n=n: ask(n)) for n in wanted}, seconds).items():  # type: ignore[misc]
        if answer.value is not None:
            found[name] = answer.value
        elif isinstance(answer.error, SkyError):
            found[name] = CredentialStatus(ok=False, reason=answer.error.message, remedy=answer.error.remedy)
        else:
            found[name] = CredentialStatus(ok=False, reason=f"no answer within {seconds:g} s")
    return found


def host_of(state: State, cluster_name: str, node: int = 0) -> Host:
    """A node of a cluster by its rank. Raises `UsageError` if there is no such node."""
    from sky.launch import jobs

    hosts = jobs.place_of(state.require(cluster_name)).hosts
    if not 0 <= node < len(hosts):
        raise UsageError(f"cluster {cluster_name!r} has nodes 0 to {len(hosts) - 1}, no {node}")
    return hosts[node]


def shell(
    cluster_name: str, command: Sequence[str] = (), *, session: Session | None = None, node: int = 0
) -> int:
    """An interactive shell, or a command, on a node, on the caller's terminal; its exit code."""
    from sky.errors import NotSupported
    from sky.types import Command

    session = session or _silent()
    with State() as state:
        host = host_of(state, cluster_name, node)
    runner = session.registry.runner(host.transport)
    if not runner.has("sky_shell"):
        raise NotSupported(f"{host.transport} gives no shell", remedy=f"sky exec {cluster_name} -- COMMAND")
    argv = Command(argv=tuple(command)) if command else None
    code: int = runner.call("sky_shell", ctx=session.context(runner), host=host, command=argv)
    return code


def rsync(
    source: str, target: str, *, session: Session | None = None, delete: bool = False
) -> TransferResult:
    """Sync files up or down: one of the two is `CLUSTER:PATH`, the other a local path."""
    from sky.launch import files
    from sky.types import Transfer

    session = session or _silent()
    with State() as state:
        up, down_ = _remote(state, target), _remote(state, source)
        if (up is None) == (down_ is None):
            raise UsageError(
                "one side must be CLUSTER:PATH, the other a local path", remedy="sky rsync ./data dev:data"
            )
        cluster, path = up or down_ or ("", "")
        host = host_of(state, cluster)
    local = str(Path(source if up else target).expanduser().absolute())
    if (source if up else target).endswith("/"):
        local += "/"
    transfer = (
        Transfer(direction="up", source=local, target=path, delete=delete)
        if up
        else Transfer(direction="down", source=path, target=local, delete=delete)
    )
    return files.one(session, host, transfer)


def _remote(state: State, text: str) -> tuple[str, str] | None:
    """(cluster, path) if `text` names a cluster we know; a relative path is below the home directory."""
    name, colon, path = text.partition(":")
    if not colon or "/" in name or state.get(name) is None:
        return None
    return name, path if path.startswith(("/", "~")) else f"~/{path}".rstrip("/") if path else "~/"
