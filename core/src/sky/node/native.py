"""Jobs of a place whose own engine runs them (a batch system): the contract's job hooks, seen as an `Engine`.

The engine gangs, queues and kills; what is left for the core is to pass the log on, which it reads in
slices from wherever the engine says it is.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from sky.errors import (
    Cancelled,
    ConnectionLost,
    HostGone,
    NotSupported,
    ProgramMissing,
    SkyError,
    Unreachable,
    UsageError,
)
from sky.node import environment, protocol
from sky.node.engine import RECONNECT_SECONDS
from sky.node.stream import OnState, Stream, cancelled, given_up
from sky.types import Job, JobReference, JobStatus, Place

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session

CALL_SECONDS = 60.0
POLL_SECONDS = (0.05, 1.0)
"""The first pause between two looks at a job, and the longest; each is half as long again as the last."""


class NativeEngine:
    """Same methods as `Engine`, same results."""

    def __init__(self, session: Session, runner: Plugin, place: Place) -> None:
        self._session = session
        self._runner = runner
        self._place = place

    def submit(self, job: Job, follow: bool, out: BinaryIO, on_state: OnState = lambda s: None) -> Stream:
        job = replace(job, envs=environment.of_job(replace(job, secrets={}), self._place))
        reference: JobReference = self._call("sky_submit_job", job=job)
        stream = Stream(job_id=reference.id)
        on_state(stream)
        if follow:
            self._follow(stream, _Sink(stream, out), True, on_state)
        return stream

    def logs(
        self,
        job_id: str,
        out: BinaryIO,
        follow: bool,
        tail: int = -1,
        on_state: OnState = lambda s: None,
        rank: int | None = None,
    ) -> Stream:
        if rank:
            raise NotSupported("this place keeps one log for all ranks")
        stream = Stream(job_id=job_id)
        self._follow(stream, _Sink(stream, out, tail), follow, on_state)
        return stream

    def jobs(self) -> list[tuple[JobStatus, str]]:
        found: list[JobStatus] = list(self._call("sky_query_jobs", references=None))
        return [(status, "") for status in found]

    def cancel(self, which: str) -> list[tuple[str, str]]:
        before = {status.id: status for status, _ in self.jobs()}
        wanted = [i for i, s in before.items() if not s.state.final] if which == "all" else [which]
        for job_id in wanted:
            if job_id in before:
                self._call("sky_cancel_job", reference=before[job_id].reference or JobReference(id=job_id))
        after = {status.id: status for status, _ in self.jobs()}
        return [(i, after[i].state if i in after else "unknown") for i in wanted]

    # ---------------------------------------------------------------------------------------------------

    def _call(self, hook: str, **arguments: Any) -> Any:
        ctx = self._session.context(self._runner, CALL_SECONDS)
        return self._runner.call(hook, ctx=ctx, place=self._place, **arguments)

    def _status(self, job_id: str) -> JobStatus:
        found = list(self._call("sky_query_jobs", references=[JobReference(id=job_id)]))
        if not found:
            raise UsageError(f"no job {job_id} on this cluster", remedy="sky queue lists its jobs")
        return found[0]  # type: ignore[no-any-return]

    def _follow(self, stream: Stream, sink: _Sink, follow: bool, on_state: OnState) -> None:
        """Look until all has come. A look that is cut is made again: the next begins where it was."""
        pause, looked = POLL_SECONDS[0], False
        lost_since: float | None = None
        while True:
            try:
                if self._look(stream, sink, follow, on_state):
                    return
                looked, lost_since = True, None
                self._session.cancel.wait(pause)
                self._session.cancel.check()
            except HostGone:
                raise
            except (ConnectionLost, Unreachable) as error:
                if isinstance(error, Unreachable) and not looked:
                    raise
                now = time.monotonic()
                if lost_since is None:
                    lost_since = now
                    self._session.warn(f"{error.message}; connecting again")
                if now - lost_since > RECONNECT_SECONDS:
                    raise given_up(self._place, stream, error) from error
                self._session.cancel.wait(pause)
            except Cancelled as error:
                raise cancelled(self._place, stream) from error
            pause = min(pause * 1.5, POLL_SECONDS[1])

    def _look(self, stream: Stream, sink: _Sink, follow: bool, on_state: OnState) -> bool:
        status = self._status(stream.job_id)
        if status.state != stream.state:
            stream.state = status.state
            on_state(stream)
        # Read after asking: whatever the job wrote before its end is in this slice.
        self._slice(stream, status.reference, sink)
        sink.place()
        stream.code = status.exit_code
        stream.ended = status.state.final or not follow
        return stream.ended

    def _slice(self, stream: Stream, reference: JobReference | None, sink: _Sink) -> None:
        if reference is None or reference.log_host is None or not reference.log_path:
            return
        host = reference.log_host
        lines: list[list[str]] = []
        command, stdin = protocol.call(host.work_dir, "slice", reference.log_path, str(stream.position))
        runner = self._session.registry.runner(host.transport)
        ctx = self._session.context(runner, CALL_SECONDS)
        control = protocol.Control(lines.append)
        code = runner.call(
            "sky_run", ctx=ctx, host=host, command=command, stdin=stdin, stdout=sink, stderr=control
        )
        kind, *rest = lines[-1] if lines and code == 0 else ["cut"]
        if kind == "missing":
            raise ProgramMissing(rest[0], remedy=f"{host.name} needs it to show logs: docs/protocol.md")
        if kind == "error" and rest[:2] != ["no", "file"]:  # the job hasn't written any yet
            raise SkyError(f"{host.name}: {' '.join(rest)}")
        if kind == "cut" or (kind == "end" and int(rest[2]) != stream.position):
            raise ConnectionLost(f"{host.name}: the log was cut short")


class _Sink:
    """Passes the log on and counts it; of what is there at first, only the last `tail` lines if not negative."""

    def __init__(self, stream: Stream, out: BinaryIO, tail: int = -1) -> None:
        self._stream, self._out, self._tail = stream, out, tail
        self._kept = b""

    def write(self, data: bytes) -> int:
        self._stream.position += len(data)
        if self._tail < 0:
            self._out.write(data)
        else:
            lines = (self._kept + data).split(b"\n")
            # The last part is a line only if something is in it.
            keep = self._tail + (1 if lines[-1] == b"" else 0)
            self._kept = b"\n".join(lines[-keep:]) if self._tail else b""
        return len(data)

    def place(self) -> None:
        """The first look is through: what was kept of it is shown, and from now on everything."""
        self._out.write(self._kept)
        self._kept, self._tail = b"", -1

    def flush(self) -> None:
        self._out.flush()
