"""Which plugins the user wants: `sky plugins enable|disable`, SKY_PLUGINS, --no-plugins.

Filtered before loading: a disabled plugin is never imported.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from sky import paths

if TYPE_CHECKING:
    from sky.registry.index import Entry

_FILE = "plugins.json"


def disabled() -> set[str]:
    """Names that the user has disabled; a file that can't be read disables nothing, and is an error to write."""
    try:
        return set(json.loads((paths.home() / _FILE).read_bytes())["disabled"])
    except FileNotFoundError:
        return set()


def set_disabled(name: str, off: bool) -> None:
    """Remember that `name` is (not) wanted. May be repeated."""
    names = disabled()
    names.add(name) if off else names.discard(name)
    paths.private()
    paths.write_private(paths.home() / _FILE, json.dumps({"disabled": sorted(names)}).encode())


def enabled(entry: Entry) -> bool:
    """What comes with the core stays, unless it is disabled by name: SKY_PLUGINS speaks of the others."""
    if entry.name in disabled():
        return False
    only = os.environ.get("SKY_PLUGINS")
    return only is None or entry.dist == "sky-core" or entry.name in {n.strip() for n in only.split(",")}
