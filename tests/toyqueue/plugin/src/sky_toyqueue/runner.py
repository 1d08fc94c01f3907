"""Commands in a place: child processes that start in its home directory."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from typing import BinaryIO

from sky.api import Command, Context, Host, HostGone, ProgramMissing, TimedOut

_CHUNK = 1 << 16
_POLL_SECONDS = 0.02


def run(
    ctx: Context, host: Host, command: Command, stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO
) -> int:
    """See `sky_run`; every failure ends the program's group before it is raised."""
    process = _start(host, command, stdin is not None)
    broken: list[Exception] = []
    if stdin is not None:
        threading.Thread(target=_feed, args=(process, stdin, broken), daemon=True).start()
    try:
        _pump(ctx, process, {process.stdout: stdout, process.stderr: stderr}, broken)
    except BaseException:
        _end(process)
        raise
    finally:
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    code = process.wait()
    return code if code >= 0 else 128 - code


def _start(host: Host, command: Command, fed: bool) -> subprocess.Popen[bytes]:
    home = host.address["home"]
    if not os.path.isdir(home):  # noqa: PTH112
        raise HostGone(f"{host.name} is no more")
    try:
        return subprocess.Popen(
            command.argv,
            cwd=home,
            env={**os.environ, "HOME": home},
            stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise ProgramMissing(command.argv[0], remedy=error.strerror or "") from error


def _feed(process: subprocess.Popen[bytes], stdin: BinaryIO, broken: list[Exception]) -> None:
    pipe = process.stdin
    assert pipe is not None
    read = getattr(stdin, "read1", stdin.read)
    try:
        while True:
            try:
                chunk = read(_CHUNK)
            except Exception as error:  # noqa: BLE001 - raised unchanged by `run`
                broken.append(error)
                return
            if not chunk:
                return
            while chunk:
                chunk = chunk[pipe.write(chunk) :]
    except BrokenPipeError:
        return  # the program reads no more; its exit code tells
    finally:
        pipe.close()


def _pump(
    ctx: Context, process: subprocess.Popen[bytes], sinks: dict[object, BinaryIO], broken: list[Exception]
) -> None:
    """Pass output on until the program has ended and what it wrote is read."""
    open_pipes = {pipe.fileno(): sink for pipe, sink in sinks.items()}  # type: ignore[attr-defined]
    for fd in open_pipes:
        os.set_blocking(fd, False)
    ended = False
    while True:
        ready = select.select(list(open_pipes), [], [], 0 if ended else _POLL_SECONDS)[0]
        for fd in ready:
            chunk = os.read(fd, _CHUNK)
            if chunk:
                open_pipes[fd].write(chunk)
            else:
                del open_pipes[fd]
        if broken:
            raise broken[0]
        ctx.cancel.check()
        if ctx.deadline is not None and time.monotonic() > ctx.deadline:
            raise TimedOut("the command")
        if ended and not ready:
            return
        ended = ended or process.poll() is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, seconds in ((signal.SIGTERM, 0.5), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue
