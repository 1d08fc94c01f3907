"""Clusters of our own on the testbed's Kubernetes, small enough to share its two cores."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from kubernetes_fixtures import Cluster, MakeContext

from sky.api import Allocation, Context, Event, LaunchSpec, Quantity, Request
from sky_kubernetes import cloud

IMAGE = "docker.io/library/busybox:testbed"


@dataclass
class Lab:
    """Launches clusters in the test's namespace and takes all of them away at the end."""

    cluster: Cluster
    make_context: MakeContext
    events: list[Event] = field(default_factory=list)
    launched: list[Allocation] = field(default_factory=list)

    def ctx(self, config: Mapping[str, Any] | None = None, seconds: float = 60) -> Context:
        return self.make_context(
            config={"image": IMAGE, **(config or {})}, seconds=seconds, events=self.events
        )

    def spec(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        cluster_id: str = "",
        name: str = "test",
        tags: Mapping[str, str] | None = None,
        **request: Any,
    ) -> LaunchSpec:
        small = {"cpus": Quantity(0.05), "memory": Quantity(0.05)}
        asked = Request(**{**small, **request})
        (offer,) = cloud.feasible(self.ctx(config), asked).offers
        return LaunchSpec(
            cluster_id=cluster_id or f"t{uuid.uuid4().hex[:12]}",
            cluster_name=name,
            user="A.B_c",
            num_nodes=asked.num_nodes,
            offer=offer,
            request=asked,
            tags=tags or {"owner": "A.B_c", "name": name},
        )

    def start(self, spec: LaunchSpec, config: Mapping[str, Any] | None = None) -> Allocation:
        allocation = cloud.run_instances(self.ctx(config), spec)
        self.launched.append(allocation)
        return allocation

    def up(self, config: Mapping[str, Any] | None = None, **spec: Any) -> Allocation:
        """A cluster that runs."""
        allocation = self.start(self.spec(config, **spec), config)
        cloud.wait_instances(self.ctx(config), allocation)
        return allocation

    def pods(self, cluster_id: str) -> list[str]:
        """The oracle: kubectl's list of the cluster's pods."""
        names = self.cluster.kubectl("get", "pods", "-o", "name", "-l", f"sky.dev/cluster={cluster_id}")
        return [name.removeprefix("pod/") for name in names.split()]

    def end(self, allocation: Allocation) -> None:
        """Let the pod end by itself, as a node does that was idle for long enough."""
        # After the exec has returned: the end of the first process would cut it off.
        self.sh(allocation, "(sleep 0.3; kill -TERM 1) >/dev/null 2>&1 &")

    def sh(self, allocation: Allocation, script: str) -> str:
        pod = self.pods(allocation.id)[0]
        return self.cluster.kubectl("exec", pod, "-c", "sky", "--", "sh", "-c", script)


@pytest.fixture
def lab(cluster: Cluster, make_context: MakeContext) -> Iterator[Lab]:
    made = Lab(cluster, make_context)
    yield made
    for allocation in made.launched:
        cluster.kubectl(
            "delete", "pods", "-l", f"sky.dev/cluster={allocation.id}", "--grace-period=0", "--force"
        )


@pytest.fixture
def eventually() -> Callable[..., None]:
    """`eventually(check, seconds=30)` returns as soon as `check()` is true; it fails after `seconds`."""

    def poll(check: Callable[[], Any], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not check():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.1)

    return poll
