"""Files that misbehave, watch or wait, for the streams of `sky_run`."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field
from typing import BinaryIO

from sky.api import CancelToken, Command, Event, Host
from sky.registry.plugins import Plugin
from sky.testing.lab import MakeContext


@dataclass(frozen=True)
class Ran:
    """What came of one command."""

    code: int
    out: bytes
    err: bytes


@dataclass
class Remote:
    """One host and its runner; `run` and `sh` give what the host said."""

    runner: Plugin
    host: Host
    make_context: MakeContext
    events: list[Event] = field(default_factory=list)

    def run(
        self,
        *argv: str,
        stdin: BinaryIO | bytes | None = None,
        mode: str = "eof",
        seconds: float | None = 60.0,
        cancel: CancelToken | None = None,
        stdout: BinaryIO | None = None,
    ) -> Ran:
        """`sky_run`. `stdout` takes the output instead of the result."""
        out, err = io.BytesIO(), io.BytesIO()
        code = self.runner.hook.sky_run(
            ctx=self.make_context(seconds, cancel=cancel),
            host=self.host,
            command=Command(argv=argv, stdin_mode=mode),  # type: ignore[arg-type]
            stdin=io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin,
            stdout=stdout or out,
            stderr=err,
        )
        return Ran(code, out.getvalue(), err.getvalue())

    def sh(self, script: str, *args: str) -> bytes:
        """What a script printed; it must succeed."""
        ran = self.run("sh", "-c", script, "sh", *args)
        assert ran.code == 0, ran.err
        return ran.out


class Failing(io.BytesIO):
    """Reads or takes `after` bytes, then raises `error`."""

    def __init__(self, error: Exception, after: int = 0) -> None:
        super().__init__()
        self.error, self._left = error, after

    def read(self, size: int | None = -1, /) -> bytes:
        return self._take(size)

    def read1(self, size: int | None = -1, /) -> bytes:
        return self._take(size)

    def _take(self, size: int | None) -> bytes:
        if self._left <= 0:
            raise self.error
        count = self._left if size is None or size < 0 else min(size, self._left)
        self._left -= count
        return b"x" * count

    def write(self, data: object, /) -> int:
        self._left -= len(data)  # type: ignore[arg-type]
        if self._left < 0:
            raise self.error
        return len(data)  # type: ignore[arg-type]


class Told(io.BytesIO):
    """Says when the first byte has arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()

    def write(self, data: object, /) -> int:
        count = super().write(data)  # type: ignore[arg-type]
        self.arrived.set()
        return count


class OneAtATime(io.BytesIO):
    """Notices when two threads write at once; `busy` is shared by the streams of one command."""

    def __init__(self, busy: threading.Lock) -> None:
        super().__init__()
        self._busy = busy
        self.overlapped = False

    def write(self, data: object, /) -> int:
        if not self._busy.acquire(blocking=False):
            self.overlapped = True
            return super().write(data)  # type: ignore[arg-type]
        try:
            return super().write(data)  # type: ignore[arg-type]
        finally:
            self._busy.release()
