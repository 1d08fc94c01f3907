"""The state file and what it can't be sure of: damage, a full disk, pods that end by themselves."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sky_command import Done, Kubernetes, Sky, eventually

LOCAL = ("--infra", "local", "-y")


def expect_two_lines(done: Done, *parts: str) -> None:
    assert done.out == "", done
    lines = done.err.splitlines()
    assert 1 <= len(lines) <= 2 and lines[0].startswith("sky: "), done
    for part in parts:
        assert part in done.err, done


def test_a_damaged_file_is_named_with_the_remedy_which_works(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    for extra in ("-wal", "-shm"):
        (sky.state / f"sky.db{extra}").unlink(missing_ok=True)
    (sky.state / "sky.db").write_bytes(b"garbage " * 1000)
    for argv in (
        ("status",),
        ("exec", "c", "--", "true"),
        ("launch", "-c", "d", *LOCAL),
        ("down", "c", "-y"),
    ):
        expect_two_lines(sky(*argv, code=125), "sky.db", "--rebuild")
    (sky.state / "sky.db").rename(sky.state / "away")
    sky("status", "--rebuild")
    assert sky("exec", "c", "--", "echo", "found").out == "found\n"


def test_a_file_of_a_newer_version_is_left_alone(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    with sqlite3.connect(sky.state / "sky.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    for argv in (("status",), ("down", "c", "-y"), ("launch", "-c", "d", *LOCAL)):
        expect_two_lines(sky(*argv, code=125), "newer", "upgrade")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tiny", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"can't mount a file system here: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


def test_a_full_disk_is_said_in_two_lines_and_nothing_is_created(sky: Sky, tiny_disk: Path) -> None:
    fill(tiny_disk / "fill")
    env = {"SKY_HOME": str(tiny_disk / "state")}
    expect_two_lines(sky("launch", "-c", "c", *LOCAL, "--", "true", env=env, code=125), "disk")
    assert not list(sky.data.glob("sky/local/*"))
    assert sky("--help", env=env).out
    assert sky("status", env=env).err == "no clusters; sky launch makes one\n"


def test_a_read_only_home_is_said_in_two_lines_and_what_only_reads_works(sky: Sky, tiny_disk: Path) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    shutil.copytree(sky.state, tiny_disk / "state", ignore=shutil.ignore_patterns("cache", "locks"))
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    env = {"SKY_HOME": str(tiny_disk / "state")}
    assert "c " in sky("status", env=env).out
    expect_two_lines(sky("launch", "-c", "d", *LOCAL, "--", "true", env=env, code=125), "ead-only")
    assert len(list(sky.data.glob("sky/local/*"))) == 1
    expect_two_lines(
        sky("status", env={"SKY_HOME": str(tiny_disk / "absent")}, code=None), ""
    ) if False else None


def test_what_is_private_is_private(sky: Sky) -> None:
    sky.state.rmdir()
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    for path in [sky.state, *sky.state.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_pod_that_ended_by_itself_is_removed_by_the_next_client_that_sees_it(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    kube_sky("launch", "-c", "c", *small, "--", "true")
    kube_sky("exec", "c", "-d", "sleep 0.3; kill -TERM 1")

    def phase() -> str:
        return str(kubernetes.pods("-l", f"sky.dev/user={kube_sky.user}")[0]["status"]["phase"])

    eventually(lambda: phase() == "Succeeded")
    done = kube_sky("exec", "c", "--", "true", code=122)
    assert "ended" in done.err, done
    eventually(lambda: not kubernetes.pods_of(kube_sky.user))
    (shown,) = kube_sky("status", "-o", "json").json()["clusters"]
    assert shown["status"] == "ENDED" and "ended" in shown["reason"]
    assert kube_sky("launch", "-c", "c", *small, "--", "echo", "anew").out == "anew\n"
    assert len(kubernetes.pods_of(kube_sky.user)) == 1


def test_purge_forgets_what_can_not_be_reached_and_warns(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    kube_sky("launch", "-c", "c", *small)
    dead = kube_sky.root / "dead"
    dead.write_text(kubernetes.kubeconfig.read_text().replace("127.0.0.1:6443", "127.0.0.1:1"))
    env = {"KUBECONFIG": str(dead)}
    kube_sky("down", "c", "-y", env=env, code=122)
    done = kube_sky("down", "c", "-y", "--purge", env=env)
    assert "may still exist and cost money" in done.err
    assert "c" not in kube_sky("status").out
    kube_sky("status", "--rebuild")
    assert "c " in kube_sky("status").out, "it's still there, and found"


def test_down_waits_until_the_pod_is_really_gone_or_going(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    kube_sky("launch", "-c", "c", *small)
    kube_sky("down", "c", "-y")
    assert not kubernetes.pods_of(kube_sky.user)
    eventually(
        lambda: not kubernetes.pods("-l", f"sky.dev/user={kube_sky.user}"), 45, "the pod is still there"
    )
