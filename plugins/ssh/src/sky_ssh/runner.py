"""Commands on hosts that have sshd: `sky_run`."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import threading
import time
from typing import BinaryIO, cast

from sky.api import (
    CancelToken,
    Command,
    ConnectionLost,
    Context,
    Host,
    MarkReader,
    ProgramMissing,
    SkyError,
    UsageError,
    run_process,
)
from sky_ssh import connection, options
from sky_ssh.address import Target
from sky_ssh.connection import Master
from sky_ssh.wrapper import KILL_GROUP, Wrapped

_KILL_SECONDS = 0.8
"""For telling a program to end when the user has given up: `sky_run` returns within a second."""


def run(
    ctx: Context, host: Host, command: Command, stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO
) -> int:
    """`sky_run`: see the hook's specification.

    Cancelled or out of time, the program's process group is sent SIGTERM over the same connection. What can
    remain on the host: a program that ignores SIGTERM or has left its session; one whose beginning had not been
    heard of yet; and, while the network between is cut, everything. A client that is killed ends nothing: the
    program sees the end of stdin, and its output goes nowhere.
    """
    return _run(ctx, host, command, stdin, stdout, stderr, terminate=True)


def _run(
    ctx: Context,
    host: Host,
    command: Command,
    stdin: BinaryIO | None,
    stdout: BinaryIO,
    stderr: BinaryIO,
    *,
    terminate: bool,
) -> int:
    if any("\0" in argument for argument in command.argv):
        raise UsageError("an argument of a program can't hold a zero byte")
    target = Target.of(host)
    wrapped = Wrapped(command.argv, host.work_dir)
    source = _Source(wrapped.header, stdin) if wrapped.header or stdin is not None else None
    slot, stale, renewed = 0, 0, False
    while True:
        master = Master(ctx, target, slot)
        made = master.ensure(stale)
        attempt = _Attempt(ctx, target, master.socket, wrapped, host.work_dir)
        try:
            code = attempt.go(command, source.reader() if source else None, stdout, stderr)
        except BaseException:
            if terminate and attempt.process_group is not None:
                _terminate(ctx, host, attempt.process_group)
            raise
        if code is not None:
            return code
        # No master took it, so that nothing was started.
        stale = 0
        if attempt.full:
            slot = slot + 1 if slot < connection.SPARES else 0
            if slot == 0:
                ctx.cancel.wait(0.2)
        elif renewed:
            raise ConnectionLost(
                f"{target.name}: the connection breaks as soon as it is made", retryable=True
            )
        else:
            stale, renewed = made, True


class _Attempt:
    """One session of a master."""

    def __init__(self, ctx: Context, target: Target, socket: str, wrapped: Wrapped, work_dir: str) -> None:
        self._ctx = ctx
        self._target = target
        self._wrapped = wrapped
        self._work_dir = work_dir
        # Whether the agent is led on was decided when the master was started, by the user's ssh config.
        agent = ("-A",) if target.config == "user" else ("-a",)
        session = options.session_arguments(socket)
        self._argv = [options.PROGRAM, *session, *agent, "host", wrapped.line]
        self.process_group: int | None = None
        """Of the program on the host; None while it isn't known to have begun."""
        self.full = False
        """The master has as many sessions as the server lets it have."""

    def go(self, command: Command, stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO) -> int | None:
        """The program's exit code; None when no master took it."""
        out = MarkReader(self._wrapped.mark, stdout.write)
        err = MarkReader(self._wrapped.mark, stderr.write)
        try:
            ssh_code = run_process(
                self._ctx,
                self._argv,
                stdin,
                cast("BinaryIO", out),
                cast("BinaryIO", err),
                what=f"{self._target.name}: {command.argv[0]!r}",
                finished=lambda: out.result is not None and err.result is not None,
            )
        except ProgramMissing as error:
            raise connection.no_program() from error
        finally:
            self.process_group = out.process_group or err.process_group
        out.finish()
        err.finish()
        if out.result is not None and out.result == err.result:
            return self._code(command, out.result)
        if self.process_group is None:
            if options.FELL_THROUGH in err.before:
                self.full = any(words in err.before for words in options.FULL)
                return None
            if ssh_code != 255:
                raise self._not_begun(ssh_code, err.before or out.before)
        raise ConnectionLost(
            f"the connection to {self._target.name} ended before its program said how it ended",
            retryable=True,
        )

    def _code(self, command: Command, result: str) -> int:
        if result.isdigit() and int(result) <= 255:
            return int(result)
        if result == "missing":
            raise ProgramMissing(command.argv[0], remedy=f"install it on {self._target.name}")
        raise SkyError(
            f"{self._target.name}: neither $HOME nor {self._work_dir or '/tmp'} is writable",
            remedy="let the account have a writable directory",
        )

    def _not_begun(self, code: int, said: bytes) -> SkyError:
        text = said.decode("utf-8", "replace").strip()
        words = text.splitlines()[-1] if text else f"exit code {code}"
        if code == 127:
            return ProgramMissing("sh", remedy=f"{self._target.name} says: {words}")
        return SkyError(
            f"{self._target.name}: its login shell ran no command ({words})",
            remedy="the account needs a login shell, and no forced command",
        )


def _terminate(ctx: Context, host: Host, group: int) -> None:
    """Best effort: TERM for the program's process group."""
    brief = dataclasses.replace(ctx, deadline=time.monotonic() + _KILL_SECONDS, cancel=CancelToken())
    argv = ("sh", "-c", KILL_GROUP, "sky", str(group))
    with contextlib.suppress(SkyError):
        _run(brief, host, Command(argv=argv), None, io.BytesIO(), io.BytesIO(), terminate=False)


class _Source:
    """stdin that can be read again from its beginning, as long as no attempt has begun to use it up.

    Attempts read by threads that may outlive them, blocked in `read`; what such a one still gets is kept
    for the next.
    """

    _KEPT = 1 << 20  # more than an attempt that reaches no program can have taken

    def __init__(self, header: bytes, stdin: BinaryIO | None) -> None:
        self._stdin = stdin
        self._lock = threading.Lock()
        self._kept = [header] if header else []
        self._size = 0
        self._current: _Reader | None = None

    def reader(self) -> BinaryIO:
        """From the beginning; earlier readers are no longer current."""
        self._current = _Reader(self)
        return cast("BinaryIO", self._current)

    def take(self, reader: _Reader, size: int) -> bytes:
        with self._lock:
            if reader.at < len(self._kept):
                reader.at += 1
                return self._kept[reader.at - 1]
            if self._stdin is None:
                return b""
            read = getattr(self._stdin, "read1", self._stdin.read)
            chunk: bytes = read(size)
            if reader is not self._current or self._size < self._KEPT:
                self._kept.append(chunk)
                self._size += len(chunk)
                reader.at = len(self._kept)
            return chunk


class _Reader:
    """What `run_process` reads from."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self.at = 0

    def read1(self, size: int) -> bytes:
        return self._source.take(self, size)

    read = read1
