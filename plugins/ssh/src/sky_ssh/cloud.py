"""SSH machines as a cloud: what the hooks of `plugin.py` do. Their contract is `sky.hookspecs`.

A cluster is the leases that name it, each on its host. `Allocation.spec` and `Offer.spec` hold the hosts'
addresses (`hosts`), so that a cluster outlives the pool's file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sky.api import (
    Accelerator,
    Allocation,
    Context,
    Event,
    Host,
    InstanceState,
    InstanceStatus,
    NotYet,
    Offer,
    ProvisioningFailed,
    SkyError,
    Unreachable,
    ask_each,
    counted,
)
from sky_ssh import facts, lease
from sky_ssh.about import CLOUD
from sky_ssh.lease import Node, Seen
from sky_ssh.leasing import ASK_SECONDS, give_back, named, run_instances
from sky_ssh.pools import load

__all__ = [
    "cluster_hosts",
    "list_clusters",
    "query_instances",
    "run_instances",
    "terminate_instances",
    "wait_instances",
]

_END_SECONDS = 50.0
_LIST_SECONDS = 10.0

Answer = Seen | SkyError


# --- look --------------------------------------------------------------------------------------------


def wait_instances(ctx: Context, allocation: Allocation) -> None:
    """Leased hosts are there: make sure that each answers and its work_dir can be written to."""
    answers = _ask_all(ctx, allocation)
    errors = _errors(answers)
    if errors:
        raise errors[0][1]
    ready = {seen.rank for _, seen in answers if isinstance(seen, Seen) and seen.ready}
    for node, seen in answers:
        if isinstance(seen, Seen) and seen.held_by(allocation.id) and not seen.ready:
            raise ProvisioningFailed(f"{node.name}: {seen.work_dir} can't be written to")
    if not ready >= set(range(allocation.num_nodes)):
        raise ProvisioningFailed(
            f"{allocation.cluster_name!r} holds {len(ready)} of its {counted(allocation.num_nodes, 'host')}",
            remedy=f"sky down {allocation.cluster_name}, and launch it again",
        )


def query_instances(ctx: Context, allocation: Allocation) -> list[InstanceStatus]:
    """Every host of the cluster by rank; one that can't be asked is PENDING with that reason.

    Raises `Unreachable` when nothing of it was found and not all could be asked.
    """
    answers = _ask_all(ctx, allocation)
    found = {
        seen.rank: InstanceStatus(name=node.name, rank=seen.rank, state=InstanceState.RUNNING)
        for node, seen in answers
        if isinstance(seen, Seen) and seen.held_by(allocation.id)
    }
    errors = _errors(answers)
    if errors and not found and len(answers) > allocation.num_nodes:
        raise Unreachable(f"whether {allocation.cluster_name!r} exists is not known: {named(errors)}")
    missing = [rank for rank in range(allocation.num_nodes) if rank not in found]
    if len(answers) == allocation.num_nodes:  # they are in the order of their ranks
        failed = {node.name for node, _ in errors}
        missing = [rank for rank in missing if answers[rank][0].name in failed]
    for rank, (node, error) in zip(missing, errors, strict=False):
        reason = f"the host can't be asked: {error.message}".replace("\n", " ")
        found[rank] = InstanceStatus(name=node.name, rank=rank, state=InstanceState.PENDING, reason=reason)
    return [found[rank] for rank in sorted(found)]


def cluster_hosts(ctx: Context, allocation: Allocation) -> list[Host]:
    """One host for each lease, rank 0 first. Raises `NotYet` with what is missing, `Unreachable`, …"""
    answers = _ask_all(ctx, allocation)
    found = {
        seen.rank: _host(node, seen)
        for node, seen in answers
        if isinstance(seen, Seen) and seen.held_by(allocation.id)
    }
    for rank in range(allocation.num_nodes):
        if rank not in found:
            errors = _errors(answers)
            if errors:
                raise errors[0][1]
            raise NotYet(f"node {rank} of {allocation.cluster_name!r} has no host")
    return [found[rank] for rank in range(allocation.num_nodes)]


def _host(node: Node, seen: Seen) -> Host:
    return dataclasses.replace(
        node.host(), rank=seen.rank, internal_ip=node.internal_ip or seen.ip, work_dir=seen.work_dir
    )


def _ask_all(ctx: Context, allocation: Allocation) -> list[tuple[Node, Answer]]:
    """Each host that the cluster may be on, and what it says of its lease."""
    nodes = _targets(ctx, allocation)
    answers = ask_each(
        ctx, nodes, lambda inner, t: lease.ask(inner, t, "show", id=allocation.id), ASK_SECONDS
    )
    return list(zip(nodes, answers, strict=True))


def _targets(ctx: Context, allocation: Allocation) -> list[Node]:
    hosts = allocation.spec.get("hosts")
    return lease.unpack(hosts) if hosts else _known(ctx)


def _errors(answers: Sequence[tuple[Node, Answer]]) -> list[tuple[Node, SkyError]]:
    return [(node, answer) for node, answer in answers if isinstance(answer, SkyError)]


# --- find --------------------------------------------------------------------------------------------


def list_clusters(ctx: Context, tags: Mapping[str, str]) -> list[Allocation]:
    """Every cluster with `tags` that holds a host of a pool, or one that was published to the ssh config.

    A host that can't be asked is named by a `warning` event; when none can be, what the first fails with is
    raised.
    """
    nodes = _known(ctx)
    answers = ask_each(ctx, nodes, lambda inner, t: lease.ask(inner, t, "show"), _LIST_SECONDS)
    asked = list(zip(nodes, answers, strict=True))
    errors = _errors(asked)
    if errors and len(errors) == len(asked):
        raise errors[0][1]
    for node, error in errors:
        message = f"what {node.name} is leased to isn't known: {error.message}"
        ctx.emit(Event(kind="warning", message=message, data={"host": node.name}))
    groups: dict[str, dict[int, tuple[Node, Mapping[str, Any]]]] = {}
    for node, seen in asked:
        if isinstance(seen, Seen) and seen.mine and seen.document is not None and seen.rank >= 0:
            group = groups.setdefault(seen.holder, {})
            group.setdefault(seen.rank, (node, seen.document))  # a host may be known by two names
    found = [_allocation(cluster_id, group) for cluster_id, group in groups.items()]
    return [allocation for allocation in found if tags.items() <= allocation.tags.items()]


def _known(ctx: Context) -> list[Node]:
    from sky_ssh import published

    nodes = [lease.node_of(machine) for pool in load(ctx) for machine in pool.machines]
    nodes += published.nodes(ctx)
    return list({(t.key, tuple(sorted(t.address.items()))): t for t in nodes}.values())


def _allocation(cluster_id: str, group: Mapping[int, tuple[Node, Mapping[str, Any]]]) -> Allocation:
    told = group[min(group)][1]
    offer = told["offer"]
    num_nodes = int(told["num_nodes"])
    # The whole cluster, or where the rest of it may be.
    complete = set(group) >= set(range(num_nodes))
    hosts = lease.pack(group[rank][0] for rank in range(num_nodes)) if complete else offer["spec"]["hosts"]
    kind = offer["accelerator"]
    return Allocation(
        id=cluster_id,
        cloud=CLOUD,
        cluster_name=str(told["cluster_name"]),
        tags=told["tags"],
        num_nodes=num_nodes,
        offer=Offer(**{**offer, "accelerator": Accelerator(**kind) if kind else None}),
        spec={"pool": offer["spec"].get("pool", ""), "hosts": hosts},
    )


# --- give back ---------------------------------------------------------------------------------------


def terminate_instances(ctx: Context, allocation: Allocation) -> None:
    """End the cluster's jobs and remove its files and leases, on all hosts at once. Blocks until it's done.

    Raises `Unreachable`, naming the hosts that could not be asked, once the others are given back.
    """
    nodes = _targets(ctx, allocation)

    def end(inner: Context, node: Node) -> bool:
        """Whether it was ours."""
        seen = lease.ask(inner, node, "show", id=allocation.id)
        ours = seen.held_by(allocation.id)
        if ours:
            _end_jobs(inner, _host(node, seen))
        give_back(inner, allocation.id, node)
        return ours

    answers = ask_each(ctx, nodes, end, _END_SECONDS)
    facts.forget(ctx, nodes)
    errors = [(t, a) for t, a in zip(nodes, answers, strict=True) if isinstance(a, SkyError)]
    if not errors or sum(answer is True for answer in answers) >= allocation.num_nodes:
        return  # where all nodes are accounted for, other hosts of the offer can't have any
    if any(isinstance(error, ProvisioningFailed) for _, error in errors):
        raise next(error for _, error in errors if isinstance(error, ProvisioningFailed))
    raise Unreachable(
        f"not given back, as it can't be asked: {named(errors)}",
        remedy=f"when it can be: sky down {allocation.cluster_name}",
    )


def _end_jobs(ctx: Context, host: Host) -> None:
    from sky.api import end_jobs_over
    from sky_ssh.runner import run

    end_jobs_over(run, ctx, host)
