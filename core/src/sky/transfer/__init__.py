"""Files between here and a host, over nothing but a runner's `sky_run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from sky.types import Command, Context, Host, Transfer, TransferResult

Run = Callable[[Context, Host, Command, BinaryIO | None, BinaryIO, BinaryIO], int]
"""A `sky_run`. It moves stdin and stdout independently: a write that blocks must not stop the reading."""

REMEMBER_SECONDS = 3600.0
"""How long a host counts as one without rsync."""


def transfer_over(run: Run, ctx: Context, host: Host, transfer: Transfer) -> TransferResult:
    """Make the target equal to the source, as `sky.hookspecs.sky_rsync` says. Blocks; idempotent.

    A runner's own `sky_rsync` is this with its own `sky_run`. With rsync at both ends it is one `run`; else
    two (one, if nothing differs), with the host's tar, or with nothing but `sh` and small programs there. The
    results are the same, and that a host lacks rsync is remembered in `ctx.cache`. Emits `progress` events
    (`bytes`, `files` so far) and a `warning` for each thing skipped.

    Raises `TransferFailed`, `ProgramMissing` (names what the host needs), `UsageError`, and what `run`
    raises.
    """
    from sky.transfer.route import plan_route
    from sky.transfer.rsync import RsyncMissing, transfer_by_rsync

    route = plan_route(transfer)
    route.check_source()
    route.check_target()
    lacks_rsync = ("sky.transfer", host.transport, *sorted(host.address.items()))
    if not ctx.cache.peek(lacks_rsync):
        try:
            return transfer_by_rsync(run, ctx, host, route)
        except RsyncMissing as missing:
            if missing.lasting:
                ctx.cache.put(lacks_rsync, True, REMEMBER_SECONDS)
    from sky.transfer.copy import transfer_by_copy

    return transfer_by_copy(run, ctx, host, route)


__all__ = ["Run", "transfer_over"]
