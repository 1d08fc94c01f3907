"""What one command, or one library call, carries along: configuration, registry, cancellation, messages."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sky import config, paths
from sky.cache import Cache
from sky.cancellation import CancelToken
from sky.registry import plugins
from sky.types import Context, Event

_caches: dict[str, Cache] = {}
_caches_lock = threading.Lock()


class Session:
    """Made once for a command; everything that calls a plugin gets its `Context` here."""

    def __init__(
        self,
        emit: Callable[[Event], None] = lambda event: None,
        cancel: CancelToken | None = None,
        config_overrides: tuple[str, ...] = (),
    ) -> None:
        gc.enable()  # see sky.cli.entry
        self.cancel = cancel or CancelToken()
        self.registry = plugins.get()
        self.config = config.load(config_overrides)
        self._show = emit
        self.not_asked: dict[str, str] = {}
        """Clusters and clouds that could not be asked by this command, and why: what is shown of them is old."""
        if self.config:
            names = {entry.name for kind in ("cloud", "runner") for entry in self.registry.entries(kind)}
            for line in config.strange(self.config, names):
                self.warn(line)

    def emit(self, event: Event) -> None:
        """Show it to the user and tell the observers. Never raises."""
        self._show(event)
        self.registry.observers().event(event)

    def phase(self, message: str, **data: Any) -> None:
        """Say what is being done now."""
        self.emit(Event(kind="phase", message=message, data=data))

    def warn(self, message: str) -> None:
        self.emit(Event(kind="warning", message=message))

    def observer_context(self) -> Context:
        """What policies are given: the whole configuration, since they belong to no one plugin."""
        return Context(
            config=self.config,
            deadline=None,
            cancel=self.cancel,
            emit=self.emit,
            cache=Cache(),
            directory=paths.private("plugins", "observers"),
        )

    @contextlib.contextmanager
    def uncancelled(self) -> Iterator[None]:
        """For giving back after a cancellation: calls made inside get a token that isn't set yet."""
        before, self.cancel = self.cancel, CancelToken()
        try:
            yield
        finally:
            self.cancel = before

    def context(
        self,
        plugin: plugins.Plugin,
        seconds: float | None = None,
        task_config: Mapping[str, Any] | None = None,
    ) -> Context:
        """The context of one call: `seconds` from now is its deadline; None means no limit."""
        schema = plugin.hook.sky_config_schema() if plugin.has("sky_config_schema") else None
        merged = config.merge(self.config, task_config) if task_config else self.config
        with _caches_lock:
            cache = _caches.setdefault(plugin.name, Cache())
        return Context(
            config=config.section(merged, plugin.name, schema),
            deadline=None if seconds is None else time.monotonic() + seconds,
            cancel=self.cancel,
            emit=self.emit,
            cache=cache,
            directory=paths.private("plugins", plugin.name),
        )
