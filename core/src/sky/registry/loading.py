"""Loading one plugin, and every way in which that can fail: each a `LoadFailure` with its remedy."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time

import pluggy

from sky import hookspecs
from sky.errors import PluginError
from sky.registry.index import Entry


class LoadFailure(PluginError):
    """Why a plugin can't be used; `state` is the word of `sky plugins list`."""

    def __init__(self, state: str, message: str, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.state = state


class UnknownPlugin(LoadFailure):
    """A name that nobody offers: the user's, most likely mistyped."""

    exit_code = 2
    kind = "usage"


def import_plugin(entry: Entry) -> tuple[object, float]:
    """The plugin object of an entry, and how long importing it took."""
    started = time.perf_counter()
    module_name, _, attribute = entry.value.partition(":")
    try:
        # What it prints must not get into a table or JSON that somebody reads.
        with contextlib.redirect_stdout(sys.stderr):
            target = getattr(importlib.import_module(module_name), attribute)
            if not isinstance(target, type):
                raise LoadFailure(
                    "invalid", f"{entry.dist}: {entry.value} is not a class", f"upgrade {entry.dist}"
                )
            _check_api(entry, getattr(target, "api", None))
            plugin = target()
    except (KeyboardInterrupt, LoadFailure):
        raise
    except BaseException as error:
        # Also SystemExit and other BaseExceptions: whatever a plugin does at import, the others go on.
        if os.environ.get("SKY_PLUGINS_STRICT") == "1":
            raise
        raise LoadFailure(
            "error",
            f"{entry.dist or entry.name}: {type(error).__name__}: {error}",
            f"pip install --force-reinstall {entry.dist or entry.name}, or: sky plugins disable {entry.name}",
        ) from error
    return plugin, time.perf_counter() - started


def _check_api(entry: Entry, declared: object) -> None:
    major, minor = hookspecs.API_VERSION
    if not (isinstance(declared, tuple) and len(declared) == 2):
        raise LoadFailure(
            "invalid", f"{entry.dist}: declares no `api = ({major}, {minor})`", f"upgrade {entry.dist}"
        )
    if declared[0] != major or declared[1] > minor:
        newer = declared > hookspecs.API_VERSION
        raise LoadFailure(
            "incompatible",
            f"{entry.dist}: built for plugin API {declared[0]}.{declared[1]}, this sky offers {major}.{minor}",
            "pip install --upgrade sky-core" if newer else f"pip install --upgrade {entry.dist}",
        )


def manage(entry: Entry, plugin: object) -> pluggy.PluginManager:
    manager = pluggy.PluginManager("sky")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin, entry.name)
        # A misspelt hook is accepted silently until it's asked for.
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise LoadFailure(
            "invalid", f"{entry.dist}: {_first_line(error)}", f"upgrade {entry.dist}"
        ) from error
    return manager


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())
