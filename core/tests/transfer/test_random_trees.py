"""Any tree, sent twice, then changed in any way and sent again: always equal, and never more than what changed."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH101, PTH103, PTH118, PTH211

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"a-b", b"[x]", b"-n", b" ", b"\n", b"it's", b"*", b"\x81\x88"]),
    st.binary(min_size=1, max_size=12).filter(
        lambda name: name not in (b".", b"..") and not {0, 47} & set(name)
    ),
)
MODES = st.sampled_from([0o644, 0o755, 0o400, 0o700, 0o1777, 0o2755, 0o4755])
TIMES = st.integers(0, 2**32)
FILES = st.tuples(st.just("file"), st.binary(max_size=40), MODES, TIMES)
LINKS = st.tuples(st.just("link"), NAMES)
NODES = st.recursive(
    st.one_of(FILES, LINKS),
    lambda inside: st.tuples(st.just("dir"), st.dictionaries(NAMES, inside, max_size=4), MODES, TIMES),
    max_leaves=12,
)
TREES = st.dictionaries(NAMES, NODES, max_size=5)


def build(root: bytes, tree: Mapping[bytes, Any]) -> None:
    os.makedirs(root, exist_ok=True)
    for name, node in tree.items():
        path = os.path.join(root, name)
        if node[0] == "link":
            os.symlink(node[1], path)
            continue
        if node[0] == "file":
            Path(os.fsdecode(path)).write_bytes(node[1])
        else:
            build(path, node[1])
        os.utime(path, (node[3], node[3]))
        os.chmod(path, node[2])


def mixed(old: Mapping[bytes, Any], new: Mapping[bytes, Any]) -> Mapping[bytes, Any]:
    """Part of the old tree, changed by the new one: names kept, gone, added, and of another kind."""
    kept = {name: node for number, (name, node) in enumerate(old.items()) if number % 3}
    return {**kept, **new}


def files_by_path(tree: Mapping[str, tuple[object, ...]]) -> Mapping[str, tuple[object, ...]]:
    return {path: entry for path, entry in tree.items() if entry[0] == "file"}


@pytest.mark.parametrize("name", ["rsync-gnu", "tar-gnu", "tar-busybox", "sh-gnu", "sh-busybox"])
@pytest.mark.parametrize("direction", ["up", "down"])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(old=TREES, new=TREES)
def test_random_trees(
    world_by: Any, tree: Any, name: str, direction: str, old: Mapping[bytes, Any], new: Mapping[bytes, Any]
) -> None:
    base = Path(tempfile.mkdtemp(prefix="sky-trees-"))
    try:
        world = world_by(name, base)
        a, b = world.ends(direction)
        build(os.fsencode(a / "src"), old)
        sent = world.move(direction, a / "src", b / "dst", delete=True)
        assert tree(b / "dst") == tree(a / "src")
        assert sent.files_sent == len(files_by_path(tree(a / "src")))
        assert world.move(direction, a / "src", b / "dst", delete=True).files_sent == 0
        before = files_by_path(tree(b / "dst"))
        shutil.rmtree(a / "src")
        build(os.fsencode(a / "src"), mixed(old, new))
        wanted = files_by_path(tree(a / "src"))
        # What has the old size and time counts as unchanged: here it shall not.
        for path, entry in wanted.items():
            if path in before and before[path][2] == entry[2] and before[path][3] != entry[3]:
                os.utime(a / "src" / path, (int(str(entry[2])) + 1,) * 2)
        os.utime(a / "src", (1, 1))
        wanted = files_by_path(tree(a / "src"))
        sent = world.move(direction, a / "src", b / "dst", delete=True)
        assert tree(b / "dst") == tree(a / "src")
        assert sent.files_sent == sum(before.get(path, ())[2:] != entry[2:] for path, entry in wanted.items())
    finally:
        shutil.rmtree(base)
