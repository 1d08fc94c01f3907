"""The pods of one cluster at the API server: listed, ranked, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sky.api import Allocation
from sky_kubernetes import api_client, labels


def delete_pod(api: api_client.Api, pod: Mapping[str, Any]) -> None:
    """Delete this very pod, never one that took its name since; gone already is success."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    options: dict[str, Any] = {"preconditions": {"uid": metadata["uid"]}}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        options["gracePeriodSeconds"] = 0  # nothing runs in it: its name is free at once
    try:
        api.delete(path, options)
    except (api_client.ApiNotFound, api_client.ApiConflict):
        pass


def cluster_pods(api: api_client.Api, allocation: Allocation) -> list[dict[str, Any]]:
    """Every pod that carries the cluster's id, by rank, in whatever state."""
    path = f"/api/v1/namespaces/{allocation.spec['namespace']}/pods"
    listing = api.list_all(path, labelSelector=labels.own_selector(allocation.id))
    return sorted(listing["items"], key=rank_of)


def rank_of(pod: Mapping[str, Any]) -> int:
    """Which node of its cluster a pod is."""
    return int(pod["metadata"]["labels"].get(labels.RANK, "0"))
