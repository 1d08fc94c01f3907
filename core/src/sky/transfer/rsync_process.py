"""The local rsync, its remote shell's place taken by us: what it would run there, and the streams to it."""

from __future__ import annotations

import fcntl
import io
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, cast

from sky.errors import Cancelled, TimedOut
from sky.transfer.pipes import PatientPipeEnd, PipeEnd

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from sky.types import Context

VANISHED = 24
"""What rsync ends with when all is well but for source files that are no more."""

HELPER = (
    'printf "%s\\0" "$@" "" >/dev/fd/{argv}; exec 6<&0; cat <&6 >/dev/fd/{said} & '
    "cat </dev/fd/{heard}; kill $!; wait; exit 0"
)
"""The remote shell. rsync splits it at spaces outside of quotes, so it has no single quote. It ends when the
host has said all, as ssh would: rsync waits for it before it closes its own end."""


class LocalRsyncEnded(Exception):
    """The local rsync gave up, so the remote one has to be ended too."""


class LocalRsync:
    """The process and its helpers, one process group, and the pipes to them. Nothing outlives the `with`."""

    def __init__(self, options: Sequence[str | bytes], paths: Sequence[bytes], excludes: bytes) -> None:
        self._options = options
        self._paths = paths
        self._excludes = excludes
        self._stack = ExitStack()
        self._stdin: _FromRsync | None = None
        self.code = -1
        """Of rsync, once it has ended."""

    def __enter__(self) -> LocalRsync:
        with ExitStack() as undo:
            undo.callback(self._stack.close)
            self._start()
            undo.pop_all()
        return self

    def _start(self) -> None:
        self._to_rsync: PipeEnd | None = None
        with ExitStack() as theirs:
            # Each of them holds this one open to its end: it tells the argv, and then that all have ended.
            self._life, life = self._pipe(theirs, ours="read")
            self._said, said = self._pipe(theirs, ours="read")
            heard, self._heard = self._pipe(theirs, ours="write")
            self._stack.callback(self._close_heard)
            helper = HELPER.format(argv=life, said=said, heard=heard)
            self._out = self._stack.enter_context(tempfile.TemporaryFile())
            self._errors = self._stack.enter_context(tempfile.TemporaryFile())
            stdin = theirs.enter_context(tempfile.TemporaryFile())
            stdin.write(self._excludes)
            stdin.seek(0)
            self._process = subprocess.Popen(
                [
                    b"rsync",
                    *map(os.fsencode, self._options),
                    b"-e",
                    f"sh -c '{helper}' sky".encode(),
                    *self._paths,
                ],
                stdin=stdin,
                stdout=self._out,
                stderr=self._errors,
                env={k: v for k, v in os.environ.items() if not k.startswith("RSYNC_")} | {"LC_ALL": "C"},
                pass_fds=(life, said, heard),
                process_group=0,
            )

    def _pipe(self, theirs: ExitStack, ours: str) -> tuple[int, int]:
        """A pipe with descriptors above those that `sh` uses by number; one end closes with `theirs`."""
        ends = []
        low = os.pipe()
        for fd in low:
            ends.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20))
            os.close(fd)
        theirs.callback(os.close, ends[1 if ours == "read" else 0])
        if ours == "read":
            self._stack.callback(os.close, ends[0])
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            try:
                fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, 1 << 20)
            except OSError:
                # The user has used up the kernel's allowance: the default size is only slower.
                pass
        return ends[0], ends[1]

    def remote_argv(self, ctx: Context) -> list[str] | None:
        """What rsync would run on the host; None, and `code`, if it ended before. Blocks for milliseconds."""
        told = b""
        while not told.endswith(b"\0\0"):
            _wait_readable(self._life, ctx)
            part = os.read(self._life, 65536)
            if not part:
                self.code = self._process.wait()
                return None
            told += part
        # The first is the placeholder of the host's name.
        return [os.fsdecode(word) for word in told[:-2].split(b"\0")[1:]]

    def stdin(self, after_read: Callable[[int], None] | None) -> BinaryIO:
        """What rsync says to the host. A read raises `LocalRsyncEnded` if rsync has failed."""
        self._stdin = _FromRsync(self._said, self._process, after_read)
        return cast(BinaryIO, self._stdin)

    def stdout(self, before_write: Callable[[int], None] | None) -> BinaryIO:
        """What the host says. A write raises `LocalRsyncEnded` if rsync has failed.

        With `before_write` it is files and a write waits for rsync; without, it is what rsync asks for them.
        """
        self._to_rsync = (PatientPipeEnd if before_write is None else PipeEnd)(self._heard, before_write)
        return cast(BinaryIO, _ToRsync(self._to_rsync, self._process))

    def _close_heard(self) -> None:
        if self._to_rsync is None:
            self._to_rsync = PipeEnd(self._heard, None)
        self._to_rsync.close()

    def finish(self, ctx: Context) -> None:
        """Tell rsync that the host has said all; block until it and its helpers have ended. Sets `code`."""
        undo = ctx.cancel.on_cancel(lambda: self._signal(signal.SIGTERM))
        try:
            self._close_heard()
        finally:
            undo()
        _wait_readable(self._life, ctx)
        self.code = self._process.wait()

    def output(self) -> tuple[list[str], list[str]]:
        """Lines of stdout and of stderr."""
        texts = []
        for file in (self._out, self._errors):
            file.seek(0)
            texts.append([line for line in file.read().decode(errors="replace").split("\n") if line.strip()])
        return texts[0], texts[1]

    def __exit__(self, *_: object) -> None:
        # SIGTERM lets rsync remove its temporary file.
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._ended_within(0 if number == signal.SIGTERM else 0.7):
                break
            self._signal(number)
        self._process.wait()
        if self._stdin is not None:
            self._stdin.stop()
        self._stack.close()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    def _ended_within(self, seconds: float) -> bool:
        while select.select([self._life], [], [], seconds)[0]:
            if not os.read(self._life, 65536):
                return True
        return False


