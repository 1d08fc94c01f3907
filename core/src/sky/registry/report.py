"""One row for each installed plugin, whatever its state: what `sky plugins` shows."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Container
from dataclasses import dataclass

from sky.errors import PluginError
from sky.registry import index, plugins, settings
from sky.registry.loading import LoadFailure


@dataclass(frozen=True, slots=True)
class Row:
    """A plugin as it stands. `state`: ready, slow, available, disabled, duplicate, incompatible, invalid, error."""

    name: str
    kind: str
    version: str
    dist: str
    state: str
    entry_point: str
    api: str = ""
    import_ms: float | None = None
    hooks: tuple[str, ...] = ()
    problem: str = ""
    remedy: str = ""
    traceback: str = ""


LoadCommand = Callable[[index.Entry], object]


def rows(load: bool, own_commands: Container[str], load_command: LoadCommand) -> list[Row]:
    """Every entry point, loaded one by one if `load`; what one of them does stops no other.

    `own_commands` are names that no plugin can take; `load_command` raises `PluginError` for one that won't do.
    """
    registry = plugins.Registry()

    def command(entry: index.Entry) -> None:
        if entry.name in own_commands:
            raise LoadFailure(
                "duplicate",
                f"{entry.dist}: {entry.name!r} is a command of Sky itself, which is used",
                f"uninstall or upgrade {entry.dist}",
            )
        load_command(entry)

    return [
        _row(registry, entry, load, command)
        for entry in index.entries()
        if registry.canonical(entry.kind, entry.name) == entry.name
    ]


def _row(registry: plugins.Registry, entry: index.Entry, load: bool, load_command: LoadCommand) -> Row:
    def row(state: str, **more: object) -> Row:
        return Row(entry.name, entry.kind, entry.version, entry.dist, state, entry.value, **more)  # type: ignore[arg-type]

    if not settings.enabled(entry):
        return row("disabled")
    if entry.kind == "command":
        try:
            load_command(entry) if load else None
        except PluginError as error:
            return row(getattr(error, "state", "error"), problem=error.message, remedy=error.remedy)
        return row("ready" if load else "available")
    try:
        registry.check_unique(entry)
        if not load:
            return row("available")
        plugin = registry.get(entry.kind, entry.name)
    except LoadFailure as failure:
        cause = failure.__cause__
        detail = "".join(traceback.format_exception(cause)) if cause is not None else ""
        return row(failure.state, problem=failure.message, remedy=failure.remedy, traceback=detail)
    slow = plugin.import_seconds > plugins.SLOW_IMPORT_SECONDS
    return row(
        "slow" if slow else "ready",
        api="{}.{}".format(*plugin.api),
        import_ms=round(plugin.import_seconds * 1000, 1),
        hooks=tuple(sorted(plugin.hooks)),
        problem=f"importing it takes {plugin.import_seconds * 1000:.0f} ms" if slow else "",
        remedy=f"tell the authors of {entry.dist}: SDKs are imported inside the hooks" if slow else "",
    )
