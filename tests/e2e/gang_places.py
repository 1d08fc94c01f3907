"""Clusters of three nodes on every transport, and what can happen to one of them: for tests of gangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sky_command import Kubernetes, Running, Sky, eventually
from ssh_home import LAB, Hosts

KUBERNETES_SCRIPT = Path(__file__).resolve().parents[1] / "testbed" / "kubernetes.sh"
RANKS = range(3)
NAME = "g"

# Of a process that says whose it is, ignores TERM, and ends with 3 when it is told to.
STUBBORN = "trap 'exit 3' USR1; trap '' TERM; echo up; while :; do sleep 0.2; done"


@dataclass
class Place:
    """Three nodes, which are this machine; the other places are subclasses."""

    sky: Sky
    options: Sequence[str] = ("--infra", "local")
    mark: str = field(default_factory=lambda: f"GANG={uuid.uuid4().hex[:12]}")

    def launch(self, body: str = STUBBORN) -> Running:
        """`sky launch` of a job that runs `body` on each node; returns when it runs on all of them."""
        # The environment of each of its processes names the test and the rank.
        run = f"exec env {self.mark}-$SKYPILOT_NODE_RANK sh -c {_quoted(body)}"
        client = self.sky.start("launch", "-y", "-c", NAME, "--num-nodes", "3", *self.options, "--", run)
        for rank in RANKS:
            client.until(f"(rank {rank}) up", 60)
        assert all(self.processes(rank) for rank in RANKS)
        return client

    def sh(self, rank: int, script: str) -> str:
        """What a shell script prints on that node, not by way of Sky."""
        return subprocess.run(
            ["sh", "-c", script], capture_output=True, text=True, timeout=30, check=True
        ).stdout

    def processes(self, rank: int) -> list[int]:
        """Those of the job on that node, as it numbers them."""
        found = self.sh(rank, f"grep -lszF {self.mark}-{rank} /proc/[0-9]*/environ || true")
        return [int(pid) for pid in re.findall(r"/proc/(\d+)/", found)]

    def signal(self, rank: int, number: int) -> None:
        pids = " ".join(map(str, self.processes(rank)))
        self.sh(rank, f"kill -{number} {pids} 2>&1 || true")  # one or the other may have ended meanwhile

    def alive(self, rank: int, pids: Sequence[str]) -> list[str]:
        """Those that live, whatever they are called now."""
        script = "; ".join(f"! grep -qs '^State:[^ZX]*$' /proc/{pid}/status || echo {pid}" for pid in pids)
        return self.sh(rank, script).split()

    def cut(self, rank: int) -> None:
        """No packet reaches that node, and none leaves it; nothing is closed."""
        raise NotImplementedError

    def crash(self, rank: int) -> None:
        """That node is gone from one moment to the next."""
        raise NotImplementedError


@dataclass
class OnHosts(Place):
    """h1, h2 and h3 of the SSH testbed. `cut` and `crash` need `Hosts.destroying`."""

    options: Sequence[str] = ("--infra", "ssh/lab")
    hosts: Hosts = field(default_factory=Hosts)

    def sh(self, rank: int, script: str) -> str:
        return self.hosts.on(tuple(LAB)[rank], script)

    def cut(self, rank: int) -> None:
        self.hosts.script("cut", tuple(LAB)[rank])

    def crash(self, rank: int) -> None:
        self.hosts.script("crash", tuple(LAB)[rank])


@dataclass
class InPods(Place):
    """Three pods of the testbed's Kubernetes."""

    kubernetes: Kubernetes = field(kw_only=True)

    def sh(self, rank: int, script: str) -> str:
        return self.kubernetes.kubectl("exec", self._pod(rank), "-c", "sky", "--", "sh", "-c", script)

    def cut(self, rank: int) -> None:
        command = ["bash", str(KUBERNETES_SCRIPT), "cut", self._pod(rank)]
        subprocess.run(command, check=True, capture_output=True, timeout=30)

    def crash(self, rank: int) -> None:
        self.kubernetes.kubectl("delete", "pod", self._pod(rank), "--grace-period=0", "--force")

    def _pod(self, rank: int) -> str:
        names = self.kubernetes.pod_names(self.sky.user)
        return next(name for name in names if name.endswith(f"-{rank}"))


def pods(sky: Sky, kubernetes: Kubernetes, image: str) -> InPods:
    """Three small ones of that image."""
    size = ("--infra", "k8s", "--cpus", "0.2", "--memory", "0.1")
    return InPods(sky, (*size, "--image-id", f"docker:{image}:testbed"), kubernetes=kubernetes)


def kill(client: Running) -> None:
    """The client is gone, and all that it started."""
    os.killpg(client.process.pid, signal.SIGKILL)
    eventually(lambda: client.process.poll() is not None)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
