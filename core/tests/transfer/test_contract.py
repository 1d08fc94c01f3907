"""Each sentence of `sky_rsync`'s docstring, by each method, on each userland, in both directions."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH101, PTH103, PTH114, PTH116, PTH118, PTH120, PTH208, PTH211
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sky.api import TransferFailed

pytestmark = pytest.mark.parametrize("direction", ["up", "down"])

NAMES: list[bytes] = [
    *(b"a[1].txt", b"x:y", b"-rf", b"b c", b"q'uo\"te", "ünï".encode(), b"new\nline", b"trailing ", b".hidden"),
    *(b"*", b"?", b"back\\slash", b"$HOME", b"`id`", b"~", b"#x", b";x", b"!", b"- x", b"end", b"\xff\xfe\x80"),
    *(b"n" * 255, bytes(range(1, 47)), bytes(range(48, 128)), bytes(range(128, 256)), b"\n", b" "),
]  # fmt: skip


def put(
    path: Path | str, content: bytes = b"content\n", mode: int = 0o644, mtime: int = 1_600_000_000
) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_bytes(content)
    os.chmod(path, mode)
    os.utime(path, (mtime, mtime))


def make_tree(root: Path) -> None:
    """Names that break what quotes badly, and one of each kind."""
    base = os.fsencode(root)
    os.makedirs(os.path.join(base, b"every name"))
    for number, name in enumerate(NAMES):
        for path in (os.path.join(base, b"every name", name), os.path.join(base, name, b"inside")):
            put(os.fsdecode(path), name * number, 0o600 + number % 64, 1_500_000_000 + number)
    (root / "empty directory" / "in it").mkdir(parents=True)
    put(root / "empty file", b"")
    put(root / "old", b"x", mtime=-5)
    put(root / "big", os.urandom(300_001), 0o755)
    put(root / "deep" / "er" / "leaf", b"x" * 65_536, 0o444)
    for target in ("big", "nowhere/at all", "/etc", "..", "-n", "a'b\"c\n"):
        os.symlink(target, root / f"link to {target.replace('/', '_')}")
    os.symlink(b"\xff\xfe", base + b"/link to bytes")
    os.chmod(root / "empty directory", 0o2751)
    for directory, _, _ in os.walk(base, topdown=False):
        os.utime(directory, (1_400_000_000, 1_400_000_000))


def test_a_directory_becomes_the_target(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    make_tree(a / "src")
    result = world.move(direction, a / "src", b / "new" / "parents" / "dst")
    assert tree(b / "new" / "parents" / "dst") == tree(a / "src")
    files = [path for path in (a / "src").rglob("*") if path.is_file() and not path.is_symlink()]
    assert result.files_sent == len(files)
    assert result.bytes_sent == sum(path.stat().st_size for path in files)
    assert sorted(os.listdir(b / "new" / "parents")) == ["dst"]


def test_a_repeat_sends_nothing(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    make_tree(a / "src")
    world.move(direction, a / "src", b / "dst")
    ctimes = {path: os.lstat(path).st_ctime_ns for path in (b / "dst").rglob("*") if not path.is_dir()}
    world.host.runs = 0
    for delete in (False, True):
        again = world.move(direction, a / "src", b / "dst", delete=delete)
        assert (again.files_sent, again.bytes_sent) == (0, 0)
    assert world.host.runs == 2
    assert tree(b / "dst") == tree(a / "src")
    assert {p: os.lstat(p).st_ctime_ns for p in (b / "dst").rglob("*") if not p.is_dir()} == ctimes


@pytest.mark.parametrize("slashes", ["", "src", "dst", "src dst"])
def test_a_trailing_slash_changes_nothing_for_a_directory(
    world: Any, tree: Any, direction: str, slashes: str
) -> None:
    a, b = world.ends(direction)
    put(a / "src" / "sub" / "file")
    source = f"{a}/src" + "/" * ("src" in slashes)
    target = f"{b}/dst" + "/" * ("dst" in slashes)
    for _ in range(2):
        world.move(direction, source, target)
        assert tree(b / "dst") == tree(a / "src")


def test_a_file_becomes_the_target_or_lands_inside(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    put(a / "-n me", b"one", 0o640)
    os.symlink("-n me", a / "link")
    method = world.method
    for source, target, final in (
        ("-n me", "p/q/new name", "p/q/new name"),
        ("-n me", "p/in/", "p/in/-n me"),
        ("-n me", "p/in/", "p/in/-n me"),
        ("-n me", "-n you", "-n you"),
        ("link", "by link", "by link"),
        ("link", "inside/", "inside/link"),
    ):
        # rsync would move the link: tar, which the host has too, does it instead.
        world.method = "tar" if (source, direction, method) == ("link", "down", "rsync") else method
        world.move(direction, a / source, f"{b}/{target}")
        assert tree(b / final.rpartition("/")[0])[final.rpartition("/")[2]] == tree(a)["-n me"], target
    world.method = method
    assert world.move(direction, a / "-n me", b / "-n you").files_sent == 0
    put(a / "-n me", b"two", mtime=1_600_000_001)
    assert world.move(direction, a / "-n me", b / "-n you").files_sent == 1
    assert (b / "-n you").read_bytes() == b"two"


def test_home_and_relative_paths(world: Any, tree: Any, direction: str, monkeypatch: Any) -> None:
    a, b = world.ends(direction)
    monkeypatch.setenv("HOME", str(world.local))
    monkeypatch.chdir(world.local)
    name = "a b/$HOME/*/it's"
    put(a / name / "file")
    world.move(direction, f"~/{name}", f"~/to/{name}/")
    assert tree(b / "to" / name) == tree(a / name)
    world.move(direction, name, f"to2/{name}")
    assert tree(b / "to2" / name) == tree(a / name)
    world.move(direction, f"~/{name}/file", "~/")
    assert (b / "file").is_file()
    world.move(direction, f"~/{name}", "~")
    assert (b / "file").is_file() and (b / "to" / name / "file").is_file()
    world.move(direction, f"~/{name}", "~name/x")
    assert tree(b / "~name" / "x") == tree(a / name)


def test_nothing_outside_or_excluded_is_removed(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    for name in ("keep", "ex/file", "sub/ex[1]*/file", "sub/ex1", "back\\s", "back\\*", "ex2"):
        put(a / "src" / name, b"new")
        put(b / "dst" / name, b"old file")
    put(b / "dst" / "extra" / "deep" / "file")
    put(b / "dst" / "gone" / "protected" / "file")
    put(b / "dst" / "gone" / "other")
    put(b / "beside")
    before = tree(b / "dst")
    excludes = (os.fsdecode(b"\xff"), "ex", "sub/ex[1]*", "back\\s", "back\\*", "gone/protected", "/nothing/")
    world.move(direction, a / "src", b / "dst", excludes=excludes)
    assert (b / "dst" / "extra" / "deep" / "file").exists() and (b / "dst" / "gone" / "other").exists()
    world.move(direction, a / "src", b / "dst", excludes=excludes, delete=True)
    after = tree(b / "dst")
    assert (b / "beside").exists() and "extra" not in after and "gone/other" not in after
    for name in ("ex/file", "sub/ex[1]*/file", "back\\s", "back\\*", "gone/protected/file"):
        assert after[name] == before[name], name
    for name in ("keep", "sub/ex1", "ex2"):
        assert after[name] == tree(a / "src")[name], name


def test_many_excludes(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    names = [f"excluded number {number} {'x' * 50}" for number in range(600)]
    for name in ("kept", names[0], names[-1]):
        put(a / "src" / name)
    put(b / "dst" / names[1])
    world.move(direction, a / "src", b / "dst", excludes=tuple(names), delete=True)
    assert sorted(os.listdir(b / "dst")) == sorted(["kept", names[1]])
    assert all(sum(map(len, command.argv)) < 32_768 for command in world.host.commands)


def test_kinds_change_with_delete(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    make = {
        "file": put,
        "dir": lambda p: put(p / "inside" / "file"),
        "link": lambda p: os.symlink("some", p),
        "dirlink": lambda p: os.symlink("dir to dir", p),
    }
    for side, there in ((a / "src", 0), (b / "dst", 1)):
        side.mkdir()
        for pair in ((x, y) for x in make for y in make):
            make[pair[there]](side / f"{pair[0]} to {pair[1]}")
    world.move(direction, a / "src", b / "dst", delete=True)
    assert tree(b / "dst") == tree(a / "src")


def test_without_delete_a_full_directory_stays(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    put(a / "src" / "name")
    put(b / "dst" / "name" / "precious")
    with pytest.raises(TransferFailed, match="name"):
        world.move(direction, a / "src", b / "dst")
    assert (b / "dst" / "name" / "precious").exists()


def test_a_file_and_a_directory_never_take_each_others_place(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    put(a / "dir" / "file")
    put(a / "file")
    put(b / "a file", b"precious")
    put(b / "a dir" / "precious")
    put(b / "in" / "file" / "precious")
    before = tree(b)
    for source, target in (("dir", "a file"), ("file", "a dir"), ("file", "in/")):
        for delete in (False, True):
            with pytest.raises(TransferFailed):
                world.move(direction, a / source, f"{b}/{target}", delete=delete)
    assert tree(b) == before


def test_what_is_not_there_is_named(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    with pytest.raises(TransferFailed, match="no such name"):
        world.move(direction, a / "no such name", b / "x" / "y")
    assert not (b / "x").exists()


def test_specials_are_skipped_with_a_warning(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    put(a / "src" / "file")
    os.mkfifo(a / "src" / "a fifo")
    world.move(direction, a / "src", b / "dst")
    assert sorted(os.listdir(b / "dst")) == ["file"]
    assert len(world.warnings()) == 1 and "a fifo" in world.warnings()[0]


def test_only_modes_or_only_times_change(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    make_tree(a / "src")
    world.move(direction, a / "src", b / "dst")
    os.chmod(a / "src" / "big", 0o4711)
    os.chmod(a / "src" / "deep", 0o1777)
    os.utime(a / "src" / "deep" / "er", (5, 5))
    os.chmod(a / "src", 0o700)
    result = world.move(direction, a / "src", b / "dst")
    assert tree(b / "dst") == tree(a / "src")
    assert result.files_sent == 0


def test_the_target_may_be_a_link_to_a_directory(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    put(a / "src" / "file")
    (b / "real").mkdir()
    os.symlink("real", b / "dst")
    world.move(direction, a / "src", b / "dst")
    assert os.path.islink(b / "dst") and tree(b / "real") == tree(a / "src")
    os.symlink("src", a / "link")
    world.move(direction, a / "link", b / "by link")
    assert tree(b / "by link") == tree(a / "src") and not os.path.islink(b / "by link")


def test_a_link_is_never_written_through(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    put(a / "src" / "sub" / "file", b"new")
    put(b / "outside" / "file", b"precious")
    (b / "dst").mkdir()
    os.symlink("../outside", b / "dst" / "sub")
    world.move(direction, a / "src", b / "dst")
    assert (b / "outside" / "file").read_bytes() == b"precious"
    assert tree(b / "dst") == tree(a / "src")


def test_hard_links_are_files(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    put(a / "src" / "one", b"same" * 1000)
    os.link(a / "src" / "one", a / "src" / "two")
    world.move(direction, a / "src", b / "dst")
    assert tree(b / "dst") == tree(a / "src")
    assert os.stat(b / "dst" / "one").st_nlink == 1
