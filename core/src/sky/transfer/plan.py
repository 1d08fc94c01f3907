"""The difference of two manifests, as what has to be done at the target. Plain data; no I/O."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from sky.errors import TransferFailed
from sky.transfer.listing import Entry, Listing, Manifest
from sky.transfer.route import Route


@dataclass(slots=True)
class Plan:
    """Paths below the root of the target, in the order in which to act on the lists."""

    source: Manifest
    unlock: list[bytes] = field(default_factory=list)
    """Directories of the target whose owner may not change them yet, parents first."""
    remove: list[bytes] = field(default_factory=list)
    """Names, with all below them."""
    remove_if_empty: list[bytes] = field(default_factory=list)
    """Directories that may hold what is excluded, deepest first."""
    make: list[bytes] = field(default_factory=list)
    """New directories, parents first."""
    files: list[bytes] = field(default_factory=list)
    """Whose content is to be sent."""
    links: list[bytes] = field(default_factory=list)
    modes: list[bytes] = field(default_factory=list)
    """Files of which only the permission bits differ."""
    directories: list[bytes] = field(default_factory=list)
    """Whose mode and time are set last, deepest first; the root is not among them."""
    root: Entry | None = None
    """What the root itself has to be in the end, where a directory is moved."""
    root_differs: bool = False
    skipped: list[bytes] = field(default_factory=list)
    """Neither files, directories nor links."""
    trusted: bool = True
    """False when the target could not be listed: anything may be there."""

    @property
    def empty(self) -> bool:
        changes = (
            self.remove,
            self.remove_if_empty,
            self.make,
            self.files,
            self.links,
            self.modes,
            self.directories,
        )
        return not any(changes) and not self.root_differs

    def without(self, lost: Iterable[bytes]) -> None:
        """Leave out files that turned out not to be there, or not whole."""
        gone = set(lost)
        self.files = [path for path in self.files if path not in gone]


def parent_of(path: bytes) -> bytes:
    """Of a path below the root; the root's own is `b""`."""
    return path.rpartition(b"/")[0]


def difference(source: Listing, target: Listing, route: Route) -> Plan:
    """What makes the target equal. Raises `TransferFailed` if that needs a removal not asked for."""
    plan = Plan(source.entries, trusted=target.complete)
    touched: set[bytes] = set()
    for path in sorted(source.entries):
        _compare(plan, path, source.entries[path], target.entries, route, touched)
    if route.delete and source.kind == "d":
        _find_superfluous(plan, source.entries, target.entries, route, touched)
    if source.kind == "d":
        plan.root = source.entries[b""]
        plan.root_differs = not _same_attributes(plan.root, target.entries.get(b""))
    directories = {*plan.directories, *(path for path in touched if path and path in source.entries)}
    plan.directories = sorted(directories, key=lambda path: (-path.count(b"/"), path))
    removed = set(plan.remove)
    plan.unlock = [
        path
        for path, entry in sorted(target.entries.items())
        if path
        and entry.kind == "d"
        and entry.mode & 0o700 != 0o700
        and (path in touched or _below(path, removed))
    ]
    return plan


def _compare(
    plan: Plan, path: bytes, wanted: Entry, target: Manifest, route: Route, touched: set[bytes]
) -> None:
    there = target.get(path)
    if wanted.kind == "s":
        plan.skipped.append(path)
        return
    if not path:
        return
    if there is None or there.kind != wanted.kind or there.link != wanted.link:
        if there is not None:
            if there.kind == "d":
                _check_removable(path, target, route)
            plan.remove.append(path)
        {"d": plan.make, "f": plan.files, "l": plan.links}[wanted.kind].append(path)
        touched.add(parent_of(path))
        if wanted.kind == "d":
            plan.directories.append(path)
    elif wanted.kind == "f":
        if (wanted.size, wanted.mtime) != (there.size, there.mtime):
            plan.files.append(path)
            touched.add(parent_of(path))
        elif wanted.mode != there.mode:
            plan.modes.append(path)
    elif wanted.kind == "d" and not _same_attributes(wanted, there):
        plan.directories.append(path)


def _check_removable(path: bytes, target: Manifest, route: Route) -> None:
    name = os.fsdecode(path)
    if any(exclude.startswith(path + b"/") for exclude in route.excludes):
        raise TransferFailed(
            f"{name}: the directory there may hold what is excluded, so nothing can replace it"
        )
    if not route.delete and any(other.startswith(path + b"/") for other in target):
        raise TransferFailed(
            f"{name}: a directory that isn't empty is there", remedy="remove it, or transfer with delete"
        )


def _find_superfluous(
    plan: Plan, source: Manifest, target: Manifest, route: Route, touched: set[bytes]
) -> None:
    gone = set(plan.remove)
    for path in sorted(target):
        if path in source:
            continue
        if parent_of(path) in gone:
            gone.add(path)
            continue
        touched.add(parent_of(path))
        if target[path].kind == "d" and any(e.startswith(path + b"/") for e in route.excludes):
            plan.remove_if_empty.insert(0, path)
        else:
            plan.remove.append(path)
            gone.add(path)


def _same_attributes(wanted: Entry, there: Entry | None) -> bool:
    return there is not None and (wanted.mode, wanted.mtime) == (there.mode, there.mtime)


def _below(path: bytes, roots: set[bytes]) -> bool:
    while path:
        if path in roots:
            return True
        path = parent_of(path)
    return False
