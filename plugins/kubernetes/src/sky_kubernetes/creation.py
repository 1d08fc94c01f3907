"""Making the pods of a cluster: by fixed names, so that a repeat or a second caller finds the first's."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping
from typing import Any

from sky.api import (
    Allocation,
    Context,
    LaunchSpec,
    NotPermitted,
    ProvisioningFailed,
    QuotaExceeded,
    SkyError,
)
from sky_kubernetes import api_client, labels, pinned, pods
from sky_kubernetes.pod_access import delete_pod
from sky_kubernetes.rejections import CLOUD
from sky_kubernetes.settings import settings_of
from sky_kubernetes.status import judge

_CLEAR_SECONDS = 30.0
_POLL_SECONDS = 0.2
# The server calls it forbidden, though no permission is lacking.
_NO_SERVICE_ACCOUNT = re.compile(r'serviceaccount "[^"]*" not found')


def run_instances(ctx: Context, spec: LaunchSpec) -> Allocation:
    """Create or adopt every pod of the cluster; when one can't be had, those made by this call are deleted.

    Raises `QuotaExceeded`, `NotPermitted`, `ProvisioningFailed` (the server refuses the pod, its name is
    someone else's) and `UsageError` for a `pod_config` that can't be merged.
    """
    settings = settings_of(ctx, spec.offer.region)
    namespace = spec.offer.spec.get("namespace") or settings.namespace
    settings = dataclasses.replace(settings, namespace=namespace)
    manifests = [pods.manifest(spec, rank, settings) for rank in range(spec.num_nodes)]
    with api_client.connect(ctx, settings.context) as api:
        pin = pinned.pin(api, namespace)
        made: list[Mapping[str, Any]] = []
        try:
            for manifest in manifests:
                pod = _create_or_adopt(ctx, api, manifest)
                if pod is not None:
                    made.append(pod)
        except SkyError:
            _undo(api, made)
            raise
    return Allocation(
        id=spec.cluster_id,
        cloud=CLOUD,
        cluster_name=spec.cluster_name,
        tags=spec.tags,
        num_nodes=spec.num_nodes,
        offer=spec.offer,
        spec=pin,
    )


def preview(ctx: Context, spec: LaunchSpec) -> str:
    """The pods that `run_instances` would make, as YAML documents. Calls nobody."""
    import yaml

    settings = settings_of(ctx, spec.offer.region)
    namespace = spec.offer.spec.get("namespace") or settings.namespace
    settings = dataclasses.replace(settings, namespace=namespace)
    return yaml.safe_dump_all(
        [pods.manifest(spec, rank, settings) for rank in range(spec.num_nodes)], sort_keys=False
    )


def _create_or_adopt(
    ctx: Context, api: api_client.Api, manifest: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The pod made, or None when it was there. Waits for one of that name that is on its way out."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    latest = time.monotonic() + _CLEAR_SECONDS
    while time.monotonic() < latest:
        pod = _post(api, namespace, manifest)
        if pod is not None:
            return pod
        try:
            found = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        except api_client.ApiNotFound:
            continue
        if not _same_cluster(found, manifest):
            raise ProvisioningFailed(
                f"namespace {namespace!r} has a pod {name!r} that isn't of this cluster",
                remedy="delete that pod, or set kubernetes.namespace to another",
            )
        if judge(found).cause != "dead":
            return None
        if not found["metadata"].get("deletionTimestamp"):
            delete_pod(api, found)
        ctx.cancel.wait(_POLL_SECONDS)
        ctx.cancel.check()
    raise ProvisioningFailed(
        f"the ended pod {name!r} in namespace {namespace!r} doesn't go away",
        remedy=f"see why: kubectl --context {api.ref.name} -n {namespace} describe pod {name}",
        retryable=True,
    )


def _post(api: api_client.Api, namespace: str, manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    try:
        return api.post(f"/api/v1/namespaces/{namespace}/pods", manifest)
    except api_client.ApiConflict:
        return None
    except api_client.ApiNotFound as error:
        raise ProvisioningFailed(
            f"{error.message}",
            remedy=f"make the namespace ({namespace}), or set kubernetes.namespace to one that exists",
            scope="region",
        ) from error
    except api_client.ApiInvalid as error:
        remedy = error.remedy or "look at kubernetes.pod_config, image_id and labels"
        raise api_client.ApiInvalid(error.message, remedy=remedy, scope="region") from error
    except NotPermitted as error:
        if _NO_SERVICE_ACCOUNT.search(error.message):
            raise _no_service_account(api, namespace, manifest) from error
        if "exceeded quota" not in error.message:
            raise
        raise QuotaExceeded(
            error.message, remedy="ask for less, or have the quota raised", scope="region"
        ) from error


def _no_service_account(api: api_client.Api, namespace: str, manifest: Mapping[str, Any]) -> SkyError:
    name = manifest["spec"].get("serviceAccountName") or "default"
    return ProvisioningFailed(
        f"namespace {namespace!r} has no service account {name!r}",
        remedy=f"make it (kubectl --context {api.ref.name} -n {namespace} create serviceaccount {name}), "
        "or set kubernetes.remote_identity to one that exists",
        scope="region",
    )


def _same_cluster(found: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    has = found["metadata"].get("labels") or {}
    wanted = manifest["metadata"]["labels"]
    return all(has.get(key) == wanted[key] for key in (labels.MANAGED_BY, labels.CLUSTER, labels.RANK))


def _undo(api: api_client.Api, made: list[Mapping[str, Any]]) -> None:
    for pod in made:
        try:
            delete_pod(api, pod)
        except SkyError:
            # What made us give up is what matters; this pod carries the tags by which terminate finds it.
            continue
