"""What is free on nodes, counted as the scheduler counts it. Pure: node and pod objects in, numbers out.

Amounts are whole units by resource: millicores of `cpu`, bytes of memory and storage, pieces of all else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sky_kubernetes import accelerators, quantities

_ORDER = {"cpu": 1, "memory": 2, "ephemeral-storage": 3, "pods": 4}
Amounts = Mapping[str, int]
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why no pod of ours may run on a node, however empty it is."""

    rule: str
    """`cordoned`, `not_ready`, `taint` or `node_selector`."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as far as placing a pod is concerned."""

    name: str
    free: Amounts
    """Allocatable less what the pods bound here request; never below zero."""
    total: Amounts
    """Allocatable."""
    labels: Mapping[str, str]
    blocked: Blocked | None
    accelerator: str | None
    """Canonical name of its devices' kind; None where it has none, or no label says which."""
    resource: str | None
    """The resource that counts them."""


def amounts(quantity_of: Mapping[str, Any] | None) -> Counter[str]:
    """A resource list as whole units."""
    return Counter({name: quantities.units(name, q) for name, q in (quantity_of or {}).items()})


def pod_requests(spec: Object) -> Counter[str]:
    """What a pod spec takes of a node: containers together, or its largest init step if that is more.

    Init containers that stay (restartPolicy Always) count with the containers and with every later step;
    overhead is added; a request at the level of the pod replaces the sum. A limit alone is a request.
    """
    steady: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        wanted = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            steady = _plus(steady, wanted)
            peak |= steady
        else:
            peak |= _plus(steady, wanted)
    for container in spec.get("containers") or ():
        steady = _plus(steady, _container_requests(container))
    total = steady | peak
    for name, amount in amounts((spec.get("resources") or {}).get("requests")).items():
        total[name] = amount
    return _plus(total, amounts(spec.get("overhead")))


def nodes(node_list: Iterable[Object], pod_list: Iterable[Object], pod_spec: Object) -> list[Node]:
    """Every node with what is free on it for pods like `pod_spec` (its tolerations and node selector)."""
    used: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pod_list:
        where = pod["spec"].get("nodeName")
        # A finished pod holds nothing, though it is still bound to its node.
        if where and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            used[where] = _plus(used[where], pod_requests(pod["spec"]) + Counter(pods=1))
    return [_node(node, used[node["metadata"]["name"]], pod_spec) for node in node_list]


def room(free: Amounts, wanted: Amounts) -> int:
    """How many pods that each take `wanted` fit into `free`."""
    return min((free.get(name, 0) // amount for name, amount in wanted.items() if amount > 0), default=0)


def shortages(free: Amounts, wanted: Amounts) -> list[str]:
    """The resources of which `free` has less than `wanted`, devices first, then `cpu`, then memory."""
    short = [name for name, amount in wanted.items() if amount > free.get(name, 0)]
    return sorted(short, key=lambda name: (_ORDER.get(name, 0), name))


def tolerated(taint: Object, tolerations: Sequence[Object]) -> bool:
    """Whether any of `tolerations` lets a pod onto a node with `taint`."""
    for toleration in tolerations:
        if toleration.get("effect") not in (None, "", taint.get("effect")):
            continue
        if toleration.get("key") not in (None, "", taint["key"]):
            continue
        if toleration.get("operator", "Equal") == "Exists":
            return True
        if toleration.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def _container_requests(container: Object) -> Counter[str]:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _plus(a: Mapping[str, int], b: Mapping[str, int]) -> Counter[str]:
    return Counter({name: a.get(name, 0) + b.get(name, 0) for name in {**a, **b}})


def _node(node: Object, used: Amounts, pod_spec: Object) -> Node:
    total = amounts(node["status"].get("allocatable") or node["status"].get("capacity"))
    labels = node["metadata"].get("labels") or {}
    kind = accelerators.kind_of(labels)
    resource = accelerators.resource_of({name: n for name, n in total.items() if n > 0})
    return Node(
        name=node["metadata"]["name"],
        free={name: max(0, amount - used.get(name, 0)) for name, amount in total.items()},
        total=total,
        labels=labels,
        blocked=_blocked(node, pod_spec),
        accelerator=kind[0] if kind and resource else None,
        resource=resource,
    )


def _blocked(node: Object, pod_spec: Object) -> Blocked | None:
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return Blocked("cordoned", "is cordoned")
    ready = next((c for c in node["status"].get("conditions") or () if c["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        why = (ready or {}).get("message") or (ready or {}).get("reason") or "it never reported"
        return Blocked("not_ready", f"is not ready: {why}")
    for taint in spec.get("taints") or ():
        if taint["effect"] == "PreferNoSchedule" or tolerated(taint, pod_spec.get("tolerations") or ()):
            continue
        shown = taint["key"] + (f"={taint['value']}" if taint.get("value") else "")
        return Blocked("taint", f"has the taint {shown}:{taint['effect']}, which pod_config doesn't tolerate")
    labels = node["metadata"].get("labels") or {}
    for key, value in (pod_spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return Blocked("node_selector", f"lacks the label {key}={value} that pod_config selects")
    return None
