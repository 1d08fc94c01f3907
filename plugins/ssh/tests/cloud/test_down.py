"""From `sky launch` to `sky down` on leased hosts, as a person does it: what is left on them is nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cloud_fixtures import Pools

from sky.testing.lab import eventually


@pytest.fixture
def sky(pools: Pools, home: Path) -> object:
    """`sky(*words)`: the command in a process of its own, with a new home; its output."""
    (home / ".sky").mkdir(mode=0o700)

    def run(*words: str) -> str:
        (home / ".sky" / "ssh_node_pools.yaml").write_text(pools.file.read_text())
        done = subprocess.run(
            [str(Path(sys.executable).with_name("sky")), *words],
            cwd=home,
            env={**os.environ, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_down_ends_what_runs_and_leaves_nothing(pools: Pools, sky: object) -> None:
    assert callable(sky)
    pools.add()
    before = pools.on("h1", "find /home/lab2 | sort")
    # One that has a session of its own, ignores TERM, and outlives its job's end.
    stubborn = "setsid sh -c 'trap \"\" TERM; while :; do sleep 4711; done' & sleep 4712"
    sky(
        "launch",
        "-y",
        "-d",
        "-c",
        "dev",
        "--infra",
        "ssh/lab",
        "--num-nodes",
        "2",
        "--",
        "sh",
        "-c",
        stubborn,
    )

    def processes(host: str) -> str:
        return pools.on(host, "ps -u lab2 -o args= || true")  # ps ends with 1 where there are none

    def running(host: str) -> bool:
        return "sleep 4711" in processes(host)

    eventually(lambda: running("h1") and running("h2"))
    sky("down", "-y", "dev")
    assert pools.leases() == {}
    assert not running("h1") and not running("h2")
    assert "sleep 4712" not in processes("h1")
    assert pools.on("h1", "find /home/lab2 | sort") == before


def test_a_cluster_is_found_again_without_our_state(pools: Pools, sky: object, home: Path) -> None:
    assert callable(sky)
    pools.add()
    sky("launch", "-y", "-c", "dev", "--infra", "ssh/lab", "--", "true")
    for file in (home / ".sky").glob("*.db*"):
        file.unlink()
    sky("status", "--rebuild")
    assert sky("exec", "dev", "--", "hostname") == "h1\n"
    sky("down", "-y", "dev")
    assert pools.leases() == {}
