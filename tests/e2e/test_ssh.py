"""What is SSH's own, by the command: several hosts and one behind a bastion; terminals, the user's own ssh, down."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import re
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import places
import pytest
from places import ACCOUNT, Place
from sky_command import SKY, Sky, eventually
from ssh_home import LAB, Hosts

TASK = """\
num_nodes: 3
workdir: ./work
file_mounts: {~/mounted/one.txt: ./single.txt}
setup: echo "setup of $SKYPILOT_NODE_RANK" | tee ~/made-by-setup
run: cat app.txt ~/mounted/one.txt ~/made-by-setup; hostname
"""
BEHIND = ("--infra", "ssh/behind", "-y")


@pytest.fixture(scope="module")
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Clusters `c` of three hosts, which ran the task, and `i`, the host behind its bastion."""
    with places.place("ssh", tmp_path_factory.mktemp("ssh"), request) as place:
        sky = place.sky
        (sky.project / "work").mkdir()
        (sky.project / "work" / "app.txt").write_text("app\n")
        (sky.project / "single.txt").write_text("single\n")
        (sky.project / "task.yaml").write_text(TASK)
        done = sky("launch", "-c", "c", *place.options, "task.yaml")
        for rank, name in enumerate(LAB):
            said = [line for line in done.out.splitlines() if line.startswith(f"(rank {rank}) ")]
            told = [f"setup of {rank}", "app", "single", f"setup of {rank}", name]
            assert said == [f"(rank {rank}) {line}" for line in told], done
        assert (
            sky("launch", "-c", "i", *BEHIND, "--workdir", "work", "cat app.txt; hostname").out
            == "app\ninner\n"
        )
        yield place


def every_host(place: Place, script: str) -> set[str]:
    """What a script prints on the hosts of `c`."""
    return set(place.sky("exec", "c", "--num-nodes", "3", script).out.splitlines())


# --- jobs --------------------------------------------------------------------------------------------


def test_logs_of_all_nodes_live_or_of_one_or_as_files(up: Place) -> None:
    sky = up.sky
    go = f"go-{random.randrange(10**9)}"
    wait = f'echo begun on "$(hostname)"; until [ -e ~/{go} ]; do sleep 0.1; done; echo done'
    sky("exec", "c", "-d", "--num-nodes", "3", "-n", "waits", wait)
    (job,) = (
        j["id"] for j in sky("queue", "c", "-o", "json").json()["clusters"]["c"] if j["name"] == "waits"
    )
    logs = sky.start("logs", "c", job)
    for rank, name in enumerate(LAB):
        logs.until(f"(rank {rank}) begun on {name}")
    one = sky.start("logs", "c", job, "--rank", "1")
    one.until("begun")
    assert "done" not in logs.out + one.out, "it isn't over"
    every_host(up, f"touch ~/{go}")
    lines = {
        f"(rank {rank}) {line}" for rank, name in enumerate(LAB) for line in (f"begun on {name}", "done")
    }
    assert set(logs.end().out.splitlines()) == lines
    assert one.end().out == "begun on h2\ndone\n"
    sky("logs", "c", job, "-s", "--target", "logs")
    for rank, name in enumerate(LAB):
        file = sky.project / "logs" / "c" / job / f"rank-{rank}.log"
        assert file.read_text() == f"begun on {name}\ndone\n"


def test_cancel_leaves_no_process_on_any_host(up: Place, ssh_hosts: Hosts) -> None:
    sky = up.sky
    number = str(random.randrange(10**8, 10**9))
    sky("exec", "c", "-d", "--num-nodes", "3", f"(setsid sleep {number} &); trap '' TERM; sleep {number}")

    def left() -> list[int]:
        look = f"pgrep -c -u {ACCOUNT} -f '^sleep {number[:-1]}[{number[-1]}]$' || :"
        return [int(ssh_hosts.on(name, look)) for name in LAB]

    eventually(lambda: left() == [2, 2, 2])
    assert sky("cancel", "c", "-y").out.endswith("CANCELLED\n")
    assert left() == [0, 0, 0]


