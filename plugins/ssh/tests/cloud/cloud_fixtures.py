"""What the fixtures of `conftest.py` give, as types that test modules can name."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sky.api import Allocation, Event, LaunchSpec, Offer, Request
from sky.testing.lab import MakeContext, unconfirmed
from sky_ssh import cloud, feasibility

ROOT = Path(__file__).resolve().parents[4]
TESTBED = ROOT / "tests" / "testbed" / "ssh-hosts.sh"
MakePool = Callable[..., str]
THREE = ("10.77.0.11", "10.77.0.12", "10.77.0.13")


@dataclass
class Pools:
    """Pools of the testbed's hosts for the user lab2, by key, with leases apart from all other tests'."""

    file: Path
    state: Path
    lease_dir: str
    make_context: MakeContext
    document: dict[str, Any] = field(default_factory=dict)
    begun: list[LaunchSpec] = field(default_factory=list)

    def add(self, name: str = "lab", hosts: Sequence[Any] = THREE, **keys: Any) -> str:
        """Write the pool, and say its name."""
        defaults = {
            "user": "lab2",
            "identity_file": str(self.state / "id_ed25519"),
            "known_hosts": str(self.state / "known_hosts"),
            "lease_dir": self.lease_dir,
        }
        self.document[name] = {"hosts": list(hosts), **defaults, **keys}
        self.file.write_text(json.dumps(self.document))  # JSON is YAML
        return name

    def offer(self, pool: str = "lab", num_nodes: int = 1) -> Offer:
        """The pool's offer now."""
        found = feasibility.feasible(self.make_context(10), Request(region=pool, num_nodes=num_nodes))
        assert found.offers, found.rejections
        return found.offers[0]

    def spec(
        self,
        pool: str = "lab",
        num_nodes: int = 1,
        *,
        name: str = "test",
        tags: Mapping[str, str] | None = None,
    ) -> LaunchSpec:
        """A cluster that doesn't exist yet; given back at the end whatever became of it."""
        key = f"kit-{uuid.uuid4().hex[:16]}"
        made = LaunchSpec(
            cluster_id=key,
            cluster_name=name,
            user="kit@test",
            num_nodes=num_nodes,
            offer=self.offer(pool, num_nodes),
            request=Request(region=pool, num_nodes=num_nodes),
            tags={"sky-cluster-id": key, **(tags or {})},
        )
        self.begun.append(made)
        return made

    def lease(self, spec: LaunchSpec, events: list[Event] | None = None) -> Allocation:
        return cloud.run_instances(self.make_context(events=events), spec)

    def give_all_back(self) -> None:
        for spec in self.begun:
            cloud.terminate_instances(self.make_context(), unconfirmed(spec))

    def on(self, host: str, script: str) -> str:
        """What a script prints as root on a host of the testbed, not by ssh."""
        done = subprocess.run(
            ["bash", str(TESTBED), "exec", host, "sh", "-c", script],
            env={**os.environ, "SKY_TESTBED": str(self.state.parent.parent)},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leases(self) -> dict[str, str]:
        """By host, the id of the cluster that holds it, as its files say."""
        found = {}
        for host in ("h1", "h2", "h3"):
            # A host's /tmp is a directory of the testbed's.
            place = self.state / "hosts" / host / self.lease_dir.lstrip("/")
            for file in place.glob("lease.*"):
                found[host] = file.read_text().split()[1]
        return found
