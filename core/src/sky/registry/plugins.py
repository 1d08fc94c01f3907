"""Loading plugins, one manager each, and calling their hooks.

`Registry` answers with a `Plugin` by kind and name, loading it on first use; nothing of one plugin's
failure reaches another or the command that didn't need it. `Plugin.call` is the only way into a hook.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sky import hookspecs
from sky.errors import PluginError, SkyError
from sky.registry import index, settings
from sky.registry.loading import LoadFailure, UnknownPlugin, import_plugin, manage
from sky.registry.observers import Observers
from sky.registry.streams import Raised

if TYPE_CHECKING:
    from sky.types import Context

SLOW_IMPORT_SECONDS = 0.25

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("sky_"))

REQUIRED_HOOKS = {
    "cloud": [
        "sky_cloud_info",
        "sky_check_credentials",
        "sky_feasible",
        "sky_run_instances",
        "sky_wait_instances",
        "sky_query_instances",
        "sky_cluster_hosts",
        "sky_list_clusters",
        "sky_terminate_instances",
    ],
    "runner": ["sky_run", "sky_rsync"],
    "observer": [],
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plugin and the manager that owns its hooks."""

    entry: index.Entry
    hook: Any
    hooks: frozenset[str]
    """Names of the hooks that it implements."""
    import_seconds: float
    api: tuple[int, int]
    observers: Observers

    @property
    def name(self) -> str:
        return self.entry.name

    def has(self, hook: str) -> bool:
        return hook in self.hooks

    def call(self, hook: str, **arguments: Any) -> Any:
        """Call one hook. Sky's own errors and what the caller's streams raise pass; all else is its defect."""
        started = time.monotonic()
        outcome = "raised"
        raised = Raised()
        try:
            if hook == "sky_run":
                arguments = raised.watch(arguments)
            result = getattr(self.hook, hook)(**arguments)
            outcome = "returned"
            return result
        except SkyError as error:
            outcome = error.kind
            raise
        except Exception as error:
            if error in raised or self.entry.kind == "command" or os.environ.get("SKY_PLUGINS_STRICT") == "1":
                raise
            raise self._defect(hook, error, arguments.get("ctx")) from error
        finally:
            self.observers.hook_called(self.entry, hook, started, time.monotonic(), outcome)

    def _defect(self, hook: str, error: Exception, ctx: Context | None) -> SkyError:
        diagnosis = None
        if self.has("sky_classify_error"):
            # What the explanation itself raises must not hide what is to be explained.
            with contextlib.suppress(Exception):
                diagnosis = self.hook.sky_classify_error(ctx=ctx, error=error)
        return PluginError(
            f"{self.entry.dist or self.name}: {hook} failed: {type(error).__name__}: {error}",
            remedy=diagnosis.remedy
            if diagnosis
            else f"see the traceback with SKY_DEBUG=1, or: sky plugins disable {self.name}",
        )


