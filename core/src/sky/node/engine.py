"""The portable job engine: jobs on any host that a runner reaches, by the protocol of docs/protocol.md.

Used for every place whose runner has no engine of its own (`sky_submit_job`). All calls block.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import ConnectionLost, HostGone, NotYet, ProgramMissing, SkyError, Unreachable
from sky.node import environment, protocol
from sky.types import Job, JobReference, JobState, JobStatus, Place

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session

CALL_SECONDS = 60.0
"""How long a call that only asks may take."""
RECONNECT_SECONDS = 120.0
"""How long a cut stream is taken up again before we give up; the job goes on regardless."""
GRACE_SECONDS = 5
"""Between TERM and KILL when a job is cancelled."""


@dataclass
class Stream:
    """What has been heard of one job. `state` and `code` are final once `ended`."""

    job_id: str = ""
    state: JobState = JobState.PENDING
    code: int | None = None
    position: int = 0
    """Bytes of the log that were passed on, counted from its beginning."""
    ended: bool = False
    _end_position: int = -1


class Engine:
    """Jobs of one place, which has one host."""

    def __init__(self, session: Session, runner: Plugin, place: Place) -> None:
        self._session = session
        self._runner = runner
        self._place = place
        self._host = place.hosts[0]

    def submit(
        self, job: Job, follow: bool, out: BinaryIO, on_state: Callable[[Stream], None] = lambda s: None
    ) -> Stream:
        """Submit; with `follow`, pass its log to `out` until it ends. One round trip.

        Safe to repeat with the same token, and repeated here when the connection is lost. Raises
        `ConnectionLost` when it can't be had again, `HostGone`, `SkyError` when the host refuses.
        """
        env = environment.of_job(job, self._place)
        stream = Stream()

        def again() -> tuple[object, BinaryIO]:
            return protocol.submit(self._host.work_dir, job, env, follow)

        self._call(stream, again, out, on_state)
        while follow and not stream.ended:
            self._take_up(stream, out, on_state)
        return stream

    def logs(
        self,
        job_id: str,
        out: BinaryIO,
        follow: bool,
        tail: int = -1,
        on_state: Callable[[Stream], None] = lambda s: None,
    ) -> Stream:
        """The log of a job, from its beginning or its last `tail` lines, then as it grows if `follow`."""
        stream = Stream(job_id=job_id)
        self._logs(stream, out, follow, tail, on_state)
        while follow and not stream.ended:
            self._take_up(stream, out, on_state)
        return stream

    def jobs(self) -> list[tuple[JobStatus, str]]:
        """Every job, oldest first, and its directory on the host."""
        out = io.BytesIO()
        self._simple(out, "list")
        return [
            (replace(status, reference=JobReference(id=status.id, log_host=self._host, log_path=f"{at}/log")), at)
            for status, at in protocol.parse_list(out.getvalue())
        ]

    def cancel(self, which: str) -> list[tuple[str, str]]:
        """End a job, or `all`; (id, state afterwards) of each. `unknown` and `stuck` are states here."""
        lines = self._simple(io.BytesIO(), "cancel", which, str(GRACE_SECONDS))
        found = []
        for words in lines:
            if words[0] == "cancelled":
                found.append((words[1], words[2]))
            elif words[0] in ("unknown", "stuck"):
                found.append((words[1], words[0]))
        return found

    # --- below: how a call is made, and taken up again --------------------------------------------------

    def _simple(self, out: BinaryIO, verb: str, *args: str) -> list[list[str]]:
        """A call that only asks; retried once when the connection is lost, as asking twice does no harm."""
        for attempt in (1, 2):
            lines: list[list[str]] = []
            control = protocol.Control(lines.append)
            command, stdin = protocol.call(self._host.work_dir, verb, *args)
            try:
                self._run(command, stdin, out, control, CALL_SECONDS)
            except HostGone:
                raise
            except ConnectionLost:
                if attempt == 2:
                    raise
                out.seek(0)
                out.truncate()
                continue
            if lines and lines[-1][0] == "end":
                return lines
            self._refuse(lines, control)
            if attempt == 2:
                break
            out.seek(0)
            out.truncate()
        raise ConnectionLost(f"{self._host.name}: the answer to {verb!r} was cut short")

    def _logs(
        self, stream: Stream, out: BinaryIO, follow: bool, tail: int, on_state: Callable[[Stream], None]
    ) -> None:
        def again() -> tuple[object, BinaryIO]:
            start, lines = str(stream.position), str(tail)
            return protocol.call(
                self._host.work_dir, "logs", stream.job_id, start, lines, "1" if follow else "0"
            )

        self._call(stream, again, out, on_state)

    def _call(
        self,
        stream: Stream,
        make: Callable[[], tuple[object, BinaryIO]],
        out: BinaryIO,
        on_state: Callable[[Stream], None],
    ) -> None:
        """One call whose answer is a stream; what was heard is in `stream`, also when it is cut."""
        lines: list[list[str]] = []

        def heard(words: list[str]) -> None:
            lines.append(words)
            self._hear(stream, words)
            if words[0] in ("job", "state"):
                on_state(stream)

        control = protocol.Control(heard)
        counter = _Counter(stream, out)
        command, stdin = make()
        try:
            self._run(command, stdin, counter, control, None)
        except (HostGone, ProgramMissing):
            raise
        except (ConnectionLost, Unreachable) as error:
            self._lost = error
            if not stream.job_id and isinstance(error, Unreachable):
                raise
            return
        self._refuse(lines, control)
        if stream._end_position >= 0:
            if stream.position != stream._end_position:
                # The channel said all was well and kept some of it: ask for the rest.
                stream._end_position = -1
                self._lost = ConnectionLost(f"{self._host.name}: the log was cut short")
                return
            stream.ended = True

    def _take_up(self, stream: Stream, out: BinaryIO, on_state: Callable[[Stream], None]) -> None:
        """Go on with a stream that was cut, from the byte where it was."""
        session, began = self._session, time.monotonic()
        position = stream.position
        session.warn(f"{self._lost.message}; connecting again")
        pause = 0.2
        while True:
            if not stream.job_id:
                raise self._lost
            self._logs(stream, out, True, -1, on_state)
            if stream.ended or stream.position > position:
                return
            if time.monotonic() - began > RECONNECT_SECONDS:
                raise ConnectionLost(
                    f"{self._lost.message}; job {stream.job_id} may still be running",
                    remedy=f"sky logs {self._place.allocation.cluster_name} {stream.job_id}",
                )
            session.cancel.wait(pause)
            session.cancel.check()
            pause = min(pause * 2, 5.0)

    _lost: SkyError = ConnectionLost("the connection was lost")

    def _run(
        self, command: object, stdin: BinaryIO, out: object, control: protocol.Control, seconds: float | None
    ) -> None:
        ctx = self._session.context(self._runner, seconds)
        code = self._runner.call(
            "sky_run", ctx=ctx, host=self._host, command=command, stdin=stdin, stdout=out, stderr=control
        )
        if code != 0:
            said = control.other.decode("utf-8", "replace").strip().splitlines()
            raise ConnectionLost(
                f"{self._host.name}: the job script ended with {code}" + (f": {said[-1]}" if said else "")
            )

    def _hear(self, stream: Stream, words: list[str]) -> None:
        kind, rest = words[0], words[1:]
        if kind == "job":
            stream.job_id = rest[0]
        elif kind == "state":
            stream.state = JobState(rest[0])
        elif kind == "from":
            stream.position = int(rest[0])
        elif kind == "end":
            stream.state = JobState(rest[0])
            stream.code = int(rest[1]) if rest[1] != "-" else None
            stream._end_position = int(rest[2])
        elif kind == "note":
            self._session.warn(f"{self._host.name}: {' '.join(rest)}")

    def _refuse(self, lines: list[list[str]], control: protocol.Control) -> None:
        for words in lines:
            if words[0] == "missing":
                raise ProgramMissing(words[1], remedy=f"{self._host.name} needs it to run jobs: docs/protocol.md")
            if words[0] == "error":
                message = " ".join(words[1:])
                if message.startswith("no job "):
                    raise NotYet(f"{message} on this cluster", remedy="sky queue lists its jobs")
                raise SkyError(f"{self._host.name}: {message}")


class _Counter:
    """Passes the log on and counts it."""

    def __init__(self, stream: Stream, out: BinaryIO) -> None:
        self._stream, self._out = stream, out

    def write(self, data: bytes) -> int:
        self._out.write(data)
        self._stream.position += len(data)
        return len(data)

    def flush(self) -> None:
        self._out.flush()


