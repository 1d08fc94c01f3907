"""What a node can't do is said in one line, and leaves nothing half done."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from node_harness import BUSYBOX_APPLETS, Node, alive
from test_cancel import pid_of

from sky.node import protocol

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
OTHER_USER = 65534


@pytest.fixture
def small_disk(node: Node) -> Iterator[Node]:
    """A node whose work directory is a file system of 1 MB."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    at = node.home / "small"
    at.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", at], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs: {mounted.stderr.decode()}")
    node.work_dir = str(at / "work")
    yield node
    subprocess.run(["umount", "-l", at], check=True)


def fill(at: Path) -> Path:
    file = at / "filler"
    with file.open("wb", buffering=0) as out:
        try:
            while True:
                out.write(b"x" * 4096)
        except OSError:
            return file


def test_disk_full_before_anything(small_disk: Node) -> None:
    filler = fill(small_disk.home / "small")
    answer = small_disk.submit("true")
    assert answer.code == 0 and len(answer.of("error")) == 1 and not answer.of("job")
    filler.unlink()
    assert small_disk.submit("echo x").end == ["SUCCEEDED", "0", "2"]


def test_disk_full_with_a_body(small_disk: Node) -> None:
    """The environment doesn't fit: refused at once, though stdin stays open; later it works again."""
    small_disk.submit("true")
    filler = fill(small_disk.home / "small")
    os.truncate(filler, filler.stat().st_size - 16384)  # room for a part of it
    answer = small_disk.submit("true", env={"BIG": "x" * 20_000}, setup="true")
    assert "disk full" in " ".join(answer.of("error")[0])
    assert small_disk.call("list").out.count(b"\n") == 1
    assert len(list(Path(small_disk.work_dir, "j").iterdir())) == 1
    filler.unlink()
    assert small_disk.submit("echo x").job == "2"


def test_job_that_fills_the_disk_has_its_result(small_disk: Node) -> None:
    answer = small_disk.submit('yes >"$FILE"; exit 7', env={"FILE": str(small_disk.home / "small/filler")})
    assert answer.end[:2] == ["FAILED", "7"]
    out = small_disk.call("list").out
    assert [(s.state, s.exit_code) for s, _ in protocol.parse_list(out)] == [("FAILED", 7)]


@pytest.mark.parametrize("applet", ["setsid", "dd", "ln", "date", "tail"])
def test_missing_applet_is_named(anywhere: Callable[[str], Node], applet: str, tmp_path: Path) -> None:
    links, made = Path(anywhere("busybox").path), anywhere("dash")
    path = tmp_path / "path"
    path.mkdir()
    for name in BUSYBOX_APPLETS:
        if name != applet:
            (path / name).symlink_to(
                Path(made.path.partition(":")[0]) / "sh" if name == "sh" else links / name
            )
    made.path = str(path)
    answer = made.submit("true")
    assert answer.lines == [["missing", applet]] and not made.work.exists()


def test_work_directory_in_the_way(node: Node) -> None:
    node.work.write_text("a file")
    answer = node.submit("true")
    assert "work directory" in " ".join(answer.of("error")[0])


@as_root
def test_work_directory_of_another(node: Node) -> None:
    """Whoever owns it could change what we run."""
    node.work.mkdir()
    (node.work / "rt").mkdir()
    os.chown(node.work / "rt", OTHER_USER, OTHER_USER)
    assert node.submit("true").of("error")


@as_root
@pytest.mark.parametrize("owner", [OTHER_USER, 0])
def test_shared_tmp(node: Node, owner: int, tmp_path: Path) -> None:
    """Where there is no home: a directory in /tmp that somebody else made first is not used."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(stat.S_ISVTX | 0o777)
    shared = temporary / f"sky-node-{os.getuid()}"
    shared.mkdir(mode=0o777)
    os.chown(shared, owner, owner)
    env = {"HOME": "/nonexistent", "TMPDIR": str(temporary)}
    answer = node.call("list", env=env)
    assert bool(answer.of("error")) == (owner != 0)
    assert (shared / "rt").exists() == (owner == 0) or not list((shared / "rt").iterdir())


def test_link_in_the_path_of_the_work_directory(node: Node) -> None:
    """The kernel names open files by their real path: cancel must still know the log's writers."""
    real = node.home / "real"
    real.mkdir()
    (node.home / "link").symlink_to(real)
    node.work_dir = str(node.home / "link/w")
    node.submit(
        "(env -i PATH=\"$PATH\" setsid sh -c 'echo $$ >pid; exec sleep 1000' &); sleep 1000", follow=False
    )
    pid = pid_of(node)
    node.call("cancel", "1", "1")
    assert not alive(pid)


def test_interrupted_upload_of_the_script(node: Node) -> None:
    """Cut in the middle: nothing runs, and the next call is whole."""
    command, stdin = protocol.call("", "list")
    data = stdin.getvalue()
    sh = shutil.which("sh", path=node.path)
    for cut in (0, 1, len(data) // 2, len(data) - 1):
        done = subprocess.run(
            command.argv,
            executable=sh,
            input=data[:cut],
            env=node.environment(),
            capture_output=True,
            check=False,
        )
        assert b"sky1 error" in done.stderr and b"sky1 end" not in done.stderr
    assert node.jobs() == []


def test_interrupted_upload_of_a_job(node: Node) -> None:
    node.jobs()
    command, stdin = node.submission("echo ran >../ran", env={"A": "b"}, setup="true")
    data = stdin.getvalue()
    sh = shutil.which("sh", path=node.path)
    script = len(protocol.call("", "list")[1].getvalue())
    for cut in (script, script + 3, script + 20, len(data) - 20, len(data) - 1):
        done = subprocess.run(
            command.argv,
            executable=sh,
            input=data[:cut],
            env=node.environment(),
            capture_output=True,
            check=False,
        )
        assert b"sky1 error" in done.stderr and b"sky1 job" not in done.stderr
    assert node.jobs() == [] and not list((node.work / "j").iterdir())
    assert not (node.home / "ran").exists()


def test_unknown_verb(node: Node) -> None:
    assert node.call("explode").lines == [["error", "no", "verb", "explode"]]
