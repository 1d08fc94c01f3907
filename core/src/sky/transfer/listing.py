"""What there is at either end of a transfer: one manifest of a local tree, one of a tree on a host."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH112, PTH115, PTH116, PTH118, PTH119
from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sky.errors import ProgramMissing, TransferFailed
from sky.transfer import codes
from sky.transfer.pipes import Head
from sky.transfer.route import STAGING_PREFIX, Route
from sky.types import Command, Context, Host

if TYPE_CHECKING:
    from sky.transfer import Run

Kind = Literal["d", "f", "l", "s"]
"""Directory, file, link; `s` is anything else, which is neither moved nor removed."""

PATTERNS_BYTES = 2048
"""Excludes up to this length are left out by the host already; all are left out here."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: permission bits, whole seconds, and what else its kind has."""

    kind: Kind
    mode: int
    mtime: int
    size: int = 0
    link: bytes = b""


Manifest = Mapping[bytes, Entry]
"""Entries by path below the root, which itself is `b""` where it is a directory."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One end: `kind` is `d`, `f` (anything that isn't a directory) or `n` (nothing there)."""

    kind: str
    entries: Manifest
    programs: frozenset[str] = frozenset()
    complete: bool = True
    """False when the host couldn't list: then everything has to be sent, and nothing can be deleted."""
    problem: str = field(default="")
    """The first thing on the host that could not be listed."""


def list_local(route: Route) -> Listing:
    """Blocks. Raises `TransferFailed` with the first path that can't be read."""
    path = route.local
    if os.path.isdir(path):
        entries: dict[bytes, Entry] = {b"": _entry(path, os.stat(path))}
        _scan(route, path, b"", entries)
        return Listing("d", entries)
    try:
        # A link given as the source means what is behind it; as the target, the link itself.
        status = os.stat(path) if route.up else os.lstat(path)
    except FileNotFoundError:
        return Listing("n", {})
    except OSError as error:
        raise TransferFailed(f"{os.fsdecode(path)}: {error.strerror}") from error
    return Listing("f", {os.path.basename(path): _entry(path, status)})


def _scan(route: Route, root: bytes, below: bytes, entries: dict[bytes, Entry]) -> None:
    pending = [below]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(os.path.join(root, directory)) as found:
                items = list(found)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TransferFailed(f"{os.fsdecode(error.filename)}: {error.strerror}") from error
        for item in items:
            path = directory + b"/" + item.name if directory else item.name
            if route.excluded(path) or _is_staging(path):
                continue
            try:
                entries[path] = _entry(item.path, item.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            if entries[path].kind == "d":
                pending.append(path)


def _entry(path: bytes, status: os.stat_result) -> Entry:
    link = os.readlink(path) if stat.S_ISLNK(status.st_mode) else b""
    return entry_of(status.st_mode, status.st_size, int(status.st_mtime_ns // 1_000_000_000), link)


def entry_of(mode: int, size: int, mtime: int, link: bytes = b"") -> Entry:
    """From the figures that `stat` gives."""
    kinds: dict[int, Kind] = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}
    kind = kinds.get(stat.S_IFMT(mode), "s")
    return Entry(kind, stat.S_IMODE(mode), mtime, size if kind == "f" else 0, link)


def _is_staging(path: bytes) -> bool:
    return path.startswith(STAGING_PREFIX.encode())


def list_remote(run: Run, ctx: Context, host: Host, route: Route, path: str) -> Listing:
    """One `run`. Raises `ProgramMissing`, `TransferFailed`, and what `run` raises."""
    script = Path(__file__).with_name("scripts").joinpath("list.sh").read_text()
    patterns = _patterns(route.excludes)
    command = Command(argv=("sh", "-c", script, "sky", "up" if route.up else "down", path, *patterns))
    output, errors = io.BytesIO(), Head()
    code = run(ctx, host, command, None, output, errors.as_file())
    header, _, rest = output.getvalue().partition(b"\n")
    if code == codes.PROGRAM_MISSING:
        raise ProgramMissing(header.decode(), remedy="install it, or use an image that has it")
    if code not in (0, codes.NOT_ALL_LISTED) or not header:
        raise TransferFailed(f"{path} can't be listed: {' '.join(errors.lines[:1]) or f'exit code {code}'}")
    kind, *programs = header.decode().split()
    problem = "" if code == 0 else " ".join(errors.lines[:1]) or path
    complete = {"find", "stat", "readlink"} <= set(programs)
    if kind == "d":
        entries = _parse(rest, route) if complete else {}
    else:
        entries = {os.fsencode(path.rpartition("/")[2]): _figures(rest)} if rest else {}
    return Listing(kind, entries, frozenset(programs), complete, problem)


def _patterns(excludes: Iterable[bytes]) -> list[str]:
    """For `find`, to spare the host a walk: only what any transport carries, in length and as text."""
    patterns: list[str] = []
    for exclude in excludes:
        try:
            patterns.append((b"./" + re.sub(rb"([\\*?\[])", rb"\\\1", exclude)).decode())
        except UnicodeDecodeError:
            continue
    return patterns if sum(map(len, patterns)) <= PATTERNS_BYTES else []


def _parse(data: bytes, route: Route) -> dict[bytes, Entry]:
    """Batches of (names, each ended by NUL; NUL; a line of `stat` for each; NUL), an empty batch, then pairs
    of a link and its target, each ended by NUL.

    `stat` repeats the name, so a name that vanished in between or holds newlines misleads nobody.
    """
    entries: dict[bytes, Entry] = {}
    position = 0
    while position < len(data) and data[position : position + 1] != b"\0":
        end = data.index(b"\0\0", position)
        names = data[position:end].split(b"\0")
        position = end + 2
        end = data.index(b"\0", position)
        for name in names:
            figures = _FIGURES.match(data, position)
            if figures and data.startswith(name + b"\n", figures.end()):
                entries[name[2:]] = _figures(figures[0])
                position = figures.end() + len(name) + 1
        position = end + 1
    words = data[position + 1 :].split(b"\0")
    for link, target in zip(words[::2], words[1::2], strict=False):
        entry = entries.get(link[2:])
        if entry is not None and entry.kind == "l":
            entries[link[2:]] = Entry("l", entry.mode, entry.mtime, link=target)
    return {path: entry for path, entry in entries.items() if not (route.excluded(path) or _is_staging(path))}


_FIGURES = re.compile(rb"([0-9a-f]+) (\d+) (-?\d+) ")


def _figures(line: bytes) -> Entry:
    mode, size, mtime = line.split()[:3]
    return entry_of(int(mode, 16), int(size), int(mtime))
