"""An allocation's cluster: found again through its context, and made sure to be the one it was made in.

A context is only a name: it may be re-created for another cluster. What identifies a cluster is the uid of
its namespace kube-system, which survives a change of address; the address stands in where that may not be
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sky.api import Allocation, Context, NotPermitted, Unreachable, UsageError
from sky_kubernetes import api_client

if TYPE_CHECKING:
    from collections.abc import Iterator

_TTL_SECONDS = 300


def cluster_uid(api: api_client.Api) -> str:
    """The cluster's identity, or empty if it may not be read. Blocks for at most one request."""

    def ask() -> str:
        try:
            return str(api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"])
        except (NotPermitted, api_client.ApiNotFound):
            return ""

    return api.ctx.cache.get(("cluster_uid", api.ref.name, api.ref.server), _TTL_SECONDS, ask)


def pin(api: api_client.Api, namespace: str) -> dict[str, str]:
    """What an allocation must remember to find its pods again: its `spec`. Blocks."""
    return {
        "context": api.ref.name,
        "namespace": namespace,
        "cluster_uid": cluster_uid(api),
        "server": api.ref.server,
    }


@contextmanager
def connected(ctx: Context, allocation: Allocation) -> Iterator[api_client.Api]:
    """The API of the cluster that `allocation` is in. Blocks; raises `Unreachable` if it is now another."""
    spec = allocation.spec
    try:
        api = api_client.connect(ctx, spec["context"])
    except UsageError as error:
        raise Unreachable(
            f"cluster {allocation.cluster_name!r} is in Kubernetes context {spec['context']!r}, "
            "which the kubeconfig has no more",
            remedy="restore the context, or forget the cluster: sky down --purge",
        ) from error
    with api:
        _check(api, spec, allocation.cluster_name)
        yield api


def _check(api: api_client.Api, spec: Mapping[str, str], cluster_name: str) -> None:
    uid = cluster_uid(api)
    known = spec.get("cluster_uid", "")
    same = uid == known if uid and known else api.ref.server == spec.get("server", api.ref.server)
    if not same:
        raise Unreachable(
            f"context {api.ref.name!r} now leads to another Kubernetes cluster ({api.ref.server}) "
            f"than the one that {cluster_name!r} was made in ({spec.get('server')})",
            remedy="restore the context, or forget the cluster: sky down --purge",
        )
