"""The local runner behind a connection that can be cut, refused, or counted: a runner like any plugin's."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from sky.api import (
    Command,
    ConnectionLost,
    Context,
    Host,
    Transfer,
    TransferResult,
    Unreachable,
    hookimpl,
    transfer_over,
)
from sky.local import runner as local


class Line:
    """What happens to the connections of this process; reset it before a test."""

    def __init__(self) -> None:
        self.cuts: list[int] = []
        """Of each further transfer: how many bytes of stdin pass before the connection is lost."""
        self.refused: list[bool] = []
        """Of each further transfer: whether nobody answers."""
        self.sent = 0
        self.transfers = 0
        self.linger_seconds = 0.0
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.lock = threading.Lock()

    def enter(self, *names: str, step: int = 1) -> None:
        with self.lock:
            for name in names:
                self.now[name] = self.now.get(name, 0) + step
                self.most[name] = max(self.most.get(name, 0), self.now[name])


LINE = Line()


class _Cut(io.RawIOBase):
    """An input that ends early, as a reader at the other side of a lost connection sees it."""

    def __init__(self, source: BinaryIO, allowed: int | None) -> None:
        self._source = source
        self._allowed = allowed
        self.lost = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._allowed is not None and self._allowed <= 0:
            self.lost = True
            return b""
        data = self._source.read(size)
        LINE.sent += len(data)
        if self._allowed is not None:
            self._allowed -= len(data)
        return data


class CuttingRunner:
    api = (1, 0)

    @hookimpl
    def sky_config_schema(self) -> Mapping[str, Any]:
        return {"type": "object", "additionalProperties": False, "properties": {}}

    @hookimpl
    def sky_run(
        self,
        ctx: Context,
        host: Host,
        command: Command,
        stdin: BinaryIO | None,
        stdout: BinaryIO,
        stderr: BinaryIO,
    ) -> int:
        cut = _Cut(stdin or io.BytesIO(), LINE.cuts[0] if LINE.cuts else None)
        code = local.run(ctx, host, command, cut, stdout, stderr)  # type: ignore[arg-type]
        if cut.lost:
            raise ConnectionLost(f"{host.name}: the connection was lost")
        return code

    @hookimpl
    def sky_rsync(self, ctx: Context, host: Host, transfer: Transfer) -> TransferResult:
        LINE.transfers += 1
        if LINE.refused and LINE.refused.pop(0):
            raise Unreachable(f"{host.name}: nobody answers")
        LINE.enter(host.name, "all")
        try:
            time.sleep(LINE.linger_seconds)
            return transfer_over(self.sky_run, ctx, host, transfer)
        finally:
            LINE.enter(host.name, "all", step=-1)
            LINE.cuts = LINE.cuts[1:]
