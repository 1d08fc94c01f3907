"""A pod says RUNNING long after its node is gone: what the node says is believed, where it may be asked."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_fixtures import MakeContext
from kubernetes_stub import StubServer

from sky.api import Allocation, InstanceState
from sky_kubernetes import cloud

RUNNING = {
    "metadata": {"name": "c-0", "namespace": "default", "uid": "u", "labels": {"sky.dev/rank": "0"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "sky"}]},
    "status": {
        "phase": "Running",
        "containerStatuses": [{"name": "sky", "state": {"running": {}}}],
        "conditions": [{"type": "Ready", "status": "False"}],
    },
}
FORBIDDEN = (403, {"kind": "Status", "message": "nodes is forbidden", "reason": "Forbidden"})


def node(ready: str) -> tuple[int, Any]:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "NodeStatusUnknown",
        "lastTransitionTime": "noon",
    }
    return 200, {"metadata": {"name": "n1"}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("answer", "state", "reason"),
    [
        (node("Unknown"), InstanceState.PENDING, "its node n1 is lost: NodeStatusUnknown since noon"),
        ((404, {"message": "no n1"}), InstanceState.PENDING, "its node n1 is gone"),
        (node("True"), InstanceState.RUNNING, ""),
        (FORBIDDEN, InstanceState.RUNNING, ""),
    ],
)
def test_a_pod_that_is_not_ready_is_as_alive_as_its_node(
    stub: StubServer,
    make_context: MakeContext,
    answer: tuple[int, Any],
    state: InstanceState,
    reason: str,
) -> None:
    stub.answers["GET", "/api/v1/namespaces/kube-system"] = FORBIDDEN
    stub.answers["GET", "/api/v1/namespaces/default/pods"] = (200, {"metadata": {}, "items": [RUNNING]})
    stub.answers["GET", "/api/v1/nodes/n1"] = answer
    allocation = Allocation(
        id="c",
        cloud="kubernetes",
        cluster_name="c",
        tags={},
        num_nodes=1,
        spec={"context": "stub", "namespace": "default", "cluster_uid": "", "server": stub.url},
    )
    (status,) = cloud.query_instances(make_context(), allocation)
    assert (status.state, status.reason) == (state, reason)
