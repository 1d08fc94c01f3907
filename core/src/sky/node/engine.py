"""The portable job engine: jobs on any host that a runner reaches, by the protocol of docs/protocol.md.

Used for every place whose runner has no engine of its own (`sky_submit_job`). All calls block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Literal

from sky.errors import Cancelled, ConnectionLost, HostGone, ProgramMissing, SkyError, Unreachable, UsageError
from sky.node import environment, protocol
from sky.node.caller import Caller, Made, as_run
from sky.node.stream import OnState as OnState
from sky.node.stream import Sink, cancelled, given_up, read
from sky.node.stream import Stream as Stream
from sky.types import Job, JobReference, JobStatus, Place

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session

CALL_SECONDS = 60.0
"""How long a call that only asks may take."""
RECONNECT_SECONDS = 120.0
"""How long a cut stream is taken up again before we give up; the job goes on regardless."""
PAUSE_SECONDS = (0.2, 5.0)
"""Between two attempts at that: the first and the longest; each is twice the last."""

Mode = Literal["follow", "read", "detach"]
"""How much of a job's log is wanted: all to its end, what there is, none."""


def check_rank(job_id: str, num_nodes: int, rank: int) -> None:
    """Raise `UsageError` unless a job has that rank."""
    if rank >= num_nodes:
        ran = f"ranks 0 to {num_nodes - 1}" if num_nodes > 1 else "one node, rank 0"
        raise UsageError(
            f"job {job_id} has {ran}, no {rank}", remedy="sky queue tells how many nodes a job has"
        )


def _quiet(stream: Stream) -> None:
    """Nobody wants to know."""


