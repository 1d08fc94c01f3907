"""Running a program on a local node: a child process with the node's home directory."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import BinaryIO

from sky.api import Cancelled, Command, Context, Host, HostGone, ProgramMissing, TimedOut
from sky.local.processes import COOKIE

_CHUNK = 1 << 16


def run(
    ctx: Context, host: Host, command: Command, stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO
) -> int:
    """See `sky_run`. What processes that it leaves behind print after its end is not waited for."""
    process = _start(host, command, stdin is not None)
    feeder = _Feeder(process, stdin) if stdin is not None else None
    try:
        _pump(ctx, host, process, stdout, stderr)
    except BaseException:
        _end(process)
        raise
    finally:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if feeder is not None and feeder.error is not None:
        raise feeder.error
    code = process.wait()
    return code if code >= 0 else 128 - code


def shell(host: Host, command: Command | None) -> int:
    """The user's shell, or a command, on this terminal, in the node's home."""
    argv = command.argv if command else (os.environ.get("SHELL") or "/bin/sh", "-l")
    home = _home(host)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, not for us
    try:
        code = subprocess.call(argv, cwd=home, env=_environment(host, home))
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code


def _home(host: Host) -> str:
    home = os.path.join(host.address["root"], "home")  # noqa: PTH118 - pathlib's cost shows in exec
    if not os.path.isdir(home):  # noqa: PTH112
        raise HostGone(f"{host.name}: its directory is gone", remedy="sky status --refresh")
    return home


def _environment(host: Host, home: str) -> Mapping[str, str]:
    return {**os.environ, "HOME": home, "PWD": home, COOKIE: host.address["cluster"]}


def _start(host: Host, command: Command, has_stdin: bool) -> subprocess.Popen[bytes]:
    home = _home(host)
    try:
        return subprocess.Popen(
            command.argv,
            stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=_environment(host, home),
            start_new_session=True,
            bufsize=0,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ProgramMissing(command.argv[0], remedy=error.strerror or "") from error


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
            pipe.close()

    def _read(self) -> bytes:
        try:
            chunk: bytes = getattr(self._stdin, "read1", self._stdin.read)(_CHUNK)
            return chunk
        except Exception as error:  # noqa: BLE001 - raised unchanged by `run`
            self.error = error
            _signal(self._process, signal.SIGTERM)
            return b""


def _pump(
    ctx: Context, host: Host, process: subprocess.Popen[bytes], stdout: BinaryIO, stderr: BinaryIO
) -> None:
    """Copy both outputs until the program has ended and what it wrote is read."""
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
                left = None if ctx.deadline is None else ctx.deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimedOut(f"{host.name}: the command ran longer than allowed")
                ready = [key.fd for key, _ in selector.select(left)]
                if ctx.cancel.cancelled:
                    raise Cancelled("cancelled")
                for fd in ready:
                    if fd in sinks and not _copy(fd, sinks[fd]):
                        selector.unregister(fd)
                if ended in ready:
                    break
            for fd in sinks:
                while _copy(fd, sinks[fd]):
                    pass
        finally:
            os.close(ended)


def _copy(fd: int, sink: BinaryIO) -> bool:
    """One chunk; false when there is none now, or no more."""
    try:
        chunk = os.read(fd, _CHUNK)
    except BlockingIOError:
        return False
    if chunk:
        sink.write(chunk)
    return bool(chunk)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass  # it ended by itself


def _end(process: subprocess.Popen[bytes]) -> None:
    """TERM for its group, a second to comply, KILL."""
    _signal(process, signal.SIGTERM)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()
