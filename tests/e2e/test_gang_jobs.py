"""Jobs on three nodes among others: they take their turns, and a cancel ends them everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gang_places import NAME, RANKS, OnHosts, Place, pods
from sky_command import Kubernetes, Sky, eventually

GPUS = ("--gpus", "H100:2")
# What this machine hasn't; the rest of it is asked of nobody.
NVIDIA_SMI = "#!/bin/sh\nyes 'NVIDIA H100 80GB HBM3' | head -n 2\n"

CHILDREN = """
setsid sh -c 'echo pid $$; trap "" TERM; while :; do sleep 0.2; done' &
bash -c 'echo pid $$; exec -a "[kworker/0:1]" sleep 1000' &
setsid env -i sh -c 'echo pid $$; trap "" TERM HUP; while :; do sleep 0.2; done' &
(trap "" TERM; echo pid $(sh -c 'echo $PPID'); while :; do sleep 0.2; done) &
sh -c 'setsid sh -c "echo pid \\$\\$; exec sleep 1000" &' # its parent has ended
trap "" TERM
echo up
while :; do sleep 0.2; done
"""


@pytest.fixture
def gpu_sky(sky: Sky) -> Sky:
    """This machine with two H100."""
    program = sky.root / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    sky.extra = {**sky.extra, "PATH": f"{program.parent}:{sky.environment()['PATH']}"}
    return sky


@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_two_gangs_for_the_same_devices_take_turns(gpu_sky: Sky, tmp_path: Path, times: int) -> None:
    gpu_sky("launch", "-y", "-c", NAME, "--infra", "local", "--num-nodes", "3", *GPUS, "--", "true")
    for turn in range(times):
        record = tmp_path / f"record-{turn}"
        clients = []
        for name in "ab":
            run = f"echo +{name} >>{record}; sleep 0.1; echo -{name} >>{record}; echo $CUDA_VISIBLE_DEVICES"
            clients.append(gpu_sky.start("exec", NAME, "--num-nodes", "3", *GPUS, "--", run))
        for client in clients:
            done = client.end(60)
            assert done.code == 0, done
            assert done.out.count(") 0,1\n") == len(RANKS), done
        seen = record.read_text().split()
        first = seen[0][1]
        second = "b" if first == "a" else "a"
        # Ranks of one job may overlap each other, not those of the other job.
        assert [word[1] for word in seen] == [first] * 6 + [second] * 6, seen
        assert sorted(seen[:6]) == [f"+{first}"] * 3 + [f"-{first}"] * 3, seen
    jobs = gpu_sky("queue", NAME, "-o", "json").json()["clusters"][NAME]
    assert {job["state"] for job in jobs} == {"SUCCEEDED"} and len(jobs) == 1 + 2 * times


@pytest.fixture(params=["ssh", "kubernetes"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "ssh":
        yield OnHosts(request.getfixturevalue("ssh_sky"), hosts=request.getfixturevalue("ssh_hosts"))
    else:
        kubernetes: Kubernetes = request.getfixturevalue("kubernetes")
        yield pods(request.getfixturevalue("kube_sky"), kubernetes, "debian")


def test_cancel_leaves_no_process_on_any_node(place: Place) -> None:
    """Nor one in a session of its own, under another name, without our variables, or deaf to TERM."""
    client = place.launch(CHILDREN)

    def told() -> list[list[str]]:
        return [re.findall(rf"\(rank {rank}\) pid (\d+)", client.out) for rank in RANKS]

    eventually(lambda: [len(pids) for pids in told()] == [5, 5, 5], 20, client.out)
    found = told()
    assert [place.alive(rank, found[rank]) for rank in RANKS] == found
    place.sky("cancel", "-y", NAME)
    assert [place.alive(rank, found[rank]) for rank in RANKS] == [[], [], []]
    assert [place.processes(rank) for rank in RANKS] == [[], [], []]
    (job,) = place.sky("queue", NAME, "-o", "json").json()["clusters"][NAME]
    assert job["state"] == "CANCELLED"
    assert client.end(20).code != 0
