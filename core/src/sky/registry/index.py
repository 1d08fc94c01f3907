"""Which plugins are installed, without importing any: a file that is right for one state of `sys.path`.

Reading entry points costs some 40 ms (importlib.metadata); reading the index costs a stat of each
directory of `sys.path`. An installer that adds, removes or replaces a distribution renames a `.dist-info`
directory inside one of them, which changes that directory's mtime.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sky import paths

GROUPS = {
    "cloud": "sky.clouds",
    "runner": "sky.runners",
    "observer": "sky.observers",
    "command": "sky.commands",
}
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry point. `kind` is a key of GROUPS; `value` is `module:Class`."""

    kind: str
    name: str
    value: str
    dist: str
    version: str


def entries() -> tuple[Entry, ...]:
    """Every installed entry point of ours, in the order of kind and name; duplicates included.

    Raises nothing: an index that can't be read or written is made anew.
    """
    return tuple(Entry(**row) for row in _document()["entries"])


def skypilot_beside() -> bool:
    """Whether SkyPilot is installed in this environment, which owns the same command and package."""
    return bool(_document()["skypilot"])


def _document() -> dict[str, Any]:
    seen = _path_state()
    file = paths.home() / "cache" / f"plugins-{_digest(sys.prefix)}.json"
    try:
        stored = json.loads(file.read_bytes())
        if stored["format"] == _FORMAT and stored["path"] == seen:
            return stored  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # absent, or of another version: made anew below
    document = {
        "format": _FORMAT,
        "path": seen,
        "entries": [asdict(entry) for entry in _discover()],
        "skypilot": _installed("skypilot"),
    }
    try:
        paths.private("cache")
        paths.write_private(file, json.dumps(document).encode())
    except OSError:
        pass  # a read-only home only costs the next command the same work
    return document


def _installed(dist: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(dist)
    except PackageNotFoundError:
        return False
    return True


def _path_state() -> list[list[object]]:
    """(path, mtime in ns) of what `sys.path` names; what isn't there is part of the state, too."""
    state: list[list[object]] = []
    for place in dict.fromkeys(sys.path[1:] if sys.path[:1] == [""] else sys.path):
        try:
            state.append([place, os.stat(place).st_mtime_ns])  # noqa: PTH116
        except OSError:
            state.append([place, 0])
    return state


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _discover() -> Iterable[Entry]:
    from importlib.metadata import EntryPoint, entry_points

    from stevedore import NamedExtensionManager

    class Fresh(NamedExtensionManager[object]):
        """stevedore, without its cache: that packs mtimes as 32-bit floats, so that a distribution
        re-installed within two minutes keeps its old entry points (stevedore 5.10)."""

        def list_entry_points(self) -> list[EntryPoint]:
            return list(entry_points(group=self.namespace))

    seen = set()
    for kind, group in GROUPS.items():
        # An empty list of names: stevedore lists, and loads nothing.
        for point in sorted(Fresh(group, []).list_entry_points(), key=lambda p: (p.name, p.value)):
            dist = point.dist
            entry = Entry(
                kind, point.name, point.value, dist.name if dist else "", dist.version if dist else ""
            )
            # An editable install can list the same distribution twice.
            if entry not in seen:
                seen.add(entry)
                yield entry
