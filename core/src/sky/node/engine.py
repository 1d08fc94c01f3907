"""The portable job engine: jobs on any host that a runner reaches, by the protocol of docs/protocol.md.

Used for every place whose runner has no engine of its own (`sky_submit_job`). All calls block.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Literal

from sky.errors import Cancelled, ConnectionLost, HostGone, ProgramMissing, SkyError, Unreachable, UsageError
from sky.node import environment, protocol
from sky.node.stream import OnState as OnState
from sky.node.stream import Sink, cancelled, given_up
from sky.node.stream import Stream as Stream
from sky.types import Command, Job, JobReference, JobState, JobStatus, Place

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session

CALL_SECONDS = 60.0
"""How long a call that only asks may take."""
RECONNECT_SECONDS = 120.0
"""How long a cut stream is taken up again before we give up; the job goes on regardless."""
PAUSE_SECONDS = (0.2, 5.0)
"""Between two attempts at that: the first and the longest; each is twice the last."""
GRACE_SECONDS = 5
"""Between TERM and KILL when a job is cancelled."""

Mode = Literal["follow", "read", "detach"]
"""How much of a job's log is wanted: all to its end, what there is, none."""


Made = tuple[Command, BinaryIO]


class Engine:
    """Jobs of one place, which has one host."""

    def __init__(self, session: Session, runner: Plugin, place: Place) -> None:
        self._session = session
        self._runner = runner
        self._place = place
        self._host = place.hosts[0]
        self._noted: set[str] = set()

    def submit(self, job: Job, follow: bool, out: BinaryIO, on_state: OnState = lambda s: None) -> Stream:
        """Submit; with `follow`, pass its log to `out` until it ends. One round trip.

        May be repeated with the same token, and is when the connection is lost. Raises `Unreachable` when
        nothing was started, `ConnectionLost` when the connection can't be had again (the job may go on),
        `Cancelled` (the job goes on), `HostGone`, and `SkyError` when the host refuses.
        """
        env = environment.of_job(job, self._place)
        stream = Stream()
        self._converse(
            stream,
            lambda: protocol.submit(self._host.work_dir, job, env, follow),
            Sink(stream, out, held_until="job"),
            "follow" if follow else "detach",
            on_state,
        )
        return stream

    def logs(
        self, job_id: str, out: BinaryIO, follow: bool, tail: int = -1, on_state: OnState = lambda s: None
    ) -> Stream:
        """The log of a job, from its beginning or its last `tail` lines, then as it grows if `follow`.

        Raises `UsageError` when there is no such job, and what `submit` raises.
        """
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
        out, _ = self._ask("list")
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
        # Each job may take its grace: no limit for all of them.
        _, lines = self._ask("cancel", which, str(GRACE_SECONDS), seconds=None)
        found = []
        for words in lines:
            if words[0] == "cancelled":
                found.append((words[1], words[2]))
            elif words[0] in ("unknown", "stuck"):
                found.append((words[1], words[0]))
        return found

    # --- calls that only ask ----------------------------------------------------------------------------

    def _ask(
        self, verb: str, *args: str, seconds: float | None = CALL_SECONDS
    ) -> tuple[bytes, list[list[str]]]:
        """Output and control lines; once more when the answer was cut, as asking twice does no harm."""
        lost = ConnectionLost(f"{self._host.name}: the answer to {verb!r} was cut short")
        for _ in range(2):
            out = io.BytesIO()
            lines: list[list[str]] = []
            try:
                self._run(protocol.call(self._host.work_dir, verb, *args), out, lines.append, seconds)
            except HostGone:
                raise
            except ConnectionLost as error:
                lost = error
                continue
            self._refuse(lines)
            ended = bool(lines) and lines[-1][0] == "end"
            if ended and (verb != "list" or out.getvalue().count(b"\n") == int(lines[-1][1])):
                return out.getvalue(), lines
        raise lost

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
                if quiet_since is None:
                    if isinstance(lost, Unreachable):
                        raise lost
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
        base, end = stream.position, -1

        def hear(words: list[str]) -> None:
            nonlocal end
            lines.append(words)
            kind, rest = words[0], words[1:]
            was = (stream.job_id, stream.state)
            if kind == "job":
                stream.job_id = rest[0]
            elif kind == "state":
                stream.state = JobState(rest[0])
            elif kind == "from":
                # Some of what follows it may have come before, on the other channel.
                stream.position += int(rest[0]) - base
            elif kind == "end":
                stream.state = JobState(rest[0])
                stream.code = int(rest[1]) if rest[1] != "-" else None
                end = int(rest[2])
            elif kind == "note":
                self._note(" ".join(rest))
            sink.heard(kind)
            if was != (stream.job_id, stream.state) and kind != "end":
                on_state(stream)

        lost: SkyError | None = None
        try:
            self._run(made, sink, hear, None)
        except (HostGone, ProgramMissing):
            raise
        except (ConnectionLost, Unreachable) as error:
            lost = error
        if not sink.placed:
            stream.position = base
            sink.forget()
        if lost is None:
            self._refuse(lines)
        # That the channel says all was well isn't enough, it may have kept some; that it broke afterwards is
        # no loss. A job that isn't followed has been started when its id is told.
        stream.ended = stream.position == end
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

    # --- below both -------------------------------------------------------------------------------------

    def _run(self, made: Made, out: object, hear: Callable[[list[str]], None], seconds: float | None) -> None:
        """Raises what `sky_run` raises, and `ConnectionLost` for a script that ended in an unforeseen way."""
        command, stdin = made
        control = protocol.Control(hear)
        ctx = self._session.context(self._runner, seconds)
        code = self._runner.call(
            "sky_run", ctx=ctx, host=self._host, command=command, stdin=stdin, stdout=out, stderr=control
        )
        if code != 0:
            said = control.other.decode("utf-8", "replace").strip().splitlines()
            raise ConnectionLost(
                f"{self._host.name}: the job script ended with {code}" + (f": {said[-1]}" if said else "")
            )

    def _refuse(self, lines: list[list[str]]) -> None:
        for words in lines:
            if words[0] == "missing":
                raise ProgramMissing(
                    words[1], remedy=f"{self._host.name} needs it to run jobs: docs/protocol.md"
                )
            if words[0] == "error":
                message = " ".join(words[1:])
                if message.startswith("no job "):
                    raise UsageError(f"{message} on this cluster", remedy="sky queue lists its jobs")
                raise SkyError(f"{self._host.name}: {message}")
