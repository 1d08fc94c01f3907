"""What of a workdir stays behind, by the rules of `.skyignore` or else of git itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sky.errors import UsageError
from sky.launcher import files
from sky.task.model import Task


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def git(root: Path, *args: str) -> None:
    subprocess.run(["git", "-C", str(root), *args], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "test dir"  # a space, as in the field
    path.mkdir()
    return path


def test_without_rules_nothing_stays_behind(root: Path) -> None:
    write(root, "a", ".hidden", "data/x")
    assert files.excluded(str(root)) == ((), "")


def test_gitignore_without_a_repository(root: Path) -> None:
    write(root, "a.py", "data/big", "data/keep.txt", "sub/b.log", "sub/c", "ünï.log", "q'u o.log")
    (root / ".gitignore").write_text("data/*\n!data/keep.txt\n*.log\n")
    left_out, why = files.excluded(str(root))
    assert set(left_out) == {"data/big", "sub/b.log", "ünï.log", "q'u o.log"}
    assert why == "ignored by git"


def test_nested_rules_info_exclude_and_tracked_files(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "a", "tracked.log", "other.log", "private", "sub/x.tmp", "sub/y")
    git(root, "add", "tracked.log")
    (root / ".gitignore").write_text("*.log\n")
    (root / "sub/.gitignore").write_text("*.tmp\n")
    (root / ".git/info/exclude").write_text("private\n")
    left_out, _ = files.excluded(str(root))
    # what git tracks is the user's work, whatever the rules say
    assert set(left_out) == {"other.log", "private", "sub/x.tmp"}


def test_a_whole_directory_is_one_path(root: Path) -> None:
    write(root, "node_modules/a/b", "node_modules/c", "x")
    (root / ".gitignore").write_text("node_modules/\n")
    assert files.excluded(str(root))[0] == ("node_modules",)


def test_skyignore_takes_the_place_of_gitignore(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "a.log", "b.bin", "tracked.bin")
    git(root, "add", "tracked.bin")
    (root / ".gitignore").write_text("*.log\n")
    (root / ".skyignore").write_text("*.bin\n")
    left_out, why = files.excluded(str(root))
    assert set(left_out) == {"b.bin", "tracked.bin"}
    assert why == ".skyignore"


def test_the_repository_is_left_as_it_was(root: Path) -> None:
    write(root, "a")
    (root / ".gitignore").write_text("a\n")
    files.excluded(str(root))
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", "a"]


def test_without_git_its_rules_are_not_passed_over_in_silence(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a")
    (root / ".gitignore").write_text("a\n")
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    assert shutil.which("git") is None
    with pytest.raises(UsageError, match="git is needed"):
        files.excluded(str(root))


def test_what_is_missing_is_said_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    task = Task(
        workdir="nowhere",
        file_mounts={"~/a": "there", "~/b": "absent", "~/c": "gone"},
        base_dir=str(tmp_path),
    )
    with pytest.raises(UsageError) as caught:
        files.check(task)
    for name in ("nowhere", "absent", "gone"):
        assert name in caught.value.message
    assert "there" not in caught.value.message.replace("nowhere", "")