class Engine:
    """Jobs of one host of a place: of rank 0, where jobs are numbered, unless another rank is named."""

    def __init__(self, session: Session, runner: Plugin, place: Place, rank: int = 0) -> None:
        self._session = session
        self._place = place
        self._host = place.hosts[rank]
        self._caller = Caller(
            as_run(runner.call), self._host, lambda seconds: session.context(runner, seconds)
        )
        self._noted: set[str] = set()
        self.on_ranks: OnState = _quiet
        """Called once it's known that a job has several ranks, before anything of its log is passed on."""
        self.pointless: Callable[[], SkyError | None] = lambda: None
        """Asked before a cut stream is taken up again; what it answers is raised instead."""

    def submit(
        self,
        job: Job,
        follow: bool,
        out: BinaryIO,
        on_state: OnState = _quiet,
        env: Mapping[str, str] | None = None,
        gang: bytes | protocol.Later | None = None,
    ) -> Stream:
        """Submit; with `follow`, pass its log to `out` until it ends. One round trip.

        May be repeated with the same token, and is when the connection is lost. Raises `Unreachable` when
        nothing was started, `ConnectionLost` when the connection can't be had again (the job may go on),
        `Cancelled` (the job goes on), `HostGone`, and `SkyError` when the host refuses.
        """
        given = environment.of_job(job, self._place) if env is None else env
        stream = Stream()
        self._converse(
            stream,
            lambda: protocol.submit(self._host.work_dir, job, given, follow, gang),
            Sink(stream, out, held_until="job"),
            "follow" if follow else "detach",
            on_state,
        )
        return stream

    def logs(
        self,
        job_id: str,
        out: BinaryIO,
        follow: bool,
        tail: int = -1,
        on_state: OnState = _quiet,
        rank: int | None = None,
    ) -> Stream:
        """The log of a job, from its beginning or its last `tail` lines, then as it grows if `follow`.

        `rank` is there for places of several hosts: here there is one. Raises `UsageError` when there is no
        such job or rank, and what `submit` raises.
        """
        check_rank(job_id, 1, rank or 0)
        stream = Stream(job_id=job_id)
        self._converse(
            stream,
            lambda: self._logs(stream, follow, tail),
            Sink(stream, out, held_until="from"),
            "follow" if follow else "read",
            on_state,
        )
        return stream

    def jobs(self) -> list[tuple[JobStatus, str]]:
        """Every job, oldest first, and its directory on the host."""
        out, _ = self._caller.ask("list", seconds=CALL_SECONDS)
        return [
            (
                replace(
                    status, reference=JobReference(id=status.id, log_host=self._host, log_path=f"{at}/log")
                ),
                at,
            )
            for status, at in protocol.parse_list(out)
        ]

    def cancel(self, which: str) -> list[tuple[str, str]]:
        """End a job, or `all`; (id, state afterwards) of each. `unknown` and `stuck` are states here."""
        found = []
        for words in self._caller.cancel(which):
            if words[0] == "cancelled":
                found.append((words[1], words[2]))
            elif words[0] in ("unknown", "stuck"):
                found.append((words[1], words[0]))
        return found

    # --- calls whose answer is a stream -----------------------------------------------------------------

    def _converse(
        self, stream: Stream, first: Callable[[], Made], sink: Sink, mode: Mode, on_state: OnState
    ) -> None:
        """Make the `first` call; while its answer is cut, take it up again from the byte where it was."""
        pause = PAUSE_SECONDS[0]
        quiet_since: float | None = None
        while True:
            before = stream.position
            taken_up = sink.placed
            made = self._logs(stream, mode == "follow", -1) if taken_up else first()
            try:
                lost = self._stream(stream, made, sink, mode, on_state)
                if lost is None:
                    return
                now = time.monotonic()
                if quiet_since is None and isinstance(lost, Unreachable):
                    raise lost
                if (pointless := self.pointless()) is not None:
                    raise pointless
                if quiet_since is None:
                    self._session.warn(f"{lost.message}; connecting again")
                if quiet_since is None or stream.position > before:
                    pause, quiet_since = PAUSE_SECONDS[0], now
                if now - quiet_since > RECONNECT_SECONDS:
                    raise given_up(self._place, stream, lost)
                self._session.cancel.wait(pause)
                self._session.cancel.check()
            except Cancelled as error:
                raise cancelled(self._place, stream) from error
            pause = min(pause * 2, PAUSE_SECONDS[1])

    def _stream(
        self, stream: Stream, made: Made, sink: Sink, mode: Mode, on_state: OnState
    ) -> SkyError | None:
        """One call. What was heard is in `stream`, also when it was cut: then the answer says by what."""
        lines: list[list[str]] = []
        base = stream.position
        stream.end = -1

        def hear(words: list[str]) -> None:
            lines.append(words)
            kind = words[0]
            was = (stream.job_id, stream.state)
            read(stream, words, base)
            if kind == "note":
                self._note(" ".join(words[1:]))
            elif kind in ("gang", "ranks"):
                self.on_ranks(stream)
            sink.heard(kind)
            if was != (stream.job_id, stream.state) and kind != "end":
                on_state(stream)

        lost: SkyError | None = None
        try:
            self._caller.call(made, sink, hear, None)
        except (HostGone, ProgramMissing):
            raise
        except (ConnectionLost, Unreachable) as error:
            lost = error
        if not sink.placed:
            stream.position = base
            sink.forget()
        if lost is None:
            self._caller.refuse(lines)
        # That the channel says all was well isn't enough, it may have kept some; that it broke afterwards is
        # no loss. A job that isn't followed has been started when its id is told.
        stream.ended = stream.position == stream.end
        if stream.ended or (mode == "detach" and stream.job_id):
            return None
        return lost or ConnectionLost(f"{self._host.name}: the answer was cut short")

    def _logs(self, stream: Stream, follow: bool, tail: int) -> Made:
        at, lines = str(stream.position), str(tail)
        return protocol.call(self._host.work_dir, "logs", stream.job_id, at, lines, "1" if follow else "0")

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._session.warn(f"{self._host.name}: {text}")
