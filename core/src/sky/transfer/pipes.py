"""The ends of streams that are given to `run`: pulled from an iterator, pushed to a pipe, kept in part."""

from __future__ import annotations

import io
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from sky.types import Context, Event

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

T = TypeVar("T")

CHUNK = 1 << 17
"""Bytes that are read from a file at once."""


class Progress:
    """Counts bytes and files and says so, at most five times a second. For one thread at a time."""

    def __init__(self, ctx: Context, up: bool) -> None:
        self._ctx = ctx
        self._verb = "sent" if up else "received"
        self._next = time.monotonic() + 0.2
        self.bytes = 0
        self.files = 0

    def add(self, size: int) -> None:
        self.bytes += size
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.2
            message = f"{self._verb} {self.bytes / 1e6:.1f} MB"
            data = {"bytes": self.bytes, "files": self.files}
            self._ctx.emit(Event(kind="progress", message=message, data=data))


class Produced(io.RawIOBase):
    """A readable file whose bytes an iterator makes when asked; what that raises, `read` raises."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        view = memoryview(buffer)
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def as_file(self) -> BinaryIO:
        return cast(BinaryIO, self)


class Head(io.RawIOBase):
    """A writable file that keeps its first 16 KiB: the stderr of a remote program, for messages."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        self._kept += view[: max(0, 16384 - len(self._kept))]
        return len(view)

    @property
    def lines(self) -> list[str]:
        return [line for line in self._kept.decode(errors="replace").splitlines() if line.strip()]

    def as_file(self) -> BinaryIO:
        return cast(BinaryIO, self)


class PipeEnd(io.RawIOBase):
    """The writing end of a pipe, owned: `write` takes all or raises. No buffer, nothing to flush."""

    def __init__(self, fd: int, before_write: Callable[[int], None] | None) -> None:
        self._fd = fd
        self.before_write = before_write

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        size = len(view)
        if size and self.before_write:
            self.before_write(size)
        while view:
            view = view[os.write(self._fd, view) :]
        return size

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()

    def as_file(self) -> BinaryIO:
        return cast(BinaryIO, self)


class PatientPipeEnd(PipeEnd):
    """`write` never waits for the reader: what the pipe doesn't take is kept, and a thread gives it later.

    For the small direction of a transfer: a runner that moves both directions in one loop must not stand
    still in this one, while the reader waits for the other to move.
    """

    def __init__(self, fd: int, before_write: Callable[[int], None] | None) -> None:
        super().__init__(fd, before_write)
        os.set_blocking(fd, False)
        self._later: SimpleQueue[bytes] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._broken = False

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        size = len(view)
        if self._broken:
            raise BrokenPipeError
        try:
            while view and self._thread is None:
                view = view[os.write(self._fd, view) :]
        except BlockingIOError:
            self._thread = threading.Thread(target=self._give_later, name="sky-transfer", daemon=True)
            self._thread.start()
        if view:
            self._later.put(bytes(view))
        return size

    def _give_later(self) -> None:
        while chunk := self._later.get():
            view = memoryview(chunk)
            try:
                while view:
                    select.select([], [self._fd], [])
                    view = view[os.write(self._fd, view) :]
            except BrokenPipeError:
                self._broken = True
                return

    def close(self) -> None:
        """Blocks until the reader has taken all, or is gone."""
        if self._thread is not None:
            self._later.put(b"")
            self._thread.join()
            self._thread = None
        super().close()


def read_while_written(
    write: Callable[[BinaryIO], int], read: Callable[[BinaryIO], T], before_write: Callable[[int], None]
) -> tuple[int, T | Exception]:
    """Run `write` here and `read` in a thread, joined by a pipe. Blocks until both have ended.

    What `write` raises is raised, unless it failed only because the reader had given up. What `read`
    raised is given back, for the caller knows by the exit code which of the two is to blame.
    """
    from concurrent.futures import ThreadPoolExecutor

    reading, writing = os.pipe()
    sink = PipeEnd(writing, before_write)

    def reader() -> T:
        with open(reading, "rb") as source:
            result = read(source)
            while source.read(CHUNK):
                pass
            return result

    with ThreadPoolExecutor(1, thread_name_prefix="sky-transfer") as pool:
        future = pool.submit(reader)
        code = 0
        try:
            with sink:
                code = write(sink.as_file())
        except BrokenPipeError:
            if future.exception() is None:
                raise
        error = future.exception()
        if error is None:
            return code, future.result()
        if not isinstance(error, Exception):
            raise error
        return code, error