class _FromRsync(io.RawIOBase):
    """Its end is an error unless rsync ended well: the other side of an `open` command sees no end."""

    def __init__(
        self, fd: int, process: subprocess.Popen[bytes], after_read: Callable[[int], None] | None
    ) -> None:
        self._fd = fd
        self._process = process
        self._after_read = after_read
        # A thread of the runner may still be reading when `run` has returned.
        self._lock = threading.Lock()
        self._stopped = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        """To wait for; what is read past `read` would miss how rsync ended."""
        return self._fd

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        with self._lock:
            if self._stopped:
                return 0
            size = os.readv(self._fd, [buffer])
        if size and self._after_read:
            self._after_read(size)
        if size == 0 and self._process.wait() not in (0, VANISHED):
            raise LocalRsyncEnded
        return size

    def stop(self) -> None:
        """From now on there is nothing to read. Blocks while a thread reads, which ends with rsync."""
        with self._lock:
            self._stopped = True


class _ToRsync(io.RawIOBase):
    """When nobody reads any more, how rsync itself ended is what counts."""

    def __init__(self, pipe: PipeEnd, process: subprocess.Popen[bytes]) -> None:
        self._pipe = pipe
        self._process = process

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return self._pipe.write(data)
        except BrokenPipeError as error:
            if self._process.wait() not in (0, VANISHED):
                raise LocalRsyncEnded from error
            # rsync doesn't stay for the farewell of the other side.
            return memoryview(data).nbytes


def _wait_readable(fd: int, ctx: Context) -> None:
    timeout = None if ctx.deadline is None else max(0.0, ctx.deadline - time.monotonic())
    ready, _, _ = select.select([fd, ctx.cancel.fileno()], [], [], timeout)
    if ctx.cancel.cancelled:
        raise Cancelled("cancelled while files were being moved")
    if not ready:
        raise TimedOut("the deadline passed while files were being moved")
