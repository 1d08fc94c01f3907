"""Whether a pool has free hosts for a request: one offer for each pool that has, and why others have not.

Hosts are given whole, so what is asked for is a least size: the smallest hosts that suffice are chosen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sky.api import Accelerator, Context, Feasibility, Offer, Quantity, Rejection, Request, counted
from sky_ssh import devices, lease
from sky_ssh.about import CLOUD
from sky_ssh.facts import Facts, survey
from sky_ssh.pools import Pool, pools_file, select

_SPARES = 20
"""Hosts named in an offer beyond those needed, should some be taken meanwhile."""
_SHOWN = 5


def feasible(ctx: Context, request: Request) -> Feasibility:
    """Ask every host of the pools that `request` allows, at once. Raises `UsageError` for a pools file or a
    name that can't be understood."""
    refused = _never(request)
    if refused:
        return Feasibility(rejections=refused)
    pools = select(ctx, request.region)
    if not pools:
        reason = f"there are no pools: {pools_file(ctx)} has none"
        return Feasibility(rejections=(_rejection(CLOUD, "pools", reason, ("--infra ssh/HOST",)),))
    everything = iter(survey(ctx, [machine for pool in pools for machine in pool.machines]))
    offers: list[Offer] = []
    rejections: list[Rejection] = []
    for pool in pools:
        offer, rejected = answer(pool, request, [next(everything) for _ in pool.machines])
        offers += [offer] if offer else []
        rejections += rejected
    offers.sort(key=lambda offer: (offer.price_usd_per_hour, offer.vcpus, offer.memory_gib))
    return Feasibility(offers=tuple(offers), rejections=tuple(rejections))


def _never(request: Request) -> tuple[Rejection, ...]:
    found = []
    if request.use_spot:
        found.append("has no spot instances")
    if request.zone:
        found.append(f"has no zones ({request.zone!r})")
    if request.image_id:
        found.append("runs on the hosts as they are, without images")
    if request.ports:
        found.append("opens no ports; forward them instead")
    return tuple(_rejection(CLOUD, "capability", reason) for reason in found)


def answer(pool: Pool, request: Request, facts: Sequence[Facts]) -> tuple[Offer | None, list[Rejection]]:
    """One pool's offer, if it has one, and a rejection for each host that can't serve. Pure."""
    fitting: list[Facts] = []
    rejections: list[Rejection] = []
    kinds = sorted({f.accelerator.name for f in facts if f.accelerator})
    for one in facts:
        reason = _lacks(request, one, kinds)
        if reason is None:
            fitting.append(one)
        else:
            rejections.append(_rejection(f"{pool.name}/{one.machine.name}", *reason))
    rejections = _summed(pool, rejections)
    if len(fitting) < request.num_nodes:
        if fitting:
            told = f"has {counted(len(fitting), 'host')} free that would do, {request.num_nodes} are needed"
            near = (f"num_nodes: {len(fitting)}",)
            rejections.insert(0, _rejection(pool.name, "num_nodes", told, near))
        return None, rejections
    fitting.sort(key=_smallest_first)
    offer = _offer(pool, request, fitting)
    limit, price = request.max_price_usd_per_hour, offer.price_usd_per_hour * request.num_nodes
    if limit is not None and price > limit:
        told = f"costs ${price:g} an hour, more than {limit:g}"
        return None, [_rejection(pool.name, "price", told, (f"max_hourly_cost: {price:g}",)), *rejections]
    return offer, rejections


