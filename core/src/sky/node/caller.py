"""One call of docs/protocol.md to one host, over whatever carries a command there. All calls block."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO

from sky.errors import ConnectionLost, HostGone, ProgramMissing, SkyError, UsageError
from sky.node import protocol
from sky.types import Command, Context, Host

GRACE_SECONDS = 5
"""Between TERM and KILL when a job is cancelled."""

Made = tuple[Command, BinaryIO]
Run = Callable[..., int | None]
"""`sky_run`, or what calls it."""


class Caller:
    """The calls to one host. `context` makes the context of a call that may take so many seconds."""

    def __init__(self, run: Run, host: Host, context: Callable[[float | None], Context]) -> None:
        self._run, self.host, self._context = run, host, context

    def call(self, made: Made, out: object, hear: Callable[[list[str]], None], seconds: float | None) -> None:
        """Raises what `sky_run` raises, and `ConnectionLost` for a script that ended in an unforeseen way."""
        command, stdin = made
        control = protocol.Control(hear)
        ctx = self._context(seconds)
        code = self._run(ctx=ctx, host=self.host, command=command, stdin=stdin, stdout=out, stderr=control)
        if code != 0:
            said = control.other.decode("utf-8", "replace").strip().splitlines()
            raise ConnectionLost(
                f"{self.host.name}: the job script ended with {code}" + (f": {said[-1]}" if said else "")
            )

    def ask(self, verb: str, *args: str, seconds: float | None) -> tuple[bytes, list[list[str]]]:
        """Output and control lines; once more when the answer was cut, as asking twice does no harm."""
        lost = ConnectionLost(f"{self.host.name}: the answer to {verb!r} was cut short")
        for _ in range(2):
            out = io.BytesIO()
            lines: list[list[str]] = []
            try:
                self.call(protocol.call(self.host.work_dir, verb, *args), out, lines.append, seconds)
            except HostGone:
                raise
            except ConnectionLost as error:
                lost = error
                continue
            self.refuse(lines)
            ended = bool(lines) and lines[-1][0] == "end"
            if ended and (verb != "list" or out.getvalue().count(b"\n") == int(lines[-1][1])):
                return out.getvalue(), lines
        raise lost

    def cancel(self, which: str) -> list[list[str]]:
        """End a job (its number, or `@` and its token), or `all`; the control lines of the answer."""
        # Each job may take its grace: no limit for all of them.
        _, lines = self.ask("cancel", which, str(GRACE_SECONDS), seconds=None)
        return lines

    def refuse(self, lines: list[list[str]]) -> None:
        """Raise what a host refused with, if it did."""
        for words in lines:
            if words[0] == "missing":
                raise ProgramMissing(
                    words[1], remedy=f"{self.host.name} needs it to run jobs: docs/protocol.md"
                )
            if words[0] == "error":
                message = " ".join(words[1:])
                if message.startswith("no job "):
                    raise UsageError(f"{message} on this cluster", remedy="sky queue lists its jobs")
                raise SkyError(f"{self.host.name}: {message}")


def end_jobs_over(run: Run, ctx: Context, host: Host) -> None:
    """End every job of the portable engine on `host`, with everything that they started.

    For a cloud that gives a host back which goes on existing. `run` is a `sky_run`. Blocks; idempotent.
    Raises what `run` raises, and `SkyError` naming processes that could not be killed.
    """
    lines = Caller(run, host, lambda seconds: ctx).cancel("all")
    stuck = [pid for words in lines if words[0] == "stuck" for pid in words[2:]]
    if stuck:
        raise SkyError(
            f"{host.name}: processes {' '.join(stuck)} can't be killed", remedy="end them as their owner"
        )


def as_run(call: Callable[..., Any]) -> Run:
    """`Plugin.call` of a runner as what `Caller` wants."""
    return lambda **arguments: call("sky_run", **arguments)
