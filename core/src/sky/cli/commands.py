"""Commands that plugins add to the command line: found as any plugin, loaded when they are typed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from sky.errors import PluginError

if TYPE_CHECKING:
    from sky.registry.index import Entry


def load(entry: Entry) -> click.Command:
    """The command of an entry, or `PluginError`: whatever a plugin does at import, the others go on."""
    module, _, attribute = entry.value.partition(":")
    try:
        command = getattr(importlib.import_module(module), attribute)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(
            f"{entry.dist}: command {entry.name!r} can't be loaded: {type(error).__name__}: {error}",
            remedy=f"sky plugins disable {entry.name}",
        ) from error
    if not isinstance(command, click.Command):
        raise PluginError(
            f"{entry.dist}: {entry.value} is no click command", remedy=f"sky plugins disable {entry.name}"
        )
    return command
