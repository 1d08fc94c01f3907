"""A terminal on a host, and ports of it: `sky_shell` and `sky_forward`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from sky.api import (
    Command,
    ConnectionLost,
    Context,
    Forward,
    Host,
    TimedOut,
    Unreachable,
    UsageError,
)
from sky_ssh import connection, failures, options, wrapper
from sky_ssh.address import Target
from sky_ssh.connection import Master
from sky_ssh.runner import run

_LOGIN = r"""
GO_HOME || { echo "sky: the account has no directory that it can write to" >&2; exit 125; }
[ ! -x "$w/askpass" ] || { SUDO_ASKPASS=$w/askpass; export SUDO_ASKPASS; }
[ $# = 0 ] || exec "$@"
exec "${SHELL:-sh}" -l
""".replace("GO_HOME", wrapper.GO_HOME)
_LISTENS = "sky: the port listens"


def shell(ctx: Context, host: Host, command: Command | None) -> int:
    """`sky_shell`: the account's login shell, or `command`, on the caller's terminal.

    Where the caller has no terminal it's a plain run with the caller's streams. If no connection is kept yet, ssh
    may ask on the terminal for a passphrase, or about a host key. Raises what `sky_run` does.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        plain = command or Command(argv=("sh", "-l"))
        with (
            open(1, "wb", buffering=0, closefd=False) as out,
            open(2, "wb", buffering=0, closefd=False) as err,
        ):
            return run(ctx, host, plain, sys.stdin.buffer, out, err)
    target = Target.of(host)
    master = Master(ctx, target)
    made = master.ensure(terminal=True)
    if not master.answers():
        made = master.ensure(stale=made, terminal=True)
    argv = () if command is None else command.argv
    line = wrapper.line_of(_LOGIN, argv, host.work_dir)
    session = options.terminal_arguments(master.socket)
    code = _on_terminal(ctx, target, [options.PROGRAM, *session, *master.identity, "--", target.host, line])
    if code == 255 and not (master.made() == made and master.answers()):
        raise ConnectionLost(f"the connection to {target.name} ended", retryable=True)
    return code


def _on_terminal(ctx: Context, target: Target, argv: Sequence[str]) -> int:
    with _interrupts_are_the_programs():
        try:
            process = subprocess.Popen(argv)
        except FileNotFoundError:
            raise connection.no_program() from None
        undo = ctx.cancel.on_cancel(process.terminate)
        try:
            left = None if ctx.deadline is None else max(0.0, ctx.deadline - time.monotonic())
            code = process.wait(left)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{target.name}: the shell was open longer than allowed") from None
        finally:
            undo()
            if process.poll() is None:
                process.terminate()
                process.wait()
    ctx.cancel.check()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _interrupts_are_the_programs() -> Iterator[None]:
    """Ctrl-C is for what runs there, not for us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def forward(ctx: Context, host: Host, remote_port: int, local_port: int | None) -> Forward:
    """`sky_forward`: listens on 127.0.0.1 before it returns; lives until `close`, or the end of this process.

    By a connection of its own, so that no `sky_disconnect` and no idle time ends it. Raises `UsageError` if the
    local port is taken, and what `sky_run` does when it can't connect.
    """
    target = Target.of(host)
    master = Master(ctx, target)
    port = local_port or _free_port()
    if _taken(port):
        raise UsageError(f"local port {port}: it's taken", remedy="choose another")
    ports = ("-L", f"127.0.0.1:{port}:127.0.0.1:{remote_port}")
    arguments = options.alone_arguments(_left(ctx, target))
    # `cat` holds the connection open until our end of its stdin is closed: by us, or with us.
    line = wrapper.line_of(f"echo '{_LISTENS}'; exec cat >/dev/null", (), "")
    argv = [options.PROGRAM, *arguments, *ports, *master.through_hop(), "--", target.host, line]
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
            )
        except FileNotFoundError:
            raise connection.no_program() from None
        try:
            _await(ctx, target, process, said, master)
            if not _taken(port):
                raise UsageError(f"local port {port} can't be listened on", remedy="choose another")
        except BaseException:
            _stop(process)
            raise
    return Forward(local_port=port, remote_port=remote_port, close=lambda: _stop(process))


def _await(
    ctx: Context, target: Target, process: subprocess.Popen[bytes], said: IO[bytes], master: Master
) -> None:
    """Until it says that it listens. Raises what kept it from that."""
    assert process.stdout is not None
    seen = b""
    while _LISTENS.encode() not in seen:
        watched: list[Any] = [process.stdout, ctx.cancel]
        ready, _, _ = select.select(watched, [], [], _left(ctx, target))
        ctx.cancel.check()
        if process.stdout in ready:
            chunk = os.read(process.stdout.fileno(), 4096)
            seen += chunk
            if not chunk:
                said.seek(0)
                words = said.read().decode("utf-8", "replace")
                if words:
                    raise failures.of_connecting(ctx.config, target, master.identity, words)
                raise Unreachable(f"{target.name}: ssh ended before the port was led there", retryable=True)


def _left(ctx: Context, target: Target) -> float | None:
    left = None if ctx.deadline is None else ctx.deadline - time.monotonic()
    if left is not None and left <= 0:
        raise TimedOut(f"{target.name}: leading a port there took longer than allowed")
    return left


def _stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    process.terminate()
    process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _taken(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False
