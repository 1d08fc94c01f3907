"""Files by the command: several nodes, `sky rsync` both ways, a repository as the workdir."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sky_command import Sky

LOCAL = ("--infra", "local", "-y")


def git(root: Path, *words: str) -> str:
    author = ("-c", "user.name=n", "-c", "user.email=e")
    done = subprocess.run(["git", "-C", str(root), *author, *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


def homes(sky: Sky) -> list[Path]:
    """Of all nodes of the only cluster, by rank."""
    return sorted(path.parent for path in sky.project.parent.rglob("sky_workdir"))


def test_rsync_with_several_nodes(sky: Sky) -> None:
    (sky.project / "f").write_text("F")
    sky("launch", "-c", "c", *LOCAL, "--num-nodes", "2", "--workdir", ".")
    first, second = homes(sky)
    assert "2 files, 2 bytes" in sky("rsync", "f", "c:all/").err
    assert (first / "all/f").read_text() == (second / "all/f").read_text() == "F"
    assert "1 file, 1 byte (" in sky("rsync", "f", "c:one/", "--node", "1").err
    assert not (first / "one").exists() and (second / "one/f").exists()
    sky("rsync", "c:one/f", "down", "--node", "1")
    assert (sky.project / "down").read_text() == "F"
    (first / "rank").write_text("0")
    sky("rsync", "c:rank", "rank")
    assert (sky.project / "rank").read_text() == "0"
    assert (
        "has 2 nodes, numbered from 0: there is no 2" in sky("rsync", "f", "c:x", "--node", "2", code=2).err
    )


def test_a_repository_as_the_workdir(sky: Sky, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    (origin / "f").write_text("one")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "one")
    commit = git(origin, "rev-parse", "--short=7", "HEAD")
    (sky.project / "task.yaml").write_text(f"workdir: {{url: {origin}, ref: main}}\nrun: cat f; ls -a\n")
    done = sky("launch", "-c", "c", *LOCAL, "task.yaml")
    assert done.out.split() == ["one.", "..", "f"]
    assert f"workdir: {origin} at {commit} (main)" in done.err
    (origin / "f").write_text("two")
    git(origin, "commit", "-qam", "two")
    assert sky("exec", "c", "task.yaml").out.startswith("two")
    assert sky("exec", "c", "--git-url", str(origin), "--git-ref", commit, "--", "cat", "f").out == "one"
    done = sky("launch", "-c", "other", *LOCAL, "--git-url", str(origin), "--git-ref", "nope", "true", code=2)
    assert "no branch or tag 'nope'" in done.err and "git ls-remote" in done.err
    assert "other" not in sky("status").out
