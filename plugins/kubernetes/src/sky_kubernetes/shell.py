"""An interactive shell in a pod, on the caller's terminal: `sky_shell`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from sky.api import Command, ConnectionLost, Context, Host
from sky_kubernetes.api_client import Api, connect
from sky_kubernetes.exec_channel import CLOSE, RESIZE, STATUS, STDIN, STDOUT, Channel
from sky_kubernetes.pod_fate import fate
from sky_kubernetes.runner import Target, exec_query, open_exec, run, status_code, status_message
from sky_kubernetes.stdin_pump import StdinPump

_LOGIN = """
[ -d "$HOME" ] && [ -w "$HOME" ] || { HOME=${2:-/tmp/sky-node-$(id -u)}/home; export HOME; mkdir -p "$HOME"; }
cd "$HOME" 2>/dev/null; TERM=$1; export TERM; shift 2
[ $# = 0 ] || exec "$@"
if command -v bash >/dev/null; then exec bash -l; fi
exec sh -l
""".strip()


def shell(ctx: Context, host: Host, command: Command | None) -> int:
    """`sky_shell`: bash if the image has it, else sh, as a login shell; or `command` on a terminal.

    Where the caller has no terminal it's a plain run with the caller's streams. Raises what `sky_run` does.
    """
    argv = () if command is None else command.argv
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        plain = command or Command(argv=("sh", "-l"))
        with (
            open(1, "wb", buffering=0, closefd=False) as out,
            open(2, "wb", buffering=0, closefd=False) as err,
        ):
            return run(ctx, host, plain, sys.stdin.buffer, out, err)
    target = Target.of(host)
    with connect(ctx, target.context) as api:
        login = ("sh", "-c", _LOGIN, "sky", os.environ.get("TERM", "xterm"), target.work_dir, *argv)
        channel = open_exec(ctx, api, target, exec_query(target, login, tty=True))
        with contextlib.closing(channel), _raw_terminal(), _resizes() as resizes:
            status = _converse(channel, resizes)
        return _code(ctx, api, target, status)


def _code(ctx: Context, api: Api, target: Target, status: bytes) -> int:
    code = status_code(status)
    if code is None:
        lost = ConnectionLost(f"the connection to pod {target.pod} ended", retryable=True)
        raise fate(ctx, api, target, lost, status_message(status))
    return code


def _converse(channel: Channel, resizes: int) -> bytes:
    """Move bytes both ways until the server says how it ended; the content of the status channel."""
    status = b""
    with open(0, "rb", buffering=0, closefd=False) as source:
        pump: StdinPump | None = StdinPump(source, 64 * 1024)
        try:
            while not channel.closed and not status:
                readers: list[Any] = [resizes]
                if pump is not None and channel.hungry:
                    readers.append(pump)
                for number, data in channel.exchange(readers, "in the shell"):
                    if number == STDOUT:
                        _write(data)
                    elif number == STATUS:
                        status += data
                if _drained(resizes):
                    size = shutil.get_terminal_size()
                    channel.send(RESIZE, json.dumps({"Width": size.columns, "Height": size.lines}).encode())
                while pump is not None and channel.hungry and (chunk := pump.take()) is not None:
                    if chunk:
                        channel.send(STDIN, chunk)
                    else:
                        pump.stop()
                        pump = None
                        if channel.protocol.startswith("v5"):
                            channel.send(CLOSE, bytes((STDIN,)))
        finally:
            if pump is not None:
                pump.stop()
    return status


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _drained(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 4096))
    except BlockingIOError:
        return False


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is for the shell
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizes() -> Iterator[int]:
    """A descriptor that is readable once at first and whenever the terminal's size has changed."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    os.write(writable, b"x")
    main = threading.current_thread() is threading.main_thread()

    def changed(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writable, b"x")

    before = signal.signal(signal.SIGWINCH, changed) if main else None
    try:
        yield readable
    finally:
        if main:
            signal.signal(signal.SIGWINCH, before)
        os.close(readable)
        os.close(writable)
