"""What the runners keep of a cluster on this machine: its names for the user's own tools, and connections."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sky.errors import SkyError
from sky.state.clusters import Cluster
from sky.types import Allocation, Place

if TYPE_CHECKING:
    from sky.session import Session

REACH_SECONDS = 10.0


def publish(session: Session, cluster: Cluster) -> None:
    """Let the user's own tools reach the hosts, where their runner can. A failure costs a warning, no cluster."""
    if cluster.allocation is None or not cluster.hosts:
        return
    runner = session.registry.runner(cluster.hosts[0].transport)
    if not runner.has("sky_publish_hosts"):
        return
    place = Place(allocation=replace(cluster.allocation, cluster_name=cluster.name), hosts=cluster.hosts)
    try:
        runner.call("sky_publish_hosts", ctx=session.context(runner, REACH_SECONDS), place=place)
    except SkyError as error:
        session.warn(f"{cluster.name}: {error.message}")


def withdraw(session: Session, cluster: Cluster, allocation: Allocation) -> None:
    """Take back what `publish` did."""
    # Of one whose hosts aren't known any more, whoever may have published it is asked.
    transports = {host.transport for host in cluster.hosts} or set(session.registry.names("runner"))
    for transport in transports:
        runner = session.registry.runner(transport)
        if runner.has("sky_withdraw_hosts"):
            ctx = session.context(runner, REACH_SECONDS)
            runner.call("sky_withdraw_hosts", ctx=ctx, allocation=allocation)


def disconnect(session: Session, cluster: Cluster) -> None:
    for host in cluster.hosts:
        runner = session.registry.runner(host.transport)
        if runner.has("sky_disconnect"):
            runner.call("sky_disconnect", ctx=session.context(runner, REACH_SECONDS), host=host)
