"""What goes wrong in the middle: cuts, cancellation, full disks, files that change, programs that are missing."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH108, PTH115, PTH116, PTH208, PTH211

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sky.api import Cancelled, ConnectionLost, ProgramMissing, TimedOut, TransferFailed

both_ways = pytest.mark.parametrize("direction", ["up", "down"])
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
MB = 1 << 20
FLOW = {"up": "in", "down": "out"}


def names_in(directory: Path) -> list[str]:
    """But for what is kept for the next try."""
    names = sorted(os.listdir(directory))
    return [
        name for name in names if not re.fullmatch(r"\.sky-part\.[0-9a-f]{12}(\.kept|-[0-9a-f]{12})", name)
    ]


@both_ways
def test_a_cut_leaves_the_old_content_and_no_junk(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    for side in (a / "src", b / "dst"):
        side.mkdir()
    (a / "src" / "file").write_bytes(os.urandom(8 * MB))
    (a / "src" / "new").write_bytes(os.urandom(8 * MB))
    (b / "dst" / "file").write_bytes(b"old")
    world.host.cut_after = (FLOW[direction], 12 * MB)
    with pytest.raises(ConnectionLost):
        world.move(direction, a / "src", b / "dst")
    assert (b / "dst" / "file").read_bytes() in (b"old", (a / "src" / "file").read_bytes())
    assert not (b / "dst" / "new").exists() or (b / "dst" / "new").stat().st_size == 8 * MB
    world.host.cut_after = None
    world.move(direction, a / "src", b / "dst")
    assert tree(b / "dst") == tree(a / "src")
    assert os.listdir(b) == ["dst"]


@both_ways
@pytest.mark.parametrize("kind", ["f", "d"])
def test_what_came_before_a_cut_is_not_sent_again(world: Any, tree: Any, direction: str, kind: str) -> None:
    """Many files on every way; one large file by rsync, or up."""
    a, b = world.ends(direction)
    (a / "src").mkdir()
    size = 100 * MB
    if kind == "f":
        with open(a / "src" / "big", "wb") as file:
            for number in range(100):
                file.write(b"%9d" % number + os.urandom(MB // 2 - 9) + bytes(MB // 2))
    else:
        for number in range(200):
            (a / "src" / str(number)).write_bytes(os.urandom(MB // 2))
    world.host.cut_after = (FLOW[direction], size * 3 // 4)
    with pytest.raises(ConnectionLost):
        world.move(direction, a / "src", b / "dst")
    assert names_in(b / "dst") != ["big"]
    world.host.cut_after = None
    assert world.host.moved[FLOW[direction]] >= size * 3 // 4
    world.host.moved.clear()
    world.move(direction, a / "src", b / "dst", delete=True)
    assert tree(b / "dst") == tree(a / "src")
    assert os.listdir(b) == ["dst"]
    if kind == "d" or world.method == "rsync" or direction == "up":
        assert world.host.moved[FLOW[direction]] < size / 2


@pytest.mark.parametrize("name", ["rsync-gnu", "tar-gnu", "sh-busybox"])
def test_what_is_kept_of_another_content_is_not_taken_up(world_by: Any, name: str) -> None:
    world = world_by(name)
    for byte in (b"a", b"b"):
        (world.local / "file").write_bytes(byte * (80 * MB))
        os.utime(world.local / "file", (ord(byte), ord(byte)))
        world.host.moved.clear()
        world.host.cut_after = ("in", 40 * MB) if byte == b"a" and name != "rsync-gnu" else ("in", 1 * MB)
        with pytest.raises(ConnectionLost):
            world.move("up", world.local / "file", "~/file")
    world.host.cut_after = None
    world.move("up", world.local / "file", "~/file")
    assert (world.host.home / "file").read_bytes() == b"b" * (80 * MB)
    assert os.listdir(world.host.home) == ["file"]


def test_a_large_file_that_shrinks_is_left_out(world_by: Any) -> None:
    world = world_by("tar-gnu")
    (world.local / "src").mkdir()
    (world.local / "src" / "large").write_bytes(os.urandom(80 * MB))
    (world.local / "src" / "other").write_bytes(b"x")
    world.host.on_bytes = lambda way, size: size > 20 * MB and os.truncate(world.local / "src" / "large", 5)
    assert world.move("up", world.local / "src", "~/dst").files_sent == 1
    assert os.listdir(world.host.home / "dst") == ["other"]
    assert "large changed while it was sent, and was left out" in world.warnings()


@both_ways
def test_a_cut_in_a_large_sparse_file(world: Any, tree: Any, direction: str) -> None:
    a, b = world.ends(direction)
    with open(a / "big", "wb") as file:
        file.truncate(200 * MB)
    world.host.cut_after = (FLOW[direction], 100 * MB)
    with pytest.raises(ConnectionLost):
        world.move(direction, a / "big", b / "landed")
    assert "landed" not in names_in(b)


def test_remains_of_a_killed_transfer_are_removed(world_by: Any, tree: Any) -> None:
    for number, name in enumerate(("tar-gnu", "sh-busybox")):
        for direction in ("up", "down"):
            world = world_by(name, _directory(Path(tempfile.gettempdir()), f"{number}{direction}"))
            a, b = world.ends(direction)
            (a / "src").mkdir()
            (a / "src" / "file").write_bytes(b"content")
            world.move(direction, a / "src", b / "dst")
            script = world.host.commands[-1].argv
            prefix = next((word for word in script if word.startswith(".sky-part.")), None)
            if direction == "down":
                from sky.transfer.route import plan_route
                from sky.types import Transfer

                prefix = plan_route(
                    Transfer(direction="down", source=str(a / "src"), target=str(b / "dst"))
                ).stale_prefix
            assert prefix
            stale = b / "dst" / (prefix[: len(".sky-part.") + 12] + ".dead")
            stale.mkdir()
            (stale / "part").write_bytes(b"x")
            (a / "src" / "file").write_bytes(b"other content")
            world.move(direction, a / "src", b / "dst")
            assert tree(b / "dst") == tree(a / "src")
            shutil.rmtree(world.local.parent)


def _directory(parent: Path, name: str) -> Path:
    made = Path(tempfile.mkdtemp(prefix=f"sky-{name}-", dir=parent))
    made.chmod(0o755)
    return made


@both_ways
def test_cancelling_ends_it_at_once(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    with open(a / "big", "wb") as file:
        file.truncate(500 * MB)
    world.host.on_bytes = lambda way, size: size > 5 * MB and world.ctx.cancel.cancel()
    with pytest.raises(Cancelled):
        world.move(direction, a / "big", b / "landed")
    began = time.monotonic()
    with pytest.raises(Cancelled):
        world.move(direction, a / "big", b / "landed")
    assert time.monotonic() - began < 1
    assert names_in(b) == []


@both_ways
def test_the_deadline(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    with open(a / "big", "wb") as file:
        file.truncate(2000 * MB)
    world.ctx = replace(world.ctx, deadline=time.monotonic() + 0.3)
    with pytest.raises(TimedOut):
        world.move(direction, a / "big", b / "landed")
    assert names_in(b) == []


@both_ways
def test_a_file_that_shrinks_meanwhile_is_never_placed_in_part(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    for side in (a / "src", b / "dst"):
        side.mkdir()
    for name in ("shrinks", "stays"):
        (a / "src" / name).write_bytes(os.urandom(16 * MB))
    (b / "dst" / "shrinks").write_bytes(b"old")
    short = b"short"

    def shrink(way: str, size: int) -> None:
        if way == FLOW[direction] and size > MB and (a / "src" / "shrinks").stat().st_size > 5:
            (a / "src" / "shrinks").write_bytes(short)

    world.host.on_bytes = shrink
    try:
        world.move(direction, a / "src", b / "dst")
        assert any("shrinks changed while it was sent" in warning for warning in world.warnings())
        assert (b / "dst" / "stays").stat().st_size == 16 * MB
    except TransferFailed as error:
        # What comes down by tar or sh has one end for all.
        assert "shrinks" in str(error) and direction == "down" and world.method != "rsync"
    content = (b / "dst" / "shrinks").read_bytes()
    assert content in (b"old", short) or (len(content) == 16 * MB and bytes(64) not in content)
    world.host.on_bytes = None
    world.move(direction, a / "src", b / "dst")
    assert (b / "dst" / "shrinks").read_bytes() == short


@both_ways
def test_a_file_that_vanishes_meanwhile_is_a_warning(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    (a / "src").mkdir()
    for name in ("a large", "z vanishes"):
        (a / "src" / name).write_bytes(os.urandom(8 * MB))

    def vanish(way: str, size: int) -> None:
        if way == FLOW[direction] and size > 100_000:
            (a / "src" / "z vanishes").unlink(missing_ok=True)

    world.host.on_bytes = vanish
    result = world.move(direction, a / "src", b / "dst")
    assert names_in(b / "dst") == ["a large"]
    assert any("z vanishes" in warning for warning in world.warnings())
    assert result.files_sent >= 1


@as_root
@both_ways
def test_a_full_disk(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    (a / "src").mkdir()
    (a / "src" / "large").write_bytes(os.urandom(4 * MB))
    (b / "disk").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", b / "disk"], check=False).returncode:
        pytest.skip("can't mount")
    try:
        (b / "disk" / "large").write_bytes(b"old")
        with pytest.raises(TransferFailed, match=r"large|o space left"):
            world.move(direction, a / "src", b / "disk")
        assert (b / "disk" / "large").read_bytes() == b"old"
        assert os.listdir(b / "disk") == ["large"]
    finally:
        subprocess.run(["umount", b / "disk"], check=True)


@as_root
@pytest.mark.parametrize("name", ["rsync-gnu", "tar-gnu", "tar-busybox", "sh-gnu", "sh-busybox"])
def test_as_a_user_who_may_not_do_everything(world_by: Any, tree: Any, name: str) -> None:
    base = _directory(Path(tempfile.gettempdir()), "user")
    try:
        world = world_by(name, base)
        world.host.user = 65534
        os.chown(world.host.home, 65534, 65534)
        source = world.local / "src"
        for path in ("locked/deep/file", "locked/other", "open/file"):
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(path.encode())
        for path in ("locked/deep", "locked"):
            (source / path).chmod(0o555)
        for content in (b"one", b"other"):
            (source / "locked" / "deep" / "file").write_bytes(content)
            world.move("up", source, "~/dst")
            assert tree(world.host.home / "dst") == tree(source)
        shutil.rmtree(source / "locked")
        world.move("up", source, "~/dst", delete=True)
        assert tree(world.host.home / "dst") == tree(source)
        (world.host.home / "root's").mkdir(mode=0o755)
        with pytest.raises(TransferFailed, match="ermission denied"):
            world.move("up", source, "~/root's/dst")
        secret = world.host.home / "dst" / "secret"
        secret.write_bytes(b"x")
        secret.chmod(0)
        with pytest.raises(TransferFailed, match=r"secret.*ermission denied"):
            world.move("down", "~/dst", world.local / "back")
    finally:
        shutil.rmtree(base)


@as_root
@pytest.mark.parametrize("name", ["tar-gnu", "tar-busybox", "sh-gnu"])
def test_more_than_one_batch_into_locked_directories(world_by: Any, tree: Any, name: str) -> None:
    base = _directory(Path(tempfile.gettempdir()), "batches")
    try:
        world = world_by(name, base)
        world.host.user = 65534
        os.chown(world.host.home, 65534, 65534)
        source = world.local / "src"
        for number in range(4):
            for path in (f"{number}", f"locked/{number}", f"locked/deep/{number}"):
                (source / path).parent.mkdir(parents=True, exist_ok=True)
                with open(source / path, "wb") as file:
                    file.truncate(12 * MB)
        (source / "locked" / "link").symlink_to("deep")
        for path, mode in (("locked/deep", 0o500), ("locked", 0o555)):
            (source / path).chmod(mode)
        for size in (12, 13):
            for path in ("1", "locked/deep/2", "locked/3"):
                os.truncate(source / path, size * MB)
            assert world.move("up", source, "~/dst").files_sent == (12 if size == 12 else 3)
            assert tree(world.host.home / "dst") == tree(source)
        (source / "locked" / "deep" / "0").unlink()
        os.truncate(source / "locked" / "0", 100 * MB)
        world.move("up", source, "~/dst", delete=True)
        assert tree(world.host.home / "dst") == tree(source)
    finally:
        shutil.rmtree(base)


@both_ways
def test_a_file_that_is_written_all_the_time_fails_nothing(world: Any, tree: Any, direction: str) -> None:
    """Its last content comes with the next transfer."""
    a, b = world.ends(direction)
    (a / "src").mkdir()
    for name in ("a", "grows", "rewritten", "z"):
        (a / "src" / name).write_bytes(os.urandom(4 * MB))

    def write(way: str, size: int) -> None:
        if way == FLOW[direction]:
            with open(a / "src" / "grows", "ab") as file:
                file.write(b"more")
            with open(a / "src" / "rewritten", "r+b") as file:
                file.write(os.urandom(4 * MB))

    world.host.on_bytes = write
    world.move(direction, a / "src", b / "dst")
    assert {"a", "z"} <= set(names_in(b / "dst"))
    world.host.on_bytes = None
    for name in ("grows", "rewritten"):
        os.utime(a / "src" / name, (1, 1))
    world.move(direction, a / "src", b / "dst")
    assert tree(b / "dst") == tree(a / "src")


def test_a_link_to_a_directory_as_the_target(world: Any, tree: Any) -> None:
    (world.local / "src").mkdir()
    (world.local / "src" / "file").write_bytes(b"x")
    (world.host.home / "real").mkdir()
    (world.host.home / "link").symlink_to("real")
    world.move("up", world.local / "src", "~/link")
    world.move("up", world.local / "src" / "file", "~/link/more/")
    assert (world.host.home / "link").is_symlink()
    assert names_in(world.host.home / "real") == ["file", "more"]


def without(world: Any, base: Path, *programs: str) -> None:
    """Take programs from the host's PATH (and for our own shell's sake, from nothing else)."""
    path = base / "path"
    path.mkdir()
    for tool in world.host.path.iterdir():
        if tool.name not in programs:
            (path / tool.name).symlink_to(os.readlink(tool))
    world.host.path = path


def test_what_the_host_lacks_is_named(world_by: Callable[..., Any], tmp_path: Path) -> None:
    world = world_by("sh-gnu")
    (world.local / "src").mkdir()
    (world.local / "src" / "file").write_bytes(b"x")
    (world.host.home / "there").mkdir()
    full = world.host.path
    for program, direction, delete in (
        ("mv", "up", False),
        ("dd", "up", False),
        ("find", "up", True),
        ("find", "down", False),
        ("stat", "down", False),
        ("cat", "down", False),
    ):
        without(world, tmp_path, program)
        source, target = (
            (world.local / "src", "~/dst") if direction == "up" else ("~/there", world.local / "x")
        )
        if program == "cat":
            (world.host.home / "there" / "file").write_bytes(b"x")
        with pytest.raises(ProgramMissing) as caught:
            world.move(direction, source, target, delete=delete)
        assert caught.value.program == program
        shutil.rmtree(tmp_path / "path")
        world.host.path = full


@pytest.mark.parametrize("name", ["tar-gnu", "sh-gnu"])
def test_a_host_without_find_gets_everything(world_by: Any, tree: Any, tmp_path: Path, name: str) -> None:
    world = world_by(name)
    (world.local / "src" / "sub").mkdir(parents=True)
    (world.local / "src" / "sub" / "file").write_bytes(b"x")
    os.symlink("sub", world.local / "src" / "link")
    without(world, tmp_path, "find")
    for _ in range(2):
        assert world.move("up", world.local / "src", "~/dst").files_sent == 1
        assert tree(world.host.home / "dst") == tree(world.local / "src")


def test_a_host_without_fullblock(world_by: Any, tree: Any, tmp_path: Path) -> None:
    world = world_by("sh-gnu")
    real = os.path.realpath(world.host.path / "dd")
    without(world, tmp_path, "dd")
    plain = world.host.path / "dd"
    plain.write_text(f'#!/bin/sh\ncase "$*" in *fullblock*) exit 1 ;; esac\nexec {real} "$@"\n')
    plain.chmod(0o755)
    (world.local / "file").write_bytes(os.urandom(100_000))
    world.move("up", world.local / "file", "~/file")
    assert tree(world.host.home) == {**tree(world.local), ".": tree(world.host.home)["."]}


def test_rsync_takes_one_run_and_its_absence_is_remembered(world_by: Any) -> None:
    world = world_by("rsync-gnu")
    (world.local / "file").write_bytes(b"x")
    world.move("up", world.local / "file", "~/a/b/")
    world.move("down", "~/a", world.local / "back")
    assert world.host.runs == 2
    tar = world_by("tar-gnu", _directory(world.local, "tar"))
    tar.move("up", world.local / "file", "~/a/b/")
    tar.move("up", world.local / "file", "~/a/b/")
    assert tar.host.runs == 3 + 1


def test_no_local_rsync(world_by: Any, userlands: dict[str, Path], monkeypatch: Any) -> None:
    world = world_by("rsync-gnu")
    world.method = "tar"
    monkeypatch.setenv("PATH", str(userlands["sh-gnu"]))
    (world.local / "file").write_bytes(b"x")
    world.move("up", world.local / "file", "~/a/b/")


@both_ways
def test_memory_stays_small(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    with open(a / "big", "wb") as file:
        file.truncate(200 * MB)
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_kb()
    world.move(direction, a / "big", b / "landed")
    assert _peak_kb() - before < 60_000
    assert os.stat(b / "landed").st_size == 200 * MB
    os.unlink(b / "landed")


def _peak_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@both_ways
def test_progress_is_told_but_not_too_often(world: Any, direction: str) -> None:
    a, b = world.ends(direction)
    with open(a / "big", "wb") as file:
        file.truncate(100 * MB)
    began = time.monotonic()
    world.move(direction, a / "big", b / "landed")
    told = [event.data["bytes"] for event in world.events if event.kind == "progress"]
    assert told == sorted(told)
    assert len(told) <= 5 * (time.monotonic() - began) + 1


@both_ways
def test_a_runner_with_one_loop_meets_no_deadlock(world_by: Any, tree: Any, direction: str) -> None:
    world = world_by("rsync-gnu")
    world.host.one_loop = True
    a, b = world.ends(direction)
    for side in (a / "src", b / "dst"):
        side.mkdir()
    content = os.urandom(50_000)
    for number in range(4000):
        # Old content makes rsync send checksums of it the other way: megabytes, more than pipes hold.
        (a / "src" / str(number)).write_bytes(b"%d" % number + os.urandom(25_000) + content[25_000:])
        (b / "dst" / str(number)).write_bytes(content)
    world.move(direction, a / "src", b / "dst")
    assert tree(b / "dst") == tree(a / "src")
