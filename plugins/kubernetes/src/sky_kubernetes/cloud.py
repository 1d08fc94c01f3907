"""Kubernetes as a cloud: what the hooks of `plugin.py` do. Their contract is `sky.hookspecs`.

A cluster is a set of pods with one label; nothing else is made. An offer is one context (`region`).
"""

from __future__ import annotations

import functools
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
    NotPermitted,
    NotYet,
    Offer,
    SkyError,
    ask_each,
)
from sky_kubernetes import api_client, kubeconfig, labels, pinned
from sky_kubernetes.access import check_credentials, identity
from sky_kubernetes.creation import run_instances
from sky_kubernetes.merge import MAIN_CONTAINER
from sky_kubernetes.pod_access import cluster_pods, delete_pod, rank_of
from sky_kubernetes.pods import WORK_DIR
from sky_kubernetes.rejections import CLOUD
from sky_kubernetes.settings import allowed_contexts, load_kubeconfig, settings
from sky_kubernetes.status import judge, ready
from sky_kubernetes.survey import feasible
from sky_kubernetes.waiting import wait_instances

__all__ = [
    "check_credentials",
    "cluster_hosts",
    "feasible",
    "identity",
    "list_clusters",
    "query_instances",
    "run_instances",
    "terminate_instances",
    "wait_instances",
]

TRANSPORT = "kubernetes"
_LIST_SECONDS = 10.0


# --- look --------------------------------------------------------------------------------------------


def query_instances(ctx: Context, allocation: Allocation) -> list[InstanceStatus]:
    """Every pod of the cluster by rank; a running pod whose node is lost is PENDING with that reason."""
    with pinned.connected(ctx, allocation) as api:
        return [_status(api, pod) for pod in cluster_pods(api, allocation)]


def _status(api: api_client.Api, pod: Mapping[str, Any]) -> InstanceStatus:
    verdict = judge(pod)
    state, reason = verdict.state, verdict.reason
    if state is InstanceState.RUNNING and not _is_ready(pod):
        lost = _lost_node(api, pod["spec"]["nodeName"])
        if lost:
            state, reason = InstanceState.PENDING, lost
    return InstanceStatus(name=pod["metadata"]["name"], rank=rank_of(pod), state=state, reason=reason)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _lost_node(api: api_client.Api, name: str) -> str:
    """Why the node doesn't answer; empty if it does, or may not be looked at."""
    try:
        alive, why = ready(api.get(f"/api/v1/nodes/{name}"))
    except NotPermitted:
        return ""
    except api_client.ApiNotFound:
        return f"its node {name} is gone"
    return "" if alive else f"its node {name} is lost: {why}"


def cluster_hosts(ctx: Context, allocation: Allocation) -> list[Host]:
    """One host a pod, rank 0 first. Raises `NotYet` with what is missing."""
    with pinned.connected(ctx, allocation) as api:
        found = {rank_of(pod): pod for pod in cluster_pods(api, allocation)}
    for rank in range(allocation.num_nodes):
        if rank not in found:
            raise NotYet(f"node {rank} of {allocation.cluster_name!r} has no pod")
        verdict = judge(found[rank])
        if verdict.state is not InstanceState.RUNNING:
            name = found[rank]["metadata"]["name"]
            raise NotYet(f"pod {name} isn't running: {verdict.reason or verdict.state}")
    return [_host(allocation, found[rank]) for rank in range(allocation.num_nodes)]


def _host(allocation: Allocation, pod: Mapping[str, Any]) -> Host:
    name = pod["metadata"]["name"]
    return Host(
        transport=TRANSPORT,
        address={
            "context": allocation.spec["context"],
            "namespace": allocation.spec["namespace"],
            "pod": name,
            "container": MAIN_CONTAINER,
            "uid": pod["metadata"]["uid"],
        },
        rank=rank_of(pod),
        name=name,
        internal_ip=pod["status"].get("podIP") or "",
        work_dir=WORK_DIR,
    )


