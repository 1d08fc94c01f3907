"""What the kit's tests work with: contexts, specs of clusters, and clusters that are surely given back."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from sky.api import (
    Allocation,
    Cache,
    CancelToken,
    Context,
    Event,
    Feasibility,
    Host,
    InstanceState,
    LaunchSpec,
    Request,
)
from sky.registry.plugins import Plugin

LAUNCH_SECONDS = 300.0
"""How long a cluster may take to come up in a test."""


class MakeContext(Protocol):
    """Makes what a hook is given: `seconds` from now is its deadline, None means none."""

    def __call__(
        self,
        seconds: float | None = 60.0,
        *,
        cancel: CancelToken | None = None,
        events: list[Event] | None = None,
    ) -> Context: ...


def context_maker(config: Mapping[str, Any], directory: Path) -> MakeContext:
    """Contexts of one plugin: one cache and one directory, as in one process of Sky."""
    cache = Cache()

    def make(
        seconds: float | None = 60.0,
        *,
        cancel: CancelToken | None = None,
        events: list[Event] | None = None,
    ) -> Context:
        return Context(
            config=config,
            deadline=None if seconds is None else time.monotonic() + seconds,
            cancel=cancel or CancelToken(),
            emit=([] if events is None else events).append,
            cache=cache,
            directory=directory,
        )

    return make


def new_spec(
    cloud: Plugin,
    ctx: Context,
    request: Request,
    *,
    name: str = "kit",
    tags: Mapping[str, str] | None = None,
) -> LaunchSpec:
    """A cluster that doesn't exist yet, from the cloud's best offer for `request`. Blocks."""
    found: Feasibility = cloud.hook.sky_feasible(ctx=ctx, request=request)
    assert found.offers, f"the request of the test has no offer: {found.rejections}"
    key = f"kit-{uuid.uuid4().hex[:16]}"
    return LaunchSpec(
        cluster_id=key,
        cluster_name=name,
        user="kit@test",
        num_nodes=request.num_nodes,
        offer=found.offers[0],
        request=request,
        tags={"sky-cluster-id": key, "sky-user": "kit@test", **(tags or {})},
    )


def unconfirmed(spec: LaunchSpec) -> Allocation:
    """What the core knows of a cluster whose creation was cut short before its cloud had answered."""
    return Allocation(
        id=spec.cluster_id,
        cloud=spec.offer.cloud,
        cluster_name=spec.cluster_name,
        tags=spec.tags,
        num_nodes=spec.num_nodes,
        offer=spec.offer,
        spec=spec.offer.spec,
    )


@contextlib.contextmanager
def given_back(cloud: Plugin, make_context: MakeContext, spec: LaunchSpec) -> Iterator[None]:
    """Whatever happens inside, the cluster of `spec` is terminated afterwards. Blocks."""
    try:
        yield
    finally:
        cloud.hook.sky_terminate_instances(ctx=make_context(), allocation=unconfirmed(spec))


@contextlib.contextmanager
def launched(
    cloud: Plugin, make_context: MakeContext, request: Request
) -> Iterator[tuple[Allocation, tuple[Host, ...]]]:
    """A cluster that is up, and its hosts; given back at the end. Blocks."""
    spec = new_spec(cloud, make_context(), request)
    with given_back(cloud, make_context, spec):
        allocation = start(cloud, make_context, spec)
        yield allocation, tuple(cloud.hook.sky_cluster_hosts(ctx=make_context(), allocation=allocation))


def start(cloud: Plugin, make_context: MakeContext, spec: LaunchSpec) -> Allocation:
    """Create the cluster and wait for it. Blocks."""
    allocation: Allocation = cloud.hook.sky_run_instances(ctx=make_context(), spec=spec)
    cloud.hook.sky_wait_instances(ctx=make_context(LAUNCH_SECONDS), allocation=allocation)
    return allocation


def is_gone(cloud: Plugin, make_context: MakeContext, allocation: Allocation) -> bool:
    """Whether the cloud says that nothing of it is left. Blocks."""
    found = cloud.hook.sky_query_instances(ctx=make_context(), allocation=allocation)
    return all(status.state is InstanceState.ENDED for status in found)


def eventually(check: Callable[[], Any], seconds: float = 30.0) -> None:
    """Return as soon as `check()` is true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"it didn't come true within {seconds:g} s"
        time.sleep(0.05)
