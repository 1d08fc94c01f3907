"""Directory trees, described so that both ends of a transfer can be compared; and one that is hard to copy."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

Tree = dict[bytes, tuple[bytes, ...]]
"""By path relative to the root (`b"."` itself): kind, then mode and mtime, then digest or link target."""

REMOTE_TREE = r"""
cd "$1" || exit 1
find . -exec sh -c '
for path; do
  printf "%s\0" "$path"
  if [ -h "$path" ]; then printf "link\0%s\0\0\0" "$(readlink "$path")"
  elif [ -d "$path" ]; then printf "dir\0%s\0%s\0\0" $(stat -c "%a %Y" "$path")
  elif [ -f "$path" ]; then
    printf "file\0%s\0%s\0" $(stat -c "%a %Y" "$path")
    set -- $(md5sum <"$path"); printf "%s\0" "$1"
  else printf "special\0\0\0\0"; fi
done' sh {} +
"""
"""Prints the tree below its argument, five fields for each path; needs `find`, `stat`, `readlink`, `md5sum`."""


def parse_remote(output: bytes) -> Tree:
    fields = output.split(b"\0")[:-1]
    tree = {}
    for i in range(0, len(fields), 5):
        path, kind, *rest = fields[i : i + 5]
        tree[os.path.normpath(path)] = (kind, *(field for field in rest if field))
    return tree


def local_tree(root: Path) -> Tree:
    """Blocks: reads every file below `root`."""
    found: Tree = {}
    top = os.fsencode(root)
    for directory, names, files in os.walk(top):
        for path in [directory, *(os.path.join(directory, name) for name in (*names, *files))]:  # noqa: PTH118
            found[os.path.relpath(path, top)] = _describe(path)
    return found


def _describe(path: bytes) -> tuple[bytes, ...]:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return (b"link", os.readlink(path))  # noqa: PTH115 - pathlib has no bytes
    attributes = (b"%o" % stat.S_IMODE(status.st_mode), b"%d" % int(status.st_mtime))
    if stat.S_ISDIR(status.st_mode):
        return (b"dir", *attributes)
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            return (b"file", *attributes, hashlib.md5(file.read()).hexdigest().encode())
    return (b"special",)


ODD_NAMES = (
    b"with space", b"-dash", b"*", b"quote'", b'double"', b"$HOME", b"back\\slash", b"line\nbreak", b"colon:",
    "ünïcode 東京".encode(), b"not-utf8-\xff\xfe", b"tab\there", b"#hash", b"~tilde", b"x" * 255,
)  # fmt: skip


def make_tree(root: Path) -> Path:
    """Files of several kinds, modes and times, hidden ones, links and empty directories. Returns `root`."""
    for name in ("sub/deeper", "empty", ".hidden-dir"):
        (root / name).mkdir(parents=True)
    for name, size in (("a", 3), ("big", 300_000), ("zero", 0), (".hidden", 7), ("sub/deeper/b", 5)):
        (root / name).write_bytes(bytes(i * 7 % 256 for i in range(size)))
    (root / ".hidden-dir" / "c").write_text("c")
    (root / "link").symlink_to("sub/deeper/b")
    (root / "dangling").symlink_to("/nowhere/at all")
    (root / "link-to-dir").symlink_to("sub")
    for number, name in enumerate(("a", "big", "zero")):
        (root / name).chmod((0o644, 0o755, 0o600)[number])
    (root / "sub").chmod(0o750)
    stamp = 1_500_000_000
    for path in (root / "a", root / "sub" / "deeper" / "b", root / "sub" / "deeper", root / "empty", root):
        stamp += 1001
        os.utime(path, (stamp, stamp))
    return root
