"""Jobs on several nodes by the portable engine: rank 0's node decides, and this is who tells them all.

The job is given to all of them at once, but for one thing, which rank 0 answers: where it waits for the others.
When that has been passed on the nodes need nobody: each log, and the result, is theirs. Same methods as `Engine`.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import ConnectionLost, SkyError, UsageError
from sky.fanout import fan_out
from sky.node import environment, protocol
from sky.node.engine import CALL_SECONDS, Engine, OnState, Stream, check_rank
from sky.node.ranks import Ranks, not_given
from sky.node.stream import given_up
from sky.types import Job, JobStatus, Place

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session

_NO_PORT = "-----"
"""In the place of a port that isn't known yet: all ports have as many digits."""


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
        gang = protocol.gang_file(0, secret, names)
        ports = _Ports()

        def give_first(sink: BinaryIO) -> Stream:
            try:
                return first.submit(job, follow, sink, on_state, envs[0], gang)
            finally:
                ports.give_up()

        def give(rank: int, sink: BinaryIO) -> Stream:
            later = ports.later(rank, lambda port: protocol.gang_file(rank, secret, names, address, port))
            try:
                return self._engines[rank].submit(job, follow, sink, env=envs[rank], gang=later)
            except SkyError:
                if ports.given_up:
                    return Stream()  # it has submitted nothing; the error to tell is rank 0's
                raise

        if not follow:
            first.on_ranks = lambda stream: ports.tell(stream.ports)
            return self._give_all(give_first, give, names, out)
        ranks = Ranks(self._session, self._engines[: job.num_nodes], names, out, all_or_none=True)

        def heard(stream: Stream) -> None:
            ranks.heard(stream)
            ports.tell(stream.ports)

        first.on_ranks = heard
        ranks.follow(job.num_nodes, give)
        return ranks.until_over(give_first)

    def _give_all(
        self,
        give_first: Callable[[BinaryIO], Stream],
        give: Callable[[int, BinaryIO], Stream],
        names: list[str],
        out: BinaryIO,
    ) -> Stream:
        calls = {str(k): functools.partial(give, k, out) for k in range(1, len(names))}
        calls["0"] = functools.partial(give_first, out)
        answers = fan_out(calls, CALL_SECONDS)
        first = answers.pop("0")
        if first.value is None:
            late = ConnectionLost(f"{names[0]}: no answer within {CALL_SECONDS:.0f} s")
            raise first.error or given_up(self._place, Stream(), late)
        for rank, answer in answers.items():
            if answer.value is None:
                self._engines[0].cancel(first.value.job_id)
                raise not_given(names[int(rank)], answer.error)
        return first.value

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
        if rank == 0:
            return first.logs(job_id, out, follow, tail, on_state)
        names = [host.name or host.internal_ip for host in self._place.hosts]
        ranks = Ranks(self._session, self._engines, names, out)

        def heard(stream: Stream) -> None:
            ranks.heard(stream)
            ranks.follow(
                stream.ranks,
                lambda rank, sink: self._engines[rank].logs(f"@{stream.token}", sink, follow, tail),
            )

        first.on_ranks = heard
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


class _Ports:
    """Where rank 0 waits for each of the others, for those who have to know."""

    def __init__(self) -> None:
        self._ports: tuple[str, ...] = ()
        self._settled = threading.Event()

    @property
    def given_up(self) -> bool:
        """Rank 0 was not given the job."""
        return self._settled.is_set() and not self._ports

    def tell(self, ports: tuple[str, ...]) -> None:
        """What rank 0 said."""
        if ports:
            self._ports = ports
            self._settled.set()

    def give_up(self) -> None:
        """It will say nothing any more."""
        self._settled.set()

    def later(self, rank: int, gang_of: Callable[[str], bytes]) -> protocol.Later:
        """The gang file that `gang_of` makes for `rank` of its port."""

        def wait() -> bytes:
            self._settled.wait()
            return gang_of(self._ports[rank - 1]) if self._ports else b""

        return protocol.Later(len(gang_of(_NO_PORT)), wait)


def _token_of(directory: str) -> str:
    return directory.rpartition("/")[2].partition(".")[0]