class Registry:
    """All installed plugins. One for a process (`get()`); threads may share it."""

    def __init__(self, entries: Iterable[index.Entry] | None = None) -> None:
        found = index.entries() if entries is None else entries
        # What comes with the core keeps its names, whoever else claims them and wherever that sorts.
        self._entries = tuple(sorted(found, key=lambda entry: entry.dist != "sky-core"))
        self._loaded: dict[tuple[str, str], Plugin | LoadFailure] = {}
        self._lock = threading.RLock()
        self._observers: Observers | None = None

    # --- what there is, without importing -------------------------------------------------------------

    def entries(self, kind: str) -> tuple[index.Entry, ...]:
        return tuple(entry for entry in self._entries if entry.kind == kind)

    def names(self, kind: str) -> tuple[str, ...]:
        """The enabled plugins of a kind: one name for each class, the aliases left out."""
        taken: dict[str, str] = {}
        for entry in self.entries(kind):
            if settings.enabled(entry):
                taken.setdefault(entry.value, self.canonical(kind, entry.name))
        return tuple(sorted(set(taken.values())))

    def canonical(self, kind: str, name: str) -> str:
        """Of several names of one class, the longest: `k8s` is short for the other."""
        values = [entry.value for entry in self.entries(kind) if entry.name == name.lower()]
        if not values:
            return name
        return max((e.name for e in self.entries(kind) if e.value == values[0]), key=len)

    # --- loading ------------------------------------------------------------------------------------

    def cloud(self, name: str) -> Plugin:
        """Raises `PluginError` (missing, broken, disabled, incompatible), with its remedy."""
        return self.get("cloud", name)

    def runner(self, name: str) -> Plugin:
        return self.get("runner", name)

    def get(self, kind: str, name: str) -> Plugin:
        name = self.canonical(kind, name)
        with self._lock:
            found = self._loaded.get((kind, name))
            if found is None:
                try:
                    found = self._load(kind, name)
                except LoadFailure as failure:
                    found = failure
                self._loaded[kind, name] = found
        if isinstance(found, LoadFailure):
            raise found.with_traceback(None)
        return found

    def _load(self, kind: str, name: str) -> Plugin:
        candidates = [entry for entry in self.entries(kind) if entry.name == name]
        if not candidates:
            raise self._unknown(kind, name)
        entry = candidates[0]
        self.check_unique(entry)
        if not settings.enabled(entry):
            raise LoadFailure("disabled", f"{kind} {name!r} is disabled", f"sky plugins enable {name}")
        plugin, seconds = import_plugin(entry)
        manager = manage(entry, plugin)
        implemented = frozenset(hook for hook in HOOKS if getattr(manager.hook, hook).get_hookimpls())
        missing = [hook for hook in REQUIRED_HOOKS[kind] if hook not in implemented]
        if missing:
            raise LoadFailure(
                "invalid", f"{entry.dist}: {name} lacks {', '.join(missing)}", f"upgrade {entry.dist}"
            )
        observers = Observers(()) if kind == "observer" else self.observers()
        api: tuple[int, int] = plugin.api  # type: ignore[attr-defined]
        return Plugin(entry, manager.hook, implemented, seconds, api, observers)

    def check_unique(self, entry: index.Entry) -> None:
        """Raise `LoadFailure` if two distributions want the same name: which one is meant can't be told.

        What comes with the core keeps its name.
        """
        rivals = [e for e in self.entries(entry.kind) if e.name == entry.name and e.value != entry.value]
        if rivals and entry.dist != "sky-core":
            dists = " and ".join(sorted({f"{e.dist} {e.version}" for e in (entry, *rivals)}))
            raise LoadFailure(
                "duplicate", f"{entry.kind} {entry.name!r} is offered by {dists}", "uninstall one of them"
            )

    def _unknown(self, kind: str, name: str) -> LoadFailure:
        from difflib import get_close_matches

        known = self.names(kind)
        what = {"cloud": "cloud", "runner": "transport"}.get(kind, kind)
        near = get_close_matches(name, known, 1)
        could_be_one = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
        if near:
            remedy = f"did you mean {near[0]!r}? Or: pip install sky-plugin-{name}"
        elif could_be_one:
            remedy = f"pip install sky-plugin-{name}   (sky plugins list shows what is installed)"
        else:
            remedy = "sky plugins list shows what is installed"
        return UnknownPlugin(
            "missing", f"no {what} named {name!r}; installed: {', '.join(known) or 'none'}", remedy
        )

    def observers(self) -> Observers:
        """Every observer that loads; one that doesn't is named in a warning and left out.

        Unlike clouds, all of them are loaded: a policy that was skipped would be a policy not kept. A
        policy observer that fails to load refuses tasks (see `Observers.policy`).
        """
        with self._lock:
            if self._observers is None:
                plugins, broken = [], []
                for name in self.names("observer"):
                    try:
                        plugins.append(self.get("observer", name))
                    except LoadFailure as failure:
                        broken.append((name, failure))
                self._observers = Observers(plugins, broken)
            return self._observers


_registry: Registry | None = None
_registry_lock = threading.Lock()


def get() -> Registry:
    """The registry of this process."""
    global _registry
    with _registry_lock:
        if _registry is None:
            _registry = Registry()
        return _registry
