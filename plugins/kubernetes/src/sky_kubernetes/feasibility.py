"""Whether one cluster can run a request now: offers and rejections from its nodes and pods. Pure.

The question is put to the very pod that would be made (sidecars, tolerations and node selector of
`pod_config` included) and to what is free on each node, never to a node's capacity.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from sky.api import Accelerator, Feasibility, Offer, Rejection, Request, UsageError
from sky_kubernetes import accelerators, capacity, labels, pods, shapes
from sky_kubernetes.capacity import Node, Object
from sky_kubernetes.rejections import CLOUD, blocked, explained, rejected, summed
from sky_kubernetes.settings import Settings
from sky_kubernetes.sizes import Refused, Size, candidates

NODES_UNKNOWN = "capacity unknown: may not list nodes"
PODS_UNKNOWN = "what other pods use is unknown: they may not be listed, or not in time"


def refuse(request: Request) -> list[Rejection]:
    """What no cluster of this kind does, for any context."""
    found: list[tuple[str, str]] = []
    if request.use_spot:
        found.append(("capability", "has no spot instances"))
    if request.zone:
        found.append(
            ("capability", f"has no zones ({request.zone!r}); choose nodes by pod_config.spec.nodeSelector")
        )
    if request.disk_tier:
        found.append(("capability", f"has no disk tiers ({request.disk_tier!r})"))
    if request.ports:
        found.append(("capability", "opens no ports to the outside; forward them instead"))
    if request.image_id:
        try:
            shapes.check_image(request.image_id.removeprefix("docker:").strip(), "image_id")
        except UsageError as error:
            found.append((error.kind, f"{error.message}; {error.remedy}"))
    for key, value in request.labels.items():
        if not labels.valid(key, value):
            found.append(("labels", f"takes no label {key}: {value!r}"))
    return [Rejection(cloud=CLOUD, subject=CLOUD, rule=rule, reason=reason) for rule, reason in found]


def answer(
    settings: Settings,
    request: Request,
    node_list: Sequence[Object] | None,
    pod_list: Sequence[Object] | None,
) -> Feasibility:
    """One context's whole answer. None stands for what may not be listed: then an offer says so in its note.

    Raises `UsageError` for a `pod_config` that can't be merged.
    """
    try:
        sizes = candidates(request)
    except Refused as refused:
        return rejected(settings, refused.rule, refused.reason, refused.near_misses)
    if node_list is None:
        return _priced(settings, request, _offer(settings, request, sizes[0], None, (), NODES_UNKNOWN), [])
    peers = _peers(node_list, sizes[0].kind)
    resource = next((n.resource for n in peers), None)
    note = "" if pod_list is not None else PODS_UNKNOWN
    nodes: list[Node] | None = None
    best: list[Rejection] = []
    for size in sizes:
        offer = _offer(settings, request, size, resource, peers, note)
        spec = pods.pod_spec(offer, request.image_id, settings)
        wanted = capacity.pod_requests(spec) + Counter(pods=1)
        if nodes is None:  # sizes differ in amounts only, which change nothing of the nodes
            nodes = capacity.nodes(node_list, pod_list or (), spec)
        fitting = sum(capacity.room(n.free, wanted) for n in nodes if _serves(n, size, resource))
        if fitting >= request.num_nodes:
            unusable = [blocked(settings, n) for n in nodes if n.blocked]
            return _priced(settings, request, offer, summed(settings, unusable))
        best = explained(settings, request, size, wanted, nodes, fitting)
    if settings.autoscaler:
        waiting = _offer(
            settings, request, sizes[0], None, (), f"waits for a new node ({settings.autoscaler})"
        )
        return _priced(settings, request, waiting, best)
    return Feasibility(rejections=tuple(best))


# --- offers ------------------------------------------------------------------------------------------


def _peers(node_list: Iterable[Object], kind: str | None) -> list[Node]:
    """The nodes that have the kind of device, whether or not they can be used now."""
    if kind is None:
        return []
    return [n for n in capacity.nodes(node_list, (), {}) if n.accelerator == kind]


def _serves(node: Node, size: Size, resource: str | None) -> bool:
    if node.blocked:
        return False
    return size.kind is None or (node.accelerator == size.kind and node.resource == resource)


def _offer(
    settings: Settings, request: Request, size: Size, resource: str | None, peers: Sequence[Node], note: str
) -> Offer:
    spec = {
        "context": settings.context,
        "namespace": settings.namespace,
        "cpus": f"{size.cpus:g}",
        "memory_gib": f"{size.memory_gib:g}",
    }
    if request.disk_size_gb:
        spec["disk_gb"] = str(request.disk_size_gb)
    if size.kind:
        spec["accelerator_resource"] = resource or accelerators.likely_resource(size.kind)
        spec["accelerator_count"] = str(size.count)
        spec["accelerator_labels"] = json.dumps(_labels_of(peers) or accelerators.known_labels(size.kind))
    return Offer(
        cloud=CLOUD,
        region=settings.context,
        instance_type=str(size),
        vcpus=size.cpus,
        memory_gib=size.memory_gib,
        accelerator=Accelerator(size.kind, size.count) if size.kind else None,
        price_usd_per_hour=settings.pricing.of(size.cpus, size.memory_gib, size.kind, size.count),
        note=note,
        spec=spec,
    )


def _labels_of(peers: Iterable[Node]) -> dict[str, list[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in peers:
        kind = accelerators.kind_of(node.labels)
        if kind is not None:
            found[kind[1]].add(kind[2])
    return {key: sorted(values) for key, values in found.items()}


def _priced(
    settings: Settings, request: Request, offer: Offer, rejections: Sequence[Rejection]
) -> Feasibility:
    limit, price = request.max_price_usd_per_hour, offer.price_usd_per_hour * request.num_nodes
    if limit is not None and price > limit:
        reason = f"{offer.instance_type} costs ${price:g} an hour, more than {limit:g}"
        return rejected(settings, "price", reason, (f"max_hourly_cost: {price:g}",), rejections)
    return Feasibility(offers=(offer,), rejections=tuple(rejections))
