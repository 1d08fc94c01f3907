"""Jobs of a cluster: which engine runs them, and what a task becomes when it is handed over."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from sky.errors import HostGone, UsageError
from sky.state.clusters import Cluster, ClusterStatus
from sky.types import Job, Offer, Place, Request

if TYPE_CHECKING:
    from sky.node.engine import Engine
    from sky.node.gang import Gang
    from sky.node.native import NativeEngine
    from sky.session import Session
    from sky.task.model import Task


def engine_of(session: Session, cluster: Cluster) -> Engine | Gang | NativeEngine:
    """The engine of the cluster's transport: its own where it has one, else the portable one."""
    place = place_of(cluster)
    runner = session.registry.runner(place.hosts[0].transport)
    if runner.has("sky_submit_job"):
        from sky.node.native import NativeEngine

        return NativeEngine(session, runner, place)
    if len(place.hosts) > 1:
        from sky.node.gang import Gang

        return Gang(session, runner, place)
    from sky.node.engine import Engine

    return Engine(session, runner, place)


def place_of(cluster: Cluster) -> Place:
    """Raises `UsageError` or `HostGone` for a cluster that has no hosts now, saying why."""
    if cluster.status is ClusterStatus.UP and cluster.hosts and cluster.allocation is not None:
        return Place(allocation=cluster.allocation, hosts=cluster.hosts)
    why = f": {cluster.reason}" if cluster.reason else ""
    if cluster.status is ClusterStatus.INIT:
        raise UsageError(
            f"cluster {cluster.name!r} was never finished{why}",
            remedy=f"sky launch -c {cluster.name} takes it up again; sky down {cluster.name} gives it back",
        )
    raise HostGone(
        f"cluster {cluster.name!r} is {cluster.status}{why}",
        remedy=f"sky down {cluster.name} removes it; sky launch makes a new one",
    )


def job_from(session: Session, task: Task, cluster: Cluster, with_setup: bool) -> Job:
    """The job that a task is on a cluster; each call makes another job.

    Its devices are those of the alternative that the cluster satisfies, not of any other.
    """
    offer = cluster.offer
    fitting, _ = _fitting(session, task, cluster)
    wanted = fitting.accelerator if fitting is not None else None
    has = offer.accelerator.count if offer is not None and offer.accelerator is not None else 0
    return Job(
        token=os.urandom(8).hex(),
        name=task.name or "",
        setup=task.setup if with_setup else None,
        run=task.run,
        envs=task.envs,
        secrets=task.secrets,
        num_nodes=task.num_nodes,
        accelerators_per_node=wanted.count if wanted is not None else 0,
        place_accelerators_per_node=int(has + 0.999),
        cluster_name=cluster.name,
        cloud=cluster.cloud,
        region=offer.region if offer else "",
        zone=(offer.zone or "") if offer else "",
    )


def check_fits(session: Session, task: Task, cluster: Cluster) -> None:
    """Raise `UsageError` unless an existing cluster has what one alternative of the task asks for."""
    fitting, misfits = _fitting(session, task, cluster)
    if fitting is None and misfits:
        raise UsageError(
            f"cluster {cluster.name!r} has {'; '.join(dict.fromkeys(misfits))}",
            remedy=f"launch under another name, or first: sky down {cluster.name}",
        )


def _fitting(session: Session, task: Task, cluster: Cluster) -> tuple[Request | None, list[str]]:
    """The first alternative of a task that a cluster satisfies, and what the ones before it lack there."""
    offer = cluster.offer
    misfits: list[str] = []
    if offer is None:
        return None, misfits
    canonical = session.registry.canonical
    for request in task.resources:
        if request.cloud is not None:
            request = replace(request, cloud=canonical("cloud", request.cloud))
        wrong = misfit(request, cluster, offer)
        if not wrong:
            return request, misfits
        misfits.append(wrong)
    return None, misfits


def misfit(request: Request, cluster: Cluster, offer: Offer) -> str:
    """What a cluster has instead of what is asked for; empty when it fits. `request.cloud` is canonical."""
    has = offer.accelerator
    wanted = request.accelerator
    if wanted is not None and (
        has is None or has.name.lower() != wanted.name.lower() or has.count < wanted.count
    ):
        return f"{has or 'no accelerators'}, not {wanted}"
    if request.cpus is not None and offer.vcpus < request.cpus.value:
        return f"{offer.vcpus:g} vCPUs, not {request.cpus}"
    if (
        request.memory is not None
        and request.memory.mode != "per_cpu"
        and offer.memory_gib < request.memory.value
    ):
        return f"{offer.memory_gib:g} GiB of memory, not {request.memory}"
    if request.cloud is not None and request.cloud != offer.cloud:
        return f"its place on {offer.cloud}, not {request.cloud}"
    # As typed after the cloud's name: where a cloud has one level below it, that may itself hold a slash.
    place, asked = ("/".join(part for part in (it.region, it.zone) if part) for it in (offer, request))
    if asked and not f"{place}/".startswith(f"{asked}/"):
        return f"its place in {place}, not {asked}"
    if request.memory is not None and request.memory.mode == "per_cpu":
        need = request.memory.value * offer.vcpus
        if offer.memory_gib < need:
            return f"{offer.memory_gib:g} GiB of memory, not {need:g}"
    stored = cluster.spec.get("request", {})
    if request.image_id is not None and request.image_id != stored.get("image_id"):
        return f"{stored.get('image_id') or 'the default image'}, not {request.image_id}"
    for attribute in ("instance_type", "use_spot", "disk_size_gb", "disk_tier", "ports", "labels"):
        asked, had = getattr(request, attribute), stored.get(attribute)
        if asked and asked != (tuple(had) if isinstance(had, list) else had):
            shown = attribute.replace("_", " ")
            return f"{shown} {had!r}, not {asked!r}" if had else f"no such {shown} as {asked!r}"
    if request.num_nodes > cluster.num_nodes:
        from sky.wording import counted

        return f"{counted(cluster.num_nodes, 'node')}, not {request.num_nodes}"
    return ""
