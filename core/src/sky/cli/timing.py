"""Where the time of one command went, from the start of the process on."""

from __future__ import annotations

import os
import time
from typing import BinaryIO


class Timing:
    """Marks on one clock; the first two are what came before us."""

    def __init__(self) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b") ")[2].split()[19])
        started = ticks / os.sysconf("SC_CLK_TCK")  # whole hundredths of a second
        self._marks = [("", started), ("interpreter and imports", now)]

    def mark(self, what: str) -> None:
        self._marks.append((what, time.clock_gettime(time.CLOCK_BOOTTIME)))

    def watch(self, stream: BinaryIO) -> BinaryIO:
        """`stream`, with a mark at its first byte."""
        return _FirstByte(stream, self)  # type: ignore[return-value]

    def report(self) -> str:
        lines = [
            f"{(at - before) * 1000:8.1f} ms  {what}"
            for (_, before), (what, at) in zip(self._marks, self._marks[1:], strict=False)
        ]
        total = self._marks[-1][1] - self._marks[0][1]
        return "\n".join([*lines, f"{total * 1000:8.1f} ms  in all (the first line to ± 10 ms)"])


class _FirstByte:
    def __init__(self, stream: BinaryIO, timing: Timing) -> None:
        self._stream, self._timing, self._seen = stream, timing, False

    def write(self, data: bytes) -> int:
        if not self._seen:
            self._seen = True
            self._timing.mark("first byte of output")
        return self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()
