"""A time-to-live cache with one lock a key: threads that ask for the same thing wait for one answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Cache:
    """Values by key, each until its own expiry. A failure is not kept: the next caller tries again."""

    def __init__(self, max_entries: int = 4096) -> None:
        self._max_entries = max_entries
        self._values: Any = None
        self._lock = threading.Lock()
        self._flights: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, ttl_seconds: float, make: Callable[[], T]) -> T:
        """The value of `key`, made by `make` (which may block) if absent or expired; single flight."""
        with self._lock:
            flight = self._flights.setdefault(key, threading.Lock())
        with flight:
            with self._lock:
                values = self._ensure()
                if key in values:
                    return values[key][0]  # type: ignore[no-any-return]
            value = make()
            with self._lock:
                self._ensure()[key] = (value, time.monotonic() + ttl_seconds)
            return value

    def peek(self, key: Hashable) -> Any:
        """The value of `key`, or None if absent or expired; makes nothing and waits for nobody."""
        with self._lock:
            entry = None if self._values is None else self._values.get(key)
            return None if entry is None else entry[0]

    def put(self, key: Hashable, value: object, ttl_seconds: float) -> None:
        """Set `key` to what was learned otherwise, whatever it was."""
        with self._lock:
            self._ensure()[key] = (value, time.monotonic() + ttl_seconds)

    def forget(self, key: Hashable) -> None:
        """Drop `key`; absent is fine."""
        with self._lock:
            self._ensure().pop(key, None)

    def _ensure(self) -> Any:
        if self._values is None:
            # Paid by the first user of a cache, not by every command.
            from cachetools import TLRUCache

            self._values = TLRUCache(
                self._max_entries, ttu=lambda _key, value, _now: value[1], timer=time.monotonic
            )
        return self._values
