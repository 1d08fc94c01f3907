"""The pod that a node is: its manifest, from an offer and the configuration.

The main container needs nothing but `/bin/sh` and `sleep`. Its first process waits, reaps what jobs leave
behind and ends at once on TERM; a pod that ended stays ended (restartPolicy Never) and costs nothing. Sky's
own files live in an emptyDir, so any user and a read-only root will do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sky.api import LaunchSpec, Offer, UsageError
from sky_kubernetes import labels, quantities, shapes
from sky_kubernetes.merge import MAIN_CONTAINER, merged
from sky_kubernetes.settings import Settings

WORK_DIR = "/var/sky"
"""Where the emptyDir is mounted; the runtime makes the directory, also on a read-only root."""
_WORK_VOLUME = "sky-work"
_GRACE_SECONDS = 5

# `wait` returns for any child, so orphans are reaped as they end; a trap interrupts it, so TERM takes effect
# at once. Someone may kill our `sleep`; only its absence (127) must not become a busy loop.
INIT_SCRIPT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; [ $? -ne 127 ] || exit 127; done"


def pod_name(cluster_id: str, rank: int) -> str:
    """The name of a node's pod."""
    return f"{cluster_id}-{rank}"


def container_image(image_id: str | None, settings: Settings) -> str:
    """What to run: the task's `image_id` (with or without `docker:`), else the configured image.

    Raises `UsageError` for an `image_id` that names no image.
    """
    if not image_id:
        return settings.image
    image = image_id.removeprefix("docker:").strip()
    shapes.check_image(image, "image_id")
    return image


def manifest(spec: LaunchSpec, rank: int, settings: Settings) -> dict[str, Any]:
    """The pod of one node. Raises `UsageError` for a `pod_config` that can't be merged and for no image."""
    metadata = {
        "labels": {**settings.labels, **spec.request.labels},
        "annotations": dict(settings.annotations),
    }
    pod = merged(
        {"metadata": metadata, "spec": pod_spec(spec.offer, spec.request.image_id, settings)},
        {"metadata": settings.pod_config.get("metadata") or {}},
    )
    # What we find it again by is written last: no configuration may change it.
    pod = merged(
        pod,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod_name(spec.cluster_id, rank),
                "namespace": settings.namespace,
                "labels": {
                    labels.MANAGED_BY: labels.MANAGER,
                    labels.CLUSTER: spec.cluster_id,
                    labels.RANK: str(rank),
                    labels.CLUSTER_NAME: labels.safe(spec.cluster_name),
                    labels.USER: labels.safe(spec.user),
                    **labels.tag_labels(spec.tags),
                },
                "annotations": {
                    labels.TAGS: json.dumps(dict(spec.tags)),
                    labels.ALLOCATION: json.dumps(_allocation(spec)),
                    "kubectl.kubernetes.io/default-container": MAIN_CONTAINER,
                },
            },
        },
    )
    return pod


def pod_spec(offer: Offer, image_id: str | None, settings: Settings) -> dict[str, Any]:
    """The pod's `spec`: also what feasibility counts, so that both speak of the same pod."""
    resources = _resources(offer.spec)
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "enableServiceLinks": False,
        "automountServiceAccountToken": settings.service_account is not None,
        "containers": [
            {
                "name": MAIN_CONTAINER,
                "image": container_image(image_id, settings),
                "command": ["/bin/sh", "-c", INIT_SCRIPT],
                "resources": resources,
                "volumeMounts": [{"name": _WORK_VOLUME, "mountPath": WORK_DIR}],
            }
        ],
        "volumes": [{"name": _WORK_VOLUME, "emptyDir": {}}],
    }
    if settings.image_pull_policy:
        spec["containers"][0]["imagePullPolicy"] = settings.image_pull_policy
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    device = offer.spec.get("accelerator_resource")
    if device:
        # Nodes with devices are often kept free of other pods by a taint of the same name.
        spec["tolerations"] = [{"key": device, "operator": "Exists", "effect": "NoSchedule"}]
    spec = merged(spec, settings.pod_config.get("spec") or {})
    if device:
        spec = _on_nodes_with(spec, json.loads(offer.spec.get("accelerator_labels", "{}")))
    spec["restartPolicy"] = "Never"
    _check(spec)
    return spec


def _resources(offer_spec: Mapping[str, str]) -> dict[str, Any]:
    memory = quantities.memory(float(offer_spec["memory_gib"]))
    requests = {"cpu": quantities.cpu(float(offer_spec["cpus"])), "memory": memory}
    # A limit on memory makes a job that takes too much fail by itself, visibly, rather than its neighbours.
    limits = {"memory": memory}
    if offer_spec.get("disk_gb"):
        requests["ephemeral-storage"] = limits["ephemeral-storage"] = f"{offer_spec['disk_gb']}G"
    if offer_spec.get("accelerator_resource"):
        device = offer_spec["accelerator_resource"]
        requests[device] = limits[device] = offer_spec["accelerator_count"]
    return {"requests": requests, "limits": limits}


def _on_nodes_with(spec: Mapping[str, Any], values_by_label: Mapping[str, list[str]]) -> dict[str, Any]:
    """`spec` kept to nodes with any of these labels, on top of what `pod_config` already keeps it to."""
    ours = [{"key": key, "operator": "In", "values": values} for key, values in values_by_label.items()]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    theirs = (affinity.get(required) or {}).get("nodeSelectorTerms") or [{}]
    # Terms are alternatives and expressions within one hold together, so both hold in each pair of them.
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), expression]}
        for term in theirs
        for expression in ours
    ]
    return merged(spec, {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}})


def _check(spec: Mapping[str, Any]) -> None:
    main = next((c for c in spec.get("containers") or () if c["name"] == MAIN_CONTAINER), None)
    mounts = (main or {}).get("volumeMounts") or ()
    if main is None or not any(mount["mountPath"] == WORK_DIR for mount in mounts):
        raise UsageError(
            f"kubernetes.pod_config takes away the container {MAIN_CONTAINER!r} or its mount {WORK_DIR}",
            remedy="add to them; don't set `containers` or `volumeMounts` to null",
        )


def _allocation(spec: LaunchSpec) -> dict[str, Any]:
    offer = spec.offer
    return {
        "cluster_name": spec.cluster_name,
        "user": spec.user,
        "num_nodes": spec.num_nodes,
        "instance_type": offer.instance_type,
        "vcpus": offer.vcpus,
        "memory_gib": offer.memory_gib,
        "accelerator": [offer.accelerator.name, offer.accelerator.count] if offer.accelerator else None,
        "price_usd_per_hour": offer.price_usd_per_hour,
        "spec": dict(offer.spec),
    }
