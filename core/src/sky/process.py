"""Running a local program with the streams, deadline and cancellation of `sky_run`.

For runners whose transport is a program on this machine: what was asked for itself, or a client such as `ssh`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from sky.errors import Cancelled, ProgramMissing, TimedOut
from sky.types import Context

_CHUNK = 1 << 16
_running: set[subprocess.Popen[bytes]] = set()
_PARTING_SECONDS = 0.02
"""How long a program that isn't needed any more may take to end by itself."""


def run_process(
    ctx: Context,
    argv: Sequence[str | bytes],
    stdin: BinaryIO | None,
    stdout: BinaryIO,
    stderr: BinaryIO,
    *,
    what: str,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    finished: Callable[[], bool] | None = None,
) -> int:
    """Run `argv` in a session of its own; return its exit code (128 + N for signal N). Blocks.

    Bytes pass unchanged. The sinks are written to from the calling thread as output arrives; `stdin` is read
    from another, as the program takes it (None: it is empty). What processes that the program leaves
    behind print after its end is not waited for.

    `finished` is asked after each piece of output: once it's true the rest isn't waited for, the program
    is ended, and the code says nothing.

    Raises `ProgramMissing` (nothing was started), `TimedOut` (named by `what`: "h1: the command") and
    `Cancelled`; what `stdin.read` and the sinks raise is raised unchanged. In each case the
    program and its process group are ended: SIGTERM, a second to comply, SIGKILL.
    """
    process = _start(argv, stdin is not None, cwd, env)
    _running.add(process)
    feeder = _Feeder(process, stdin) if stdin is not None else None
    try:
        if _pump(ctx, what, process, stdout, stderr, finished):
            _part(process)
    except BaseException:
        _end(process)
        raise
    finally:
        _running.discard(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if feeder is not None and feeder.error is not None:
        raise feeder.error
    code = process.wait()
    return code if code >= 0 else 128 - code


@atexit.register
def end_all() -> None:
    """Tell what still runs for threads that nobody waits for to end: it would outlive this process."""
    for process in tuple(_running):
        _signal(process, signal.SIGTERM)


def _start(
    argv: Sequence[str | bytes], has_stdin: bool, cwd: str | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
            bufsize=0,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ProgramMissing(os.fsdecode(argv[0]), remedy=error.strerror or "") from error


class _Feeder:
    """Writes stdin to the process from a thread, since a `BinaryIO` need not have a descriptor."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: BinaryIO) -> None:
        self.error: BaseException | None = None
        self._process = process
        self._stdin = stdin
        threading.Thread(target=self._feed, name="sky-stdin", daemon=True).start()

    def _feed(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            while chunk := self._read():
                view = memoryview(chunk)
                while view:
                    view = view[pipe.write(view) :]
        except BrokenPipeError:
            pass  # the program ended, or doesn't want more: its exit code tells
        finally:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> bytes:
        try:
            chunk: bytes = getattr(self._stdin, "read1", self._stdin.read)(_CHUNK)
            return chunk
        except Exception as error:  # noqa: BLE001 - raised unchanged by `run_process`
            self.error = error
            _signal(self._process, signal.SIGTERM)
            return b""


def _pump(
    ctx: Context,
    what: str,
    process: subprocess.Popen[bytes],
    stdout: BinaryIO,
    stderr: BinaryIO,
    finished: Callable[[], bool] | None,
) -> bool:
    """Copy both outputs until the program has ended and what it wrote is read; true if `finished` came first."""
    assert process.stdout is not None and process.stderr is not None
    ended = os.pidfd_open(process.pid)
    sinks = {process.stdout.fileno(): stdout, process.stderr.fileno(): stderr}
    with selectors.DefaultSelector() as selector:
        try:
            for fd in sinks:
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            selector.register(ctx.cancel.fileno(), selectors.EVENT_READ)
            while True:
                ready = [key.fd for key, _ in selector.select(_left(ctx, what))]
                if ctx.cancel.cancelled:
                    raise Cancelled("cancelled")
                for fd in ready:
                    if fd in sinks and not _copy(fd, sinks[fd]):
                        selector.unregister(fd)
                if finished is not None and finished():
                    return True
                if ended in ready:
                    break
            for fd in sinks:
                while _copy(fd, sinks[fd]):
                    pass
        finally:
            os.close(ended)
    return False


def _left(ctx: Context, what: str) -> float | None:
    left = None if ctx.deadline is None else ctx.deadline - time.monotonic()
    if left is not None and left <= 0:
        raise TimedOut(f"{what} ran longer than allowed")
    return left


def _copy(fd: int, sink: BinaryIO) -> bool:
    """One chunk; false when there is none now, or no more."""
    try:
        chunk = os.read(fd, _CHUNK)
    except BlockingIOError:
        return False
    if chunk:
        sink.write(chunk)
    return bool(chunk)


def _part(process: subprocess.Popen[bytes]) -> None:
    """Let it end, or end it: what it holds open may be another's."""
    ended = os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(ended, select.POLLIN)
        if not poller.poll(_PARTING_SECONDS * 1000):
            _end(process)
    finally:
        os.close(ended)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """TERM for its group, a second to comply, KILL."""
    _signal(process, signal.SIGTERM)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()
