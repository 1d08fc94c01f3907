"""What of a workdir stays behind, by the rules of `.skyignore` or else of git itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sky.errors import UsageError
from sky.launcher.ignore import excluded, ignored, parse


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


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))


def test_without_rules_nothing_stays_behind(root: Path) -> None:
    write(root, "a", ".hidden", "data/x")
    assert excluded(str(root)) == ((), "")


def test_gitignore_without_a_repository(root: Path) -> None:
    write(root, "a.py", "data/big", "data/keep.txt", "sub/b.log", "sub/c", "ünï.log", "q'u o.log")
    (root / ".gitignore").write_text("data/*\n!data/keep.txt\n*.log\n")
    left_out, why = excluded(str(root))
    assert set(left_out) == {"data/big", "sub/b.log", "ünï.log", "q'u o.log"}
    assert why == "ignored by git"


def test_nested_rules_info_exclude_and_tracked_files(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "a", "tracked.log", "other.log", "private", "sub/x.tmp", "sub/y")
    git(root, "add", "tracked.log")
    (root / ".gitignore").write_text("*.log\n")
    (root / "sub/.gitignore").write_text("*.tmp\n")
    (root / ".git/info/exclude").write_text("private\n")
    left_out, _ = excluded(str(root))
    # what git tracks is the user's work, whatever the rules say
    assert set(left_out) == {"other.log", "private", "sub/x.tmp"}


def test_a_whole_directory_is_one_path(root: Path) -> None:
    write(root, "node_modules/a/b", "node_modules/c", "x")
    (root / ".gitignore").write_text("node_modules/\n")
    assert excluded(str(root))[0] == ("node_modules",)


def test_skyignore_takes_the_place_of_gitignore(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "a.log", "b.bin", "tracked.bin")
    git(root, "add", "tracked.bin")
    (root / ".gitignore").write_text("*.log\n")
    (root / ".skyignore").write_text("*.bin\n")
    left_out, why = excluded(str(root))
    assert set(left_out) == {"b.bin", "tracked.bin"}
    assert why == ".skyignore"


def test_the_repository_is_left_as_it_was(root: Path) -> None:
    write(root, "a")
    (root / ".gitignore").write_text("a\n")
    excluded(str(root))
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
        excluded(str(root))


def test_taken_back_and_below_a_directory_that_stays_behind(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "data/big", "data/keep.txt", "logs/a", "logs/keep.txt")
    (root / ".gitignore").write_text("data/\n!data/keep.txt\nlogs/*\n!logs/keep.txt\n")
    # As git has it: nothing inside an ignored directory can be taken back.
    assert set(excluded(str(root))[0]) == {"data", "logs/a"}


def test_rules_of_all_directories_of_a_repository_hold_in_a_part_of_it(root: Path, tmp_path: Path) -> None:
    git(root, "init", "-q")
    write(root, "part/a.log", "part/x", "part/deep/b.tmp", "part/deep/tracked.log", "a.log")
    git(root, "add", "-f", "part/deep/tracked.log")
    (root / ".gitignore").write_text("*.log\n/part/x\n")
    (root / "part/deep/.gitignore").write_text("*.tmp\n")
    (tmp_path / "link").symlink_to(root / "part")
    for directory in (root / "part", tmp_path / "link"):
        assert set(excluded(str(directory))[0]) == {"a.log", "x", "deep/b.tmp"}


def test_a_workdir_that_the_repository_around_it_ignores_is_sent(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "build/a", "build/sub/b")
    (root / ".gitignore").write_text("build/\n")
    assert excluded(str(root / "build"))[0] == ()
    (root / "build/.gitignore").write_text("a\n")
    assert excluded(str(root / "build"))[0] == ("a",)


def test_the_excludes_file_of_the_user(root: Path, tmp_path: Path) -> None:
    git(root, "init", "-q")
    write(root, "a~", "b")
    (tmp_path / "global").write_text("*~\n")
    (tmp_path / "gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path}/global\n")
    assert excluded(str(root))[0] == ("a~",)


def test_each_submodule_has_its_own_rules(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "other", "s")
    author = ("-c", "user.name=n", "-c", "user.email=e")
    for repository in (tmp_path / "other", root):
        git(repository, "init", "-q")
        git(repository, "add", ".")
        git(repository, *author, "commit", "-qm", "first", "--allow-empty")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "other"), "d/sub")
    write(root, "d/sub/x.tmp", "x.tmp", "d/sub/x.log", "x.log")
    (root / "d/sub/.gitignore").write_text("*.tmp\n")
    (root / ".gitignore").write_text("*.log\n")
    assert set(excluded(str(root))[0]) == {"d/sub/x.tmp", "x.log"}
    assert set(excluded(str(root / "d"))[0]) == {"sub/x.tmp"}


def test_skyignore_rules_over_git_itself_and_over_repositories_inside(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "inside/x.bin", "inside/y", "a.bin")
    git(root / "inside", "init", "-q")
    (root / ".skyignore").write_text("# what is big\n\n*.bin\n.git/\n")
    assert set(excluded(str(root))[0]) == {".git", "a.bin", "inside/.git", "inside/x.bin"}
    (root / ".skyignore").write_text("/.git\r\n/inside/y\r\n")
    assert set(excluded(str(root))[0]) == {".git", "inside/y"}


def test_git_is_sent_unless_a_rule_says_otherwise(root: Path) -> None:
    git(root, "init", "-q")
    (root / ".gitignore").write_text("*.log\n")
    assert ".git" not in excluded(str(root))[0]


def test_an_environment_of_another_repository_changes_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "init", "-q")
    write(root, "a.log")
    (root / ".gitignore").write_text("*.log\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert excluded(str(root))[0] == ("a.log",)


def test_a_repository_that_moved_away_leaves_the_rules(root: Path) -> None:
    write(root, "a", "b")
    (root / ".git").write_text("gitdir: /nowhere\n")
    (root / ".gitignore").write_text("a\n")
    assert excluded(str(root))[0] == ("a",)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_repository_that_git_refuses_is_said(root: Path) -> None:
    git(root, "init", "-q")
    for path in (root, root / ".git"):
        os.chown(path, 65534, 65534)
    with pytest.raises(UsageError, match="dubious ownership") as caught:
        excluded(str(root))
    assert "git -C" in caught.value.remedy


def test_names_of_all_kinds(root: Path) -> None:
    names = ["a\nb.x", "[1].x", "q'u.x", " lead.x", "-rf.x", "ünï.x", "back\\slash.x", "d/\n/c.x"]
    write(root, *names)
    (root / os.fsdecode(b"raw\xff.x")).touch()
    for rules in (".gitignore", ".skyignore"):
        (root / rules).write_text("*.x\n")
        left_out = set(excluded(str(root))[0])
        assert left_out == {
            *names[:-1],
            "d" if rules == ".gitignore" else names[-1],
            os.fsdecode(b"raw\xff.x"),
        }
        (root / rules).unlink()


TREE = (
    "a",
    "b.c",
    "ab/a",
    "ab/b.c",
    "ab/x/a",
    "ab/x/y/b.c",
    "x/ab/a",
    "x/a/b",
    "[a]",
    "a b ",
    "#a",
    "!a",
    "a*",
)
PIECES = ("a", "b", "ab", "x", "y", "c", "/", "/", "*", "**", "?", ".", "!", "#", "[ab]", "[!a]", "\\", " ")
PIECES += ("[a-b]", "[]a]", "[[:alpha:]]", "**/", "/**", "[")
lines = (
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5)
    .map("".join)
    .filter(lambda line: "\\/" not in line)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, min_size=1, max_size=4))
@example(["/ab/", "!a", "**/y/**"])
@example(["a b\\ ", "\\#a", "\\!a", "x/**/b"])
@example(["ab/*", "!ab/x", "*.c"])
@example(["a**/a", "***/b"])
@example(["[*"])
def test_the_same_as_git_says(rules: list[str]) -> None:
    """Files that stay are those that git would take for its own."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write(root, *TREE)
        git(root, "init", "-q")
        (root / ".gitignore").write_text("\n".join(rules))
        listed = ["git", "-C", name, "ls-files", "-z", "--others", "--exclude-from=.gitignore"]
        git_keeps = subprocess.run(listed, check=True, capture_output=True).stdout.split(b"\0")
        ours = list(ignored(os.fsencode(root), parse("\n".join(rules).encode())))
        kept = {
            path
            for path in map(os.fsencode, (*TREE, ".gitignore"))
            if not any(path == out or path.startswith(out + b"/") for out in ours)
        }
        assert kept == set(git_keeps) - {b""}
