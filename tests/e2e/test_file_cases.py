"""Files as people have them, by the command and over every transport: names, slashes, rules, places.

The home that `sky` runs in has a name that needs care itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import places
import pytest
from places import EVERYWHERE, Place
from said import expect_two_lines
from sky_command import Sky

from sky.testing.trees import ODD_NAMES, REMOTE_TREE, Tree, local_tree, make_tree, parse_remote


@pytest.fixture(scope="module", params=EVERYWHERE)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cluster `c`, over each transport."""
    root = tmp_path_factory.mktemp("files") / "it's $HOME, [a] b"
    with places.place(request.param, root, request) as made:
        made.sky("launch", "-c", "c", *made.options)
        yield made


@pytest.fixture
def sky(place: Place) -> Sky:
    return place.sky


@pytest.fixture
def tree(sky: Sky, request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own in the project."""
    made = sky.project / f"d-{abs(hash(request.node.name)):x}"
    made.mkdir()
    return made


def there(sky: Sky, directory: str) -> Tree:
    """What the cluster's node has below a directory of its home."""
    script = f'cd "$HOME"\n{REMOTE_TREE}'
    return parse_remote(sky("exec", "c", "--", "sh", "-c", script, "sh", directory).raw)


# --- names -------------------------------------------------------------------------------------------


def odd(tree: Path) -> Path:
    make_tree(tree)
    for name in (*ODD_NAMES, b"a[1].txt", b"trailing ", b"-rf"):
        (tree / os_name(name)).write_bytes(name)
        (tree / "sub" / os_name(name)).mkdir()
    return tree


def os_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def test_every_name_arrives_in_a_place_of_a_strange_name_and_comes_back(sky: Sky, tree: Path) -> None:
    odd(tree)
    target = "a b/$HOME/*/it's"
    sky("rsync", str(tree), f"c:~/{target}")
    assert there(sky, target) == local_tree(tree)
    back = sky.project / "back $X"
    sky("rsync", f"c:{target}", str(back))
    assert local_tree(back) == local_tree(tree)
    assert sky("rsync", str(tree), f"c:{target}", "-o", "json").json()["files_sent"] == 0


def test_paths_with_spaces_in_a_task_and_both_homes(sky: Sky) -> None:
    (sky.home / "d r").mkdir()
    (sky.home / "d r" / "a.txt").write_text("of the caller's home\n")
    work = sky.project / "test dir"
    work.mkdir()
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".git" / "info" / "exclude").write_text("left out\n")
    for name in ("left out", "sent along"):
        (work / name).write_text(name)
    (sky.project / "t.yaml").write_text(
        'workdir: test dir\nfile_mounts: {"~/my dir/a.txt": "~/d r/a.txt"}\nrun: cat ~/"my dir"/a.txt; ls\n'
    )
    done = sky("launch", "-c", "c", "-y", "t.yaml")
    assert done.out == "of the caller's home\nsent along\n"
    assert "workdir: 1 path left out (ignored by git)" in done.err


# --- directories -------------------------------------------------------------------------------------


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_slash_at_the_end_of_a_directory_changes_nothing(
    place: Place, tree: Path, slash: str, request: pytest.FixtureRequest
) -> None:
    sky = place.sky
    (tree / "deep").mkdir()
    (tree / "deep" / "file").write_text("x")
    name = f"slash{len(slash)}"
    sky("exec", "c", "rm -rf ~/sky_workdir/* ~/sky_workdir/.[!.]*")
    (sky.project / "t.yaml").write_text(
        f"workdir: ./{tree.name}{slash}\n"
        f"file_mounts: {{~/{name}/1: ./{tree.name}{slash}, ~/{name}/2/: ./{tree.name}{slash}}}\n"
        "run: find . | sort\n"
    )
    assert sky("launch", "-c", "c", "-y", "t.yaml").out.split() == [".", "./deep", "./deep/file"]
    expected = local_tree(tree)
    assert there(sky, f"{name}/1") == there(sky, f"{name}/2") == expected


def test_what_is_left_out_and_why_is_said_once(sky: Sky, tree: Path) -> None:
    def git(*words: str) -> None:
        author = ("-c", "user.name=n", "-c", "user.email=e")
        subprocess.run(["git", "-C", str(tree), *author, *words], check=True, capture_output=True)

    files = ("data/big", "data/keep.txt", "sub/x.log", "sub/y.txt", "kept.tmp", "gone.tmp", "app.py")
    for file in files:
        (tree / file).parent.mkdir(exist_ok=True)
        (tree / file).write_text(file)
    (tree / ".gitignore").write_text("data/*\n!data/keep.txt\n*.tmp\n")
    (tree / "sub" / ".gitignore").write_text("*.log\n")
    git("init", "-q")
    git("add", "-f", "kept.tmp", "app.py")
    git("commit", "-qm", "one")
    list_ = "rm -rf .git; find . -type f | sort; rm -rf ./* ./.[!.]*"
    sky("exec", "c", "rm -rf ~/sky_workdir/* ~/sky_workdir/.[!.]*")
    done = sky("exec", "c", "--workdir", str(tree), list_)
    assert done.out.split() == [
        "./.gitignore",
        "./app.py",
        "./data/keep.txt",
        "./kept.tmp",  # git tracks it
        "./sub/.gitignore",
        "./sub/y.txt",
    ]
    (said,) = (line for line in done.err.splitlines() if "left out" in line)
    assert "workdir: 3 paths left out (ignored by git)" in said
    (tree / ".skyignore").write_text(".git\nsub\n")
    done = sky("exec", "c", "--workdir", str(tree), list_)
    assert "./data/big" in done.out and "./gone.tmp" in done.out and "sub" not in done.out, done
    (said,) = (line for line in done.err.splitlines() if "left out" in line)
    assert "workdir: 2 paths left out (" in said and ".skyignore" in said


# --- places ------------------------------------------------------------------------------------------


def test_missing_parents_are_made_and_a_file_lands_in_a_directory(sky: Sky) -> None:
    (sky.project / "one.txt").write_text("one")
    (sky.project / "t.yaml").write_text(
        "file_mounts: {~/new/er/est.txt: one.txt, ~/into/: one.txt}\nrun: cat ~/new/er/est.txt ~/into/one.txt\n"
    )
    assert sky("launch", "-c", "c", "-y", "t.yaml").out == "oneone"


def test_a_place_that_cannot_be_written_is_named_and_nothing_runs(sky: Sky) -> None:
    (sky.project / "one.txt").write_text("one")
    (sky.project / "t.yaml").write_text("file_mounts: {/proc/none/one.txt: one.txt}\nrun: echo never\n")
    done = sky("launch", "-c", "c", "-y", "t.yaml", code=125)
    expect_two_lines(done, "/proc/none")
