"""The reader of marks that a wrapper on the host leaves in a program's output: where it begins, how it ended.

For runners whose channel can lose the end of an output and still report success, or mixes what others say
into it. A mark is a line `\\x1eNONCE` followed by `@PGID` at the beginning (the process group) and `:WORD` at the
end (an exit code, or a word of the wrapper's own). The nonce is new for each command.
"""

from __future__ import annotations

from collections.abc import Callable

_MOST = 24
"""Characters of what a mark carries."""
_MOST_BEFORE = 1 << 16


class MarkReader:
    """Takes one stream apart: what came before the beginning, bytes of the program for `write`, the end.

    Holds back only bytes that may be the beginning of a mark. What follows the end is of processes that
    outlived the program, and is dropped. Where the wrapper marks no beginning, `begun` is true from the start.
    """

    def __init__(self, mark: bytes, write: Callable[[bytes], object], *, begun: bool = False) -> None:
        self._mark = mark
        self._write = write
        self._begun = begun
        self._held = b""
        self.before = b""
        """What was said before the program began, or instead; at most 64 KiB of it."""
        self.process_group: int | None = None
        """Known once the wrapper has begun."""
        self.result: str | None = None
        """An exit code, or a word; None while there was no end."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, of any number."""
        if self.result is not None:
            return
        data = self._held + data if self._held else data
        self._held = b""
        while (start := data.find(self._mark)) >= 0:
            tail = start + len(self._mark)
            told, newline, _ = data[tail : tail + _MOST].partition(b"\n")
            if (told and told[:1] not in b":@") or (not newline and len(told) == _MOST):
                self._emit(data[: start + 1])  # only looks like one
                data = data[start + 1 :]
                continue
            self._emit(data[:start])
            if not newline:
                self._held = data[start:]
                return
            data = data[tail + len(told) + 1 :]
            value = told[1:].decode("ascii", "replace")
            if told[:1] == b":":
                self.result = value
                return
            if value.isdigit():
                self.process_group = int(value)
                self._begun = True
        keep = self._beginning(data)
        self._held = data[len(data) - keep :]
        self._emit(data[: len(data) - keep])

    write = feed

    def finish(self) -> None:
        """The stream has ended: what was held back is the program's own."""
        if self.result is None:
            held, self._held = self._held, b""
            self._emit(held)

    def _emit(self, data: bytes) -> None:
        if not self._begun:
            self.before = (self.before + data)[:_MOST_BEFORE]
        elif data:
            self._write(data)

    def _beginning(self, data: bytes) -> int:
        """How many last bytes may be the beginning of a mark."""
        start = data.rfind(b"\x1e", max(0, len(data) - len(self._mark) + 1))
        return len(data) - start if start >= 0 and self._mark.startswith(data[start:]) else 0
