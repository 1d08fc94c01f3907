"""Jobs on several nodes by the portable engine: rank 0's node decides, and this is who tells them all.

The job is given to rank 0, which answers where it waits for the others; then it is given to them, all at once.
From there on the nodes need nobody: each log, and the result, is theirs. Same methods as `Engine`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import SkyError, UsageError
from sky.fanout import fan_out
from sky.node import environment, protocol
from sky.node.engine import CALL_SECONDS, Engine, OnState, Stream, check_rank
from sky.node.ranks import Ranks, not_given
from sky.types import Job, JobStatus, Place

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session


class Gang:
    """Jobs of a place of several hosts. Those of one node run on rank 0's."""

    def __init__(self, session: Session, runner: Plugin, place: Place) -> None:
        self._session = session
        self._place = place
        self._engines = [Engine(session, runner, place, rank) for rank in range(len(place.hosts))]

    def submit(self, job: Job, follow: bool, out: BinaryIO, on_state: OnState = lambda s: None) -> Stream:
        """As `Engine.submit`. When a rank can't be given the job, none runs it, and its error is raised."""
        first = self._engines[0]
        if job.num_nodes == 1:
            return first.submit(job, follow, out, on_state)
        secret, now = os.urandom(16).hex(), time.time()
        names = [host.name or host.internal_ip for host in self._place.hosts[: job.num_nodes]]
        address = self._place.hosts[0].internal_ip
        if not address:
            raise SkyError(f"{names[0]}: its cloud doesn't say at which address the other nodes reach it")
        envs = [environment.of_job(job, self._place, rank, now) for rank in range(job.num_nodes)]

        def give(rank: int, ports: tuple[str, ...], sink: BinaryIO) -> Stream:
            gang = protocol.gang_file(rank, secret, names, address, ports[rank - 1])
            return self._engines[rank].submit(job, follow, sink, env=envs[rank], gang=gang)

        gang = protocol.gang_file(0, secret, names)
        first.on_ranks = lambda stream: None
        if not follow:
            stream = first.submit(job, False, out, on_state, envs[0], gang)
            self._give_all(stream, names, lambda rank: give(rank, stream.ports, out))
            return stream
        ranks = Ranks(self._session, self._engines[: job.num_nodes], names, out, all_or_none=True)
        first.on_ranks = lambda stream: ranks.follow(
            stream, lambda rank, sink: give(rank, stream.ports, sink)
        )
        return ranks.until_over(lambda sink: first.submit(job, True, sink, on_state, envs[0], gang))

    def _give_all(self, first: Stream, names: list[str], give: Callable[[int], Stream]) -> None:
        calls = {str(k): lambda k=k: give(k) for k in range(1, len(names))}
        for rank, answer in fan_out(calls, CALL_SECONDS).items():
            if answer.value is None:
                self._engines[0].cancel(first.job_id)
                raise not_given(names[int(rank)], answer.error)

    def logs(
        self,
        job_id: str,
        out: BinaryIO,
        follow: bool,
        tail: int = -1,
        on_state: OnState = lambda s: None,
        rank: int | None = None,
    ) -> Stream:
        """As `Engine.logs`, of all ranks, each line with its rank; or of one, as it is."""
        first = self._engines[0]
        if rank:
            token = self._token(job_id, rank)
            return self._engines[rank].logs(f"@{token}", out, follow, tail)
        first.on_ranks = lambda stream: None
        if rank == 0:
            return first.logs(job_id, out, follow, tail, on_state)
        names = [host.name or host.internal_ip for host in self._place.hosts]
        ranks = Ranks(self._session, self._engines, names, out)
        first.on_ranks = lambda stream: ranks.follow(
            stream,
            lambda rank, sink: self._engines[rank].logs(f"@{stream.token}", sink, follow, tail),
        )
        return ranks.until_over(lambda sink: first.logs(job_id, sink, follow, tail, on_state))

    def jobs(self) -> list[tuple[JobStatus, str]]:
        """As `Engine.jobs`."""
        return self._engines[0].jobs()

    def cancel(self, which: str) -> list[tuple[str, str]]:
        """As `Engine.cancel`, on every node: nothing of the jobs lives anywhere when it returns.

        A node that can't be reached is a warning: it notices by itself that rank 0 is gone.
        """
        if which == "all":
            found = self._engines[0].cancel("all")
            others = dict.fromkeys(range(1, len(self._engines)), "all")
        else:
            found = self._engines[0].cancel(which)
            at = {status.id: (status.num_nodes, directory) for status, directory in self.jobs()}
            nodes, directory = at.get(which, (1, ""))
            others = {rank: f"@{_token_of(directory)}" for rank in range(1, nodes)}
        calls = {
            str(rank): lambda rank=rank, w=w: self._engines[rank].cancel(w) for rank, w in others.items()
        }
        for rank, answer in fan_out(calls, CALL_SECONDS).items():
            name = self._place.hosts[int(rank)].name
            if answer.value is None:
                why = getattr(answer.error, "message", answer.error) or "no answer"
                self._session.warn(f"{name}: {why}; what runs there ends by itself within seconds")
            elif any(state == "stuck" for _, state in answer.value):
                found = [(job_id, "stuck" if job_id == which or which == "all" else s) for job_id, s in found]
        return found

    def _token(self, job_id: str, rank: int) -> str:
        """By which that rank knows the job. Raises `UsageError` when it has no such rank."""
        for status, directory in self.jobs():
            if status.id == job_id:
                check_rank(job_id, status.num_nodes, rank)
                return _token_of(directory)
        raise UsageError(f"no job {job_id} on this cluster", remedy="sky queue lists its jobs")


def _token_of(directory: str) -> str:
    return directory.rpartition("/")[2].partition(".")[0]
