"""Why a cluster or node can't serve, and what would have worked, as the user would write it. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from sky.api import Feasibility, Rejection, Request, counted
from sky_kubernetes import accelerators, capacity
from sky_kubernetes.capacity import Node
from sky_kubernetes.settings import Settings
from sky_kubernetes.sizes import Size

CLOUD = "kubernetes"
_GIB = 1 << 30
_SHOWN = 3


def rejected(
    settings: Settings, rule: str, reason: str, near: tuple[str, ...], others: Sequence[Rejection] = ()
) -> Feasibility:
    """A rejection of the context as a whole, before `others`."""
    first = Rejection(cloud=CLOUD, subject=settings.context, rule=rule, reason=reason, near_misses=near)
    return Feasibility(rejections=(first, *others))


def _node_rejection(
    settings: Settings, node: Node, rule: str, reason: str, near: Sequence[str] = ()
) -> Rejection:
    subject = f"{settings.context}/{node.name}"
    return Rejection(cloud=CLOUD, subject=subject, rule=rule, reason=reason, near_misses=tuple(near))


def blocked(settings: Settings, node: Node) -> Rejection:
    """The rejection of a node that may not be used, however empty it is."""
    assert node.blocked is not None
    return _node_rejection(settings, node, node.blocked.rule, node.blocked.reason)


def explained(
    settings: Settings,
    request: Request,
    size: Size,
    wanted: Counter[str],
    nodes: Sequence[Node],
    fitting: int,
) -> list[Rejection]:
    """Why no offer: one rejection for each node, the nearest to serving first."""
    if not nodes:
        return list(rejected(settings, "nodes", "has no nodes", ()).rejections)
    found: list[Rejection] = []
    if fitting:
        reason = f"has room for {fitting} of {request.num_nodes} nodes of {size}"
        found += rejected(settings, "num_nodes", reason, (f"num_nodes: {fitting}",)).rejections
    kinds = {n.accelerator: n for n in sorted(nodes, key=_devices_free) if n.accelerator and not n.blocked}
    for node in sorted(nodes, key=lambda n: (n.blocked is not None, -n.free.get("cpu", 0))):
        if node.blocked:
            found.append(blocked(settings, node))
        elif size.kind and node.accelerator != size.kind:
            found.append(_other_kind(settings, node, size, kinds))
        elif capacity.shortages(node.free, wanted):
            found.append(_too_small(settings, node, size, wanted))
    return summed(settings, found)


def _devices_free(node: Node) -> int:
    return node.free.get(node.resource or "", 0)


def _other_kind(settings: Settings, node: Node, size: Size, kinds: Mapping[str, Node]) -> Rejection:
    if node.resource and node.accelerator is None:
        reason = f"has {node.total[node.resource]} {node.resource}, but no label says of which kind"
        near: tuple[str, ...] = (
            f"kubectl label node {node.name} {accelerators.LABEL_KEYS[0]}={(size.kind or '').lower()}",
        )
        return _node_rejection(settings, node, "accelerator_label", reason, near)
    has = f"has {node.accelerator}" if node.accelerator else "has no accelerators"
    counts = {kind: min(size.count, _devices_free(n)) for kind, n in kinds.items() if _devices_free(n)}
    near = tuple(f"{kind}:{counts[kind]}" for kind in accelerators.near(size.kind or "", counts))
    return _node_rejection(settings, node, "accelerator", f"{has}, not {size.kind}", near)


def _too_small(settings: Settings, node: Node, size: Size, wanted: Counter[str]) -> Rejection:
    short = capacity.shortages(node.free, wanted)
    words = {_told(name, wanted, node): _would_fit(name, size, wanted, node) for name in short}
    rule = {"cpu": "cpus", "memory": "memory", "ephemeral-storage": "disk_size"}.get(short[0])
    if rule is None:
        rule = "accelerator" if size.kind and short[0] == node.resource else short[0]
    return _node_rejection(settings, node, rule, "; ".join(words), [near for near in words.values() if near])


def _told(name: str, wanted: Counter[str], node: Node) -> str:
    divisor, unit = {
        "cpu": (1000, "CPUs"),
        "memory": (_GIB, "GiB memory"),
        "ephemeral-storage": (10**9, "GB disk"),
    }.get(name, (1, name))
    needs, free, total = (
        x / divisor for x in (wanted[name], node.free.get(name, 0), node.total.get(name, 0))
    )
    return f"needs {needs:.4g} {unit}, {free:.4g} of {total:.4g} are free"


def _would_fit(name: str, size: Size, wanted: Counter[str], node: Node) -> str:
    """What of this resource the user could ask for here: the free part less what the pod takes besides."""
    free = node.free.get(name, 0)
    if name == "cpu":
        return _at_least_half("cpus", (free - wanted[name] + round(size.cpus * 1000)) / 1000)
    if name == "memory":
        return _at_least_half("memory", (free - wanted[name]) / _GIB + size.memory_gib)
    if name == "ephemeral-storage":
        return f"disk_size: {free // 10**9}" if free >= 10**9 else ""
    return f"{size.kind}:{free}" if size.kind and name == node.resource and free else ""


def _at_least_half(field: str, value: float) -> str:
    fits = math.floor(value) if value >= 1 else math.floor(value * 2) / 2
    return f"{field}: {fits:g}" if fits > 0 else ""


def summed(settings: Settings, rejections: Sequence[Rejection]) -> list[Rejection]:
    """At most a few for each rule: a cluster may have thousands of nodes."""
    by_rule: defaultdict[str, list[Rejection]] = defaultdict(list)
    for rejection in rejections:
        by_rule[rejection.rule].append(rejection)
    shown = []
    for rule, group in by_rule.items():
        shown += group[:_SHOWN]
        if len(group) > _SHOWN:
            subject = f"{settings.context}: {counted(len(group) - _SHOWN, 'more node')}"
            shown.append(Rejection(cloud=CLOUD, subject=subject, rule=rule, reason="likewise"))
    return shown
