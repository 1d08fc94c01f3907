"""A plan carried out at the target: as a script for a host, or here.

Both begin when all content is staged in the target's root: each file then takes its place by one rename.
"""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH101, PTH103, PTH104, PTH106, PTH108, PTH112, PTH114, PTH118, PTH208, PTH211
from __future__ import annotations

import itertools
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sky.transfer.listing import Entry
from sky.transfer.plan import Plan, parent_of

ARGUMENTS_BYTES = 60_000
"""Of one command line in a script: far below what exec takes anywhere."""


def staged_tree_script(plan: Plan, staging: bytes, torn: Sequence[bytes]) -> bytes:
    """For a host where `STAGING/files` holds new directories, files and links under their own names."""
    files = staging + b"/files/"
    new = set(plan.make) if plan.trusted else set()
    lines = [*_commands(b"rm -f", (files + path for path in torn)), *_before(plan)]
    if not plan.trusted:
        lines += _commands(b"mkdir -p", map(_here, plan.make))
    groups: dict[bytes, list[bytes]] = {}
    for path in (*sorted(new), *plan.files, *plan.links):
        if parent_of(path) not in new:
            groups.setdefault(parent_of(path), []).append(path)
    for parent, paths in groups.items():
        lines += _commands(b"mv -f", (files + path for path in paths), _here(parent) + b"/")
    return b"\n".join([*lines, *_after(plan), b"complete=yes\n"])


def staged_numbers_script(plan: Plan, staging: bytes, staged: Mapping[bytes, tuple[int, Entry]]) -> bytes:
    """For a host where `STAGING/N` holds the content of each file, with no mode and no time yet."""
    name = {path: b"%s/%d" % (staging, number) for path, (number, _) in staged.items()}
    lines = [*_before(plan), *_commands(b"mkdir -p", map(_here, plan.make))]
    for mode, paths in _grouped(plan.files, {path: entry.mode for path, (_, entry) in staged.items()}):
        lines += _commands(b"chmod %05o" % mode, (name[path] for path in paths))
    for mtime, paths in _grouped(plan.files, {path: entry.mtime for path, (_, entry) in staged.items()}):
        lines += _commands(b"touch -m -d @%d" % mtime, (name[path] for path in paths))
    lines += [b"mv -f %s %s" % (quote(name[path]), quote(_here(path))) for path in plan.files]
    if not plan.trusted:
        lines += _commands(b"rm -f", map(_here, plan.links))
    lines += [b"ln -s -- %s %s" % (quote(plan.source[path].link), quote(_here(path))) for path in plan.links]
    return b"\n".join([*lines, *_after(plan), b"complete=yes\n"])


def _before(plan: Plan) -> Iterator[bytes]:
    yield from _commands(b"chmod u+rwx", map(_here, plan.unlock))
    yield from _commands(b"rm -rf", map(_here, plan.remove))
    for path in plan.remove_if_empty:
        yield b"rmdir %s 2>/dev/null || :" % quote(_here(path))


def _after(plan: Plan) -> Iterator[bytes]:
    modes = {path: entry.mode for path, entry in plan.source.items()}
    times = {path: entry.mtime for path, entry in plan.source.items()}
    for mode, paths in _grouped(plan.modes, modes):
        yield from _commands(b"chmod %05o" % mode, map(_here, paths))
    for mtime, paths in _grouped(plan.directories, times):
        yield from _commands(b"touch -m -d @%d" % mtime, map(_here, paths))
    # Deepest first, and after all else: a mode may forbid the owner to go further down. Five digits, for with
    # four GNU chmod keeps the set-group-id bit of a directory.
    for mode, run in itertools.groupby(plan.directories, modes.__getitem__):
        yield from _commands(b"chmod %05o" % mode, map(_here, run))


def _grouped(paths: Iterable[bytes], value: Mapping[bytes, int]) -> Iterable[tuple[int, list[bytes]]]:
    groups: dict[int, list[bytes]] = {}
    for path in paths:
        groups.setdefault(value[path], []).append(path)
    return groups.items()


def _here(path: bytes) -> bytes:
    return b"./" + path if path else b"."


def quote(word: bytes) -> bytes:
    """One word for `sh`, whatever bytes are in it."""
    return b"'" + word.replace(b"'", b"'\\''") + b"'"


def _commands(program: bytes, paths: Iterable[bytes], last: bytes = b"") -> Iterator[bytes]:
    """As few command lines as hold all paths; none for no paths."""
    tail = b" " + quote(last) if last else b""
    words, size = [program], 0
    for path in paths:
        if size > ARGUMENTS_BYTES:
            yield b" ".join(words) + tail
            words, size = [program], 0
        words.append(quote(path))
        size += len(words[-1]) + 1
    if len(words) > 1:
        yield b" ".join(words) + tail


def apply_here(plan: Plan, root: bytes, staged: Mapping[bytes, bytes]) -> None:
    """Carry out a plan below `root`. `staged` is where each file's content is, its attributes set.

    Blocks. Raises `OSError`; what is done until then stays.
    """

    def at(path: bytes) -> bytes:
        return os.path.join(root, path)

    for path in plan.unlock:
        os.chmod(at(path), stat.S_IMODE(os.lstat(at(path)).st_mode) | 0o700)
    for path in plan.remove:
        _remove(at(path))
    for path in plan.remove_if_empty:
        if not os.listdir(at(path)):
            os.rmdir(at(path))
    for path in plan.make:
        os.makedirs(at(path), exist_ok=True)
    for path in plan.files:
        os.rename(staged[path], at(path))
    for path in plan.links:
        os.symlink(plan.source[path].link, at(path))
    for path in plan.modes:
        os.chmod(at(path), plan.source[path].mode)
    for path in plan.directories:
        os.utime(at(path), (plan.source[path].mtime,) * 2)
    for path in plan.directories:
        os.chmod(at(path), plan.source[path].mode)


def _remove(path: bytes) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