def list_clusters(ctx: Context, tags: Mapping[str, str]) -> list[Allocation]:
    """Every cluster with `tags` in the allowed contexts, in the namespace configured for each.

    A context that can't be asked is named by a `warning` event and hides none of the others' clusters; when
    no context answers, what the first fails with is raised.
    """
    names = allowed_contexts(ctx, load_kubeconfig(ctx))
    replies = ask_each(ctx, names, functools.partial(_list_in, tags), _LIST_SECONDS, kubeconfig.called)
    answers = dict(zip(names, replies, strict=True))
    found: dict[tuple[str, ...], Allocation] = {}
    for allocations in _answered(ctx, answers):
        for allocation in allocations:
            spec = allocation.spec
            # Two contexts may lead to one cluster.
            key = (spec["cluster_uid"] or spec["server"], spec["namespace"], allocation.id)
            found.setdefault(key, allocation)
    return list(found.values())


def _answered(ctx: Context, answers: Mapping[str, list[Allocation] | SkyError]) -> list[list[Allocation]]:
    errors = {name: answer for name, answer in answers.items() if isinstance(answer, SkyError)}
    if errors and len(errors) == len(answers):
        raise next(iter(errors.values()))
    for name, error in errors.items():
        message = f"clusters in Kubernetes context {name!r} aren't listed: {error.message}"
        ctx.emit(Event(kind="warning", message=message, data={"context": name}))
    return [answer for answer in answers.values() if not isinstance(answer, SkyError)]


def _list_in(tags: Mapping[str, str], ctx: Context, name: str) -> list[Allocation]:
    ref = load_kubeconfig(ctx).context(name)
    namespace = settings(ctx, ref).namespace
    with api_client.connect(ctx, name) as api:
        query = {"labelSelector": labels.own_selector(tags=tags)}
        pods = api.list_all(f"/api/v1/namespaces/{namespace}/pods", **query)["items"]
        spec = pinned.pin(api, namespace) if pods else {}
    by_cluster: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        # Labels are shortened; only the annotation tells for sure.
        if tags.items() <= labels.annotation(pod, labels.TAGS).items():
            by_cluster.setdefault(pod["metadata"]["labels"].get(labels.CLUSTER, ""), []).append(pod)
    return [_allocation(id, group, spec) for id, group in by_cluster.items() if id]


def _allocation(cluster_id: str, pods: Sequence[Mapping[str, Any]], spec: Mapping[str, str]) -> Allocation:
    told = labels.annotation(pods[0], labels.ALLOCATION)
    return Allocation(
        id=cluster_id,
        cloud=CLOUD,
        cluster_name=str(told.get("cluster_name") or cluster_id),
        tags=labels.annotation(pods[0], labels.TAGS),
        num_nodes=int(told.get("num_nodes") or len(pods)),
        offer=_offer(told, spec["context"]),
        spec=spec,
    )


def _offer(told: Mapping[str, Any], context: str) -> Offer | None:
    if "vcpus" not in told:
        return None
    kind = told.get("accelerator")
    return Offer(
        cloud=CLOUD,
        region=context,
        instance_type=told["instance_type"],
        vcpus=told["vcpus"],
        memory_gib=told["memory_gib"],
        accelerator=Accelerator(kind[0], kind[1]) if kind else None,
        price_usd_per_hour=told["price_usd_per_hour"],
        spec=told["spec"],
    )


# --- give back ---------------------------------------------------------------------------------------


def terminate_instances(ctx: Context, allocation: Allocation) -> None:
    """Delete every pod that carries the cluster's id, ended ones too. Returns when all are accepted."""
    with pinned.connected(ctx, allocation) as api:
        for pod in cluster_pods(api, allocation):
            if not pod["metadata"].get("deletionTimestamp"):
                delete_pod(api, pod)
