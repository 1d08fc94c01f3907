"""Observers: who watches every call, and who may refuse a task. Guarded, so that they can stop nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sky.errors import PluginError, SkyError, UsageError
from sky.types import Event

if TYPE_CHECKING:
    from sky.registry.index import Entry
    from sky.registry.loading import LoadFailure
    from sky.registry.plugins import Plugin
    from sky.task.model import Task
    from sky.types import Context


class Observers:
    """The loaded observers, in the order of their names."""

    def __init__(self, plugins: Iterable[Plugin], broken: Iterable[tuple[str, LoadFailure]] = ()) -> None:
        self._plugins = tuple(plugins)
        self._broken = tuple(broken)
        self._told: set[str] = set()
        self._trace = os.environ.get("SKY_TRACE_HOOKS") == "1"

    def __bool__(self) -> bool:
        return bool(self._plugins or self._broken)

    def event(self, event: Event) -> None:
        """Tell everyone. What an observer raises is reported once and ignored."""
        for plugin in self._plugins:
            if not plugin.has("sky_event"):
                continue
            try:
                plugin.hook.sky_event(event=event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - reported, and may stop nothing
                self._report(plugin.name, error)

    def hook_called(self, entry: Entry, hook: str, started: float, ended: float, outcome: str) -> None:
        """Every call of a hook of a cloud or runner passes here: audit, tracing, the timeline."""
        if self._trace:
            sys.stderr.write(f"sky: {entry.name}.{hook} {(ended - started) * 1000:.1f} ms {outcome}\n")
        if self._plugins:
            data: dict[str, Any] = {
                "plugin": entry.name,
                "kind": entry.kind,
                "hook": hook,
                "started": started,
                "ended": ended,
                "outcome": outcome,
            }
            self.event(Event(kind="hook", message=f"{entry.name}.{hook}", data=data))

    def policy(self, ctx: Context, task: Task) -> Task:
        """The task as every policy left it. Raises `UsageError` when one refuses, or can't be asked."""
        for name, failure in self._broken:
            raise PluginError(
                f"observer {name!r} can't be loaded, and might hold a policy: {failure.message}",
                remedy=f"{failure.remedy}; or: sky plugins disable {name}",
            )
        for plugin in self._plugins:
            if not plugin.has("sky_task_policy"):
                continue
            try:
                for changed in plugin.hook.sky_task_policy(ctx=ctx, task=task):
                    task = task if changed is None else changed
            except SkyError:
                raise
            except Exception as error:
                raise UsageError(
                    f"policy {plugin.name!r} ({plugin.entry.dist}) failed: {type(error).__name__}: {error}",
                    remedy=f"ask who installed it, or: sky plugins disable {plugin.name}",
                ) from error
        return task

    def _report(self, name: str, error: BaseException) -> None:
        if name not in self._told:
            self._told.add(name)
            sys.stderr.write(
                f"sky: observer {name!r} failed and is ignored: {type(error).__name__}: {error}\n"
            )
