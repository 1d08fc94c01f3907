"""The logs of several ranks as one stream of lines, each with its rank."""

from __future__ import annotations

import threading
from typing import BinaryIO

LONGEST = 1 << 16
"""A line longer than this is passed on in parts."""


class Merged:
    """Sinks for the ranks of one job. Until `several` is said, what comes is passed on as it is."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._sinks: dict[int, _Rank] = {}
        self.prefixed = False

    def several(self) -> None:
        """The job has several ranks: from here on each line begins with `(rank N) `."""
        self.prefixed = True

    def rank(self, number: int) -> BinaryIO:
        """The sink of one rank; a repeat is the same one."""
        sink = self._sinks.setdefault(number, _Rank(self, b"(rank %d) " % number))
        return sink  # type: ignore[return-value]

    def pass_on(self, data: bytes) -> None:
        with self._lock:
            self._out.write(data)
            self._out.flush()

    def flush(self) -> None:
        """What came of lines that never ended."""
        for sink in self._sinks.values():
            sink.finish()


class _Rank:
    """Whole lines go on at once; so does what a progress bar draws over again, up to its last carriage return."""

    def __init__(self, merged: Merged, prefix: bytes) -> None:
        self._merged, self._prefix = merged, prefix
        self._rest = b""

    def write(self, data: bytes) -> int:
        if not self._merged.prefixed:
            self._merged.pass_on(data)
            return len(data)
        text = self._rest + data
        cut = text.rfind(b"\n") + 1
        drawn = text.rfind(b"\r", cut, -1) + 1  # not the last byte: its line feed may follow
        cut = max(cut, drawn)
        if len(text) - cut > LONGEST:
            cut = len(text)
        self._rest = text[cut:]
        if cut:
            self._merged.pass_on(
                b"".join(self._prefix + line for line in text[:cut].splitlines(keepends=True))
            )
        return len(data)

    def finish(self) -> None:
        if self._rest:
            self._merged.pass_on(self._prefix + self._rest + b"\n")
            self._rest = b""

    def flush(self) -> None:
        """Nothing is held back that could go on."""
