"""Jobs of clusters: what there is, their logs, and ending them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sky.client.common import Launched, OnState, gone, silent
from sky.errors import Cancelled, HostGone, UsageError
from sky.state.clusters import State
from sky.types import JobStatus

if TYPE_CHECKING:
    from sky.node.engine import Engine
    from sky.node.gang import Gang
    from sky.node.native import NativeEngine
    from sky.session import Session


def queue(cluster_name: str, *, session: Session | None = None) -> list[JobStatus]:
    """Every job of a cluster, oldest first, as the place itself tells."""
    from sky.launcher import jobs

    session = session or silent()
    with State() as state:
        cluster = state.require(cluster_name)
        engine = jobs.engine_of(session, cluster)
        try:
            return [job for job, _ in engine.jobs()]
        except HostGone as error:
            raise gone(session, state, cluster, error) from error


def logs(
    cluster_name: str,
    job_id: str | None = None,
    *,
    session: Session | None = None,
    follow: bool = True,
    tail: int = -1,
    rank: int | None = None,
    out: BinaryIO | None = None,
    on_state: OnState = lambda stream: None,
) -> Launched:
    """Pass the log of a job (by default the newest) to `out`: all of it or the last `tail` lines.

    Of a job on several nodes those of all ranks, each line with its rank; with `rank` that one's alone.
    """
    from sky.launcher import jobs

    session = session or silent()
    with State() as state:
        cluster = state.require(cluster_name)
        engine = jobs.engine_of(session, cluster)
        try:
            chosen = job_id or _newest(engine.jobs(), cluster_name)
            stream = engine.logs(chosen, out or io.BytesIO(), follow, tail, on_state, rank)
        except HostGone as error:
            raise gone(session, state, cluster, error) from error
    return Launched(
        cluster=cluster_name,
        job_id=chosen,
        state=stream.state,
        exit_code=stream.code,
        reason=stream.reason,
    )


def _newest(found: Sequence[tuple[JobStatus, str]], cluster_name: str) -> str:
    if not found:
        raise UsageError(
            f"cluster {cluster_name!r} has no jobs", remedy=f"sky exec {cluster_name} -- COMMAND"
        )
    return found[-1][0].id


def sync_down_logs(
    cluster_name: str, job_ids: Sequence[str], target: str, *, session: Session | None = None
) -> dict[str, Path]:
    """Copy logs of jobs (by default all) to `target`/ID/; paths by job id.

    `run.log` is a job of one node; one of several is a directory with `rank-N.log` for each.
    """
    from sky.launcher import files, jobs
    from sky.types import Transfer

    session = session or silent()
    with State() as state:
        cluster = state.require(cluster_name)
        engine = jobs.engine_of(session, cluster)
        found = {status.id: status for status, _ in engine.jobs()}
    paths = {}
    for job_id in job_ids or list(found):
        reference = found[job_id].reference if job_id in found else None
        if reference is None or reference.log_host is None:
            raise UsageError(
                f"cluster {cluster_name!r} has no job {job_id}", remedy="sky queue lists its jobs"
            )
        if found[job_id].num_nodes > 1:
            paths[job_id] = Path(target, job_id)
            _copy_ranks(engine, job_id, found[job_id].num_nodes, paths[job_id])
            continue
        path = Path(target, job_id, "run.log")
        files.one(
            session,
            reference.log_host,
            Transfer(direction="down", source=reference.log_path, target=str(path.absolute())),
        )
        paths[job_id] = path
    return paths


def _copy_ranks(engine: Engine | Gang | NativeEngine, job_id: str, ranks: int, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        part = directory / f".rank-{rank}.log"  # the final name never holds a part
        with part.open("wb") as file:
            engine.logs(job_id, file, False, rank=rank)
        part.replace(directory / f"rank-{rank}.log")


def cancel(
    cluster_name: str, job_ids: Sequence[str] = (), *, session: Session | None = None, every: bool = False
) -> list[tuple[str, str]]:
    """End jobs and everything they started; (id, state afterwards) of each. Finished jobs stay as they are."""
    from sky.launcher import jobs

    session = session or silent()
    with State() as state:
        cluster = state.require(cluster_name)
        engine = jobs.engine_of(session, cluster)
        if not every and not job_ids:
            job_ids = [_newest(engine.jobs(), cluster_name)]
        result: list[tuple[str, str]] = []
        for which in ["all"] if every else job_ids:
            try:
                result += engine.cancel(which)
            except Cancelled as error:
                raise Cancelled(
                    "interrupted: what the nodes were told they finish by themselves",
                    remedy=f"sky queue {cluster_name} tells how the jobs are",
                ) from error
        return result
