"""Jobs of a place whose own engine runs them (a batch system): the contract's job hooks, seen as an `Engine`.

The engine gangs, queues and kills; what is left for the core is to pass the log on, which it reads in
slices from wherever the engine says it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from sky.errors import ConnectionLost, NotYet
from sky.node import environment, protocol
from sky.node.engine import Engine, Stream
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

    def submit(
        self, job: Job, follow: bool, out: BinaryIO, on_state: Callable[[Stream], None] = lambda s: None
    ) -> Stream:
        job = replace(job, envs=environment.of_job(replace(job, secrets={}), self._place))
        reference: JobReference = self._call("sky_submit_job", job=job)
        stream = Stream(job_id=reference.id)
        on_state(stream)
        if follow:
            self._follow(stream, out, True, on_state)
        return stream

    def logs(
        self,
        job_id: str,
        out: BinaryIO,
        follow: bool,
        tail: int = -1,
        on_state: Callable[[Stream], None] = lambda s: None,
    ) -> Stream:
        stream = Stream(job_id=job_id)
        sink = out if tail < 0 else _Tail(out, tail)
        self._follow(stream, sink, follow, on_state)
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
            raise NotYet(f"no job {job_id} on this cluster", remedy="sky queue lists its jobs")
        return found[0]  # type: ignore[no-any-return]

    def _follow(
        self, stream: Stream, out: BinaryIO, follow: bool, on_state: Callable[[Stream], None]
    ) -> None:
        pause = POLL_SECONDS[0]
        while True:
            status = self._status(stream.job_id)
            if status.state != stream.state:
                stream.state, stream.code = status.state, status.exit_code
                on_state(stream)
            # Read after asking: whatever the job wrote before its end is in this slice.
            self._slice(stream, status.reference, out)
            if status.state.final or not follow:
                stream.code = status.exit_code
                stream.ended = status.state.final
                if isinstance(out, _Tail):
                    out.finish()
                return
            self._session.cancel.wait(pause)
            self._session.cancel.check()
            pause = min(pause * 1.5, POLL_SECONDS[1])

    def _slice(self, stream: Stream, reference: JobReference | None, out: BinaryIO) -> None:
        if reference is None or reference.log_host is None or not reference.log_path:
            return
        host = reference.log_host
        ended: list[int] = []

        def hear(words: list[str]) -> None:
            if words[0] == "end":
                ended.append(int(words[3]))

        command, stdin = protocol.call(host.work_dir, "slice", reference.log_path, str(stream.position))
        runner = self._session.registry.runner(host.transport)
        ctx = self._session.context(runner, CALL_SECONDS)
        before = _Counted(out)
        runner.call(
            "sky_run", ctx=ctx, host=host, command=command, stdin=stdin, stdout=before, stderr=protocol.Control(hear)
        )
        if ended and ended[0] != stream.position + before.count:
            raise ConnectionLost(f"{host.name}: the log was cut short")
        stream.position += before.count


class _Counted:
    def __init__(self, out: BinaryIO) -> None:
        self._out, self.count = out, 0

    def write(self, data: bytes) -> int:
        self._out.write(data)
        self.count += len(data)
        return len(data)

    def flush(self) -> None:
        self._out.flush()


class _Tail:
    """Keeps the last lines of what is there at first; afterwards passes everything on."""

    def __init__(self, out: BinaryIO, lines: int) -> None:
        self._out, self._lines, self._kept = out, lines, b""

    def write(self, data: bytes) -> int:
        self._kept = b"".join((self._kept + data).splitlines(keepends=True)[-self._lines :] if self._lines else [])
        return len(data)

    def finish(self) -> None:
        self._out.write(self._kept)
        self._kept = b""

    def flush(self) -> None:
        self._out.flush()