def test_files_go_to_every_host_or_to_one_and_come_from_one(up: Place) -> None:
    sky = up.sky
    (sky.project / "data").mkdir()
    (sky.project / "data" / "x").write_text("x")
    sky("rsync", "data", "c:all")
    sky("rsync", "data", "c:one", "--node", "1")
    look = 'for d in all one; do [ ! -e ~/$d/x ] || echo "$d"; done'
    assert every_host(up, look) == {"(rank 0) all", "(rank 1) all", "(rank 1) one", "(rank 2) all"}
    every_host(up, "hostname >~/who")
    sky("rsync", "c:who", "who")
    sky("rsync", "c:who", "who-2", "--node", "2")
    assert [(sky.project / name).read_text() for name in ("who", "who-2")] == ["h1\n", "h3\n"]
    sky("rsync", "data", "i:data")
    assert sky("exec", "i", "cat ~/data/x").out == "x"


# --- ways in -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def terminal(sky: Sky, *argv: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command on a terminal of its own, and our end of that."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(SKY), *argv], stdin=theirs, stdout=theirs, stderr=theirs, env=sky.environment(), cwd=sky.project,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(ours: int, pattern: bytes, seconds: float = 20) -> bytes:
    """What it shows until the pattern is in it."""
    seen, deadline = b"", time.monotonic() + seconds
    while not re.search(pattern, seen):
        assert select.select([ours], [], [], deadline - time.monotonic())[0], seen
        try:
            seen += os.read(ours, 4096)
        except OSError:  # its other end is closed
            raise AssertionError(f"{pattern!r} isn't in {seen!r}") from None
    return seen


@pytest.mark.parametrize(
    ("options", "name"),
    [(("c",), "h1"), (("c", "--node", "1"), "h2"), (("c", "--node", "2"), "h3"), (("i",), "inner")],
)
def test_a_shell_on_a_terminal(up: Place, options: tuple[str, ...], name: str) -> None:
    with terminal(up.sky, "ssh", *options) as (process, ours):
        os.write(ours, b"tty >/dev/null && echo on $(hostname); exit 9\n")
        read_until(ours, rb"on %s\r?\n" % name.encode())
        eventually(lambda: process.poll() is not None)
        assert process.returncode == 9


@pytest.mark.parametrize(
    ("alias", "name"), [("c", "h1"), ("c-worker1", "h2"), ("c-worker2", "h3"), ("i", "inner")]
)
def test_the_users_own_ssh_by_the_clusters_name(up: Place, alias: str, name: str) -> None:
    command = [
        "ssh",
        "-F",
        str(up.sky.home / ".ssh" / "config"),
        "-o",
        "BatchMode=yes",
        alias,
        "id -un; hostname",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, env=up.sky.environment(), check=False
    )
    assert done.stdout == f"{ACCOUNT}\n{name}\n", done.stderr


# --- down --------------------------------------------------------------------------------------------


def left_on(hosts: Hosts, name: str) -> set[str]:
    """What the account has there, and its processes but those of sshd."""
    files = hosts.on(name, f"cd /home/{ACCOUNT} && find . -path ./.ssh -prune -o -print").splitlines()
    processes = hosts.on(name, f"ps -u {ACCOUNT} -o args= || :").splitlines()
    return {*files, *(args for args in processes if not args.startswith("sshd:"))}


def test_down_leaves_hosts_and_the_users_config_as_they_were(
    request: pytest.FixtureRequest, tmp_path: Path, ssh_hosts: Hosts
) -> None:
    with places.place("ssh", tmp_path, request) as place:
        sky = place.sky
        config = sky.home / ".ssh" / "config"
        before = config.read_bytes(), {name: left_on(ssh_hosts, name) for name in (*LAB, "inner")}
        sky("launch", "-c", "c", *place.options, "--num-nodes", "3", "-d", "setsid sleep 600 & sleep 600")
        sky("launch", "-c", "i", *BEHIND, "-d", "sleep 600")
        assert len(place.existing()) == 4 and config.read_bytes() != before[0]
        assert all(left_on(ssh_hosts, name) > before[1][name] for name in before[1])
        assert sorted(sky("down", "-a", "-y").out.splitlines()) == ["c: gone", "i: gone"]
        assert place.existing() == []
        # What watched the job notices its end by itself, within moments.
        eventually(lambda: {name: left_on(ssh_hosts, name) for name in before[1]} == before[1], 3)
        assert config.read_bytes() == before[0] and not (sky.home / ".ssh" / "sky").exists()
