"""Getting a cluster and running jobs on it: `launch`, `exec`, and what a launch would do."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from sky.client.common import Launched, OnState, gone, silent
from sky.errors import Cancelled, HostGone, UsageError
from sky.state.clusters import Cluster, ClusterStatus, State, locked

if TYPE_CHECKING:
    from sky.launcher.candidates import Candidate, Candidates
    from sky.node.engine import Stream
    from sky.session import Session
    from sky.task.model import Task

Confirm = Callable[["Candidates", str], bool]


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
    from sky.launcher import candidates, files, jobs, names

    session = session or silent()
    name = names.automatic() if cluster_name is None else names.check(cluster_name)
    task = _with_policy(session, task)
    task = files.check(task, session.warn)
    seconds = candidates.FEASIBLE_SECONDS if wait_seconds is None else wait_seconds
    with State() as state:
        with locked(name, session.cancel, lambda holder: session.phase(f"waiting for {holder}")):
            cluster = _obtain(session, state, name, task, confirm, seconds)
            try:
                files.upload(session, cluster.hosts, task)
            except Cancelled as error:
                raise Cancelled(
                    f"{error.message}; cluster {name!r} is up, and stays",
                    remedy=f"sky launch -c {name} goes on where it was; sky down {name} gives it back",
                ) from error
        if task.run is None and (task.setup is None or no_setup):
            return Launched(cluster=name)
        job = jobs.job_from(session, task, cluster, with_setup=not no_setup)
        return _submit(session, state, cluster, task, job, detach, out, on_state)


def _obtain(
    session: Session, state: State, name: str, task: Task, confirm: Confirm, wait_seconds: float
) -> Cluster:
    """The cluster of that name, up: as it is, taken up again, or made."""
    from sky.launcher import candidates, jobs, lifecycle, provision

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

    from sky.launcher import jobs

    session = session or silent()
    with State() as state:
        cluster = state.require(cluster_name)
        task = _with_policy(session, task)
        jobs.place_of(cluster)
        jobs.check_fits(session, task, cluster)
        if task.run is None:
            raise UsageError(
                "there is nothing to run", remedy="the task has no `run`, and no command was given"
            )
        if task.workdir is not None or task.git is not None:
            from sky.launcher import files

            task = replace(task, file_mounts={})
            task = files.check(task, session.warn)
            files.upload(session, cluster.hosts, task)
        job = jobs.job_from(session, task, cluster, with_setup=False)
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
    from sky.launcher import jobs

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
        raise gone(session, state, cluster, error) from error
    except Cancelled as error:
        raise _detached(cluster.name, job_id) from error
    return Launched(
        cluster=cluster.name,
        job_id=stream.job_id,
        state=None if detach else stream.state,
        exit_code=None if detach else stream.code,
        reason=stream.reason,
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


def _with_policy(session: Session, task: Task) -> Task:
    observers = session.registry.observers()
    if not observers:
        return task
    return observers.policy(session.observer_context(), task)


def plan(task: Task, *, session: Session | None = None, wait_seconds: float | None = None) -> Candidates:
    """Where the task could run and what it would cost; creates nothing."""
    from sky.launcher import candidates, files

    session = session or silent()
    task = _with_policy(session, task)
    task = files.check(task, session.warn)
    return candidates.find(
        session, task, candidates.FEASIBLE_SECONDS if wait_seconds is None else wait_seconds
    )


def preview(task: Task, candidate: Candidate, cluster_name: str | None, *, session: Session) -> str:
    """What the candidate's cloud would be asked for, as text; empty where the cloud can't tell."""
    from sky.launcher import names, provision

    name = names.automatic() if cluster_name is None else names.check(cluster_name)
    cloud = session.registry.cloud(candidate.offer.cloud)
    if not cloud.has("sky_preview"):
        return ""
    spec = provision.new_spec(name, task, candidate)
    ctx = session.context(cloud, task_config=task.config)
    return str(cloud.call("sky_preview", ctx=ctx, spec=spec))
