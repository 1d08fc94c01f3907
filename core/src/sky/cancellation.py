"""A cancel token: set once, by a signal handler or another thread; waited for by whoever blocks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from sky.errors import Cancelled


class CancelToken:
    """Set once and for ever. Safe from any thread and from a signal handler.

    Code that waits in `select` adds `fileno()` to its readers; code that sleeps uses `wait`; code that must
    interrupt something else registers `on_cancel`.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._pipe: tuple[int, int] | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Set it. Never blocks; may be repeated."""
        if self._event.is_set():
            return
        self._event.set()
        if self._pipe is not None:
            os.write(self._pipe[1], b"x")
        for callback in tuple(self._callbacks):
            callback()

    def wait(self, seconds: float) -> bool:
        """Sleep up to `seconds`; true, at once, when cancelled."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Raise `Cancelled` if it is set."""
        if self._event.is_set():
            raise Cancelled("cancelled")

    def fileno(self) -> int:
        """A descriptor that becomes readable when cancelled; it is never read, so many may watch it."""
        if self._pipe is None:
            self._pipe = os.pipe()
            if self._event.is_set():
                os.write(self._pipe[1], b"x")
        return self._pipe[0]

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when cancelled (now, if it already is). Returns what takes it back."""
        self._callbacks.append(callback)
        if self._event.is_set():
            callback()

        def undo() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return undo

    def __del__(self) -> None:
        if self._pipe is not None:
            for fd in self._pipe:
                os.close(fd)