def _offer(pool: Pool, request: Request, fitting: Sequence[Facts]) -> Offer:
    chosen = fitting[: request.num_nodes]
    kinds = {one.accelerator.name for one in chosen if one.accelerator}
    counts = [one.accelerator.count if one.accelerator else 0 for one in chosen]
    # Only what each of them has may be counted on.
    common = Accelerator(kinds.pop(), min(counts)) if len(kinds) == 1 and min(counts) else None
    sizes = dict.fromkeys(one.size for one in chosen)
    nodes = [lease.node_of(one.machine) for one in fitting[: request.num_nodes + _SPARES]]
    return Offer(
        cloud=CLOUD,
        region=pool.name,
        instance_type=chosen[0].size,
        vcpus=min(one.cpus for one in chosen),
        memory_gib=min(one.memory_gib for one in chosen),
        accelerator=common,
        price_usd_per_hour=sum(one.machine.price_usd_per_hour for one in chosen) / len(chosen),
        note="hosts differ: " + ", ".join(sizes) if len(sizes) > 1 else "",
        spec={"pool": pool.name, "hosts": lease.pack(nodes)},
    )


def _smallest_first(one: Facts) -> tuple[float, float, float, float, tuple[str, ...]]:
    count = one.accelerator.count if one.accelerator else 0
    return (count, one.machine.price_usd_per_hour, one.cpus, one.memory_gib, lease.node_of(one.machine).key)


Reason = tuple[str, str, tuple[str, ...]]


def _lacks(request: Request, one: Facts, kinds: Iterable[str]) -> Reason | None:
    """(rule, reason, near misses) of what keeps this host from serving."""
    if one.seen is None:
        assert one.error is not None
        remedy = f" ({one.error.remedy})" if one.error.remedy else ""
        return one.error.kind, one.error.message.replace("\n", " ") + remedy.replace("\n", " "), ()
    if request.instance_type and one.size.lower() != request.instance_type.lower():
        return "instance_type", f"is {one.size}", (one.size,)
    for rule in (_accelerator(request, one, kinds), _cpus(request, one), _memory(request, one)):
        if rule is not None:
            return rule
    if one.seen.holder:
        return "leased", one.seen.whose, ()
    return None


def _accelerator(request: Request, one: Facts, kinds: Iterable[str]) -> Reason | None:
    asked, has = request.accelerator, one.accelerator
    if asked is None or asked.count == 0:
        return None
    kind = devices.canonical(asked.name)
    if has is None or has.name != kind:
        near = tuple(devices.near(kind, kinds))
        return "accelerator", f"has {has}, not {kind}" if has else "has no accelerators", near
    if has.count < asked.count:
        return "accelerator", f"has {has}, not {asked.count:g}", (str(has),)
    return None


def _cpus(request: Request, one: Facts) -> Reason | None:
    if request.cpus is None or one.cpus >= request.cpus.value:
        return None
    return "cpus", f"has {one.cpus:g} CPUs, not {request.cpus.value:g}", (f"cpus: {one.cpus:g}",)


def _memory(request: Request, one: Facts) -> Reason | None:
    needed = _gib(request.memory, one.cpus)
    if one.memory_gib >= needed:
        return None
    return "memory", f"has {one.memory_gib:g} GiB memory, not {needed:g}", (f"memory: {one.memory_gib:g}",)


def _gib(asked: Quantity | None, cpus: float) -> float:
    if asked is None:
        return 0.0
    return asked.value * cpus if asked.mode == "per_cpu" else asked.value


def _rejection(subject: str, rule: str, reason: str, near: tuple[str, ...] = ()) -> Rejection:
    return Rejection(cloud=CLOUD, subject=subject, rule=rule, reason=reason, near_misses=near)


def _summed(pool: Pool, rejections: Sequence[Rejection]) -> list[Rejection]:
    """At most a few for each rule: a pool may have a thousand hosts."""
    by_rule: defaultdict[str, list[Rejection]] = defaultdict(list)
    for rejection in rejections:
        by_rule[rejection.rule].append(rejection)
    shown: list[Rejection] = []
    for rule, group in by_rule.items():
        shown += group[:_SHOWN]
        if len(group) > _SHOWN:
            shown.append(
                _rejection(f"{pool.name}: {counted(len(group) - _SHOWN, 'more host')}", rule, "likewise")
            )
    return shown
