"""One pod object, one verdict: the state of the node and the reason in Kubernetes' own words."""

from __future__ import annotations

from typing import Any

import pytest

from sky.api import InstanceState
from sky_kubernetes.status import judge, ready


def pod(phase: str = "Pending", main: Any = None, init: Any = None, **status: Any) -> dict[str, Any]:
    if init is not None:
        status["initContainerStatuses"] = [{"name": "prepare", "state": init}]
    if main is not None:
        status["containerStatuses"] = [
            {"name": "side", "state": {"running": {}}},
            {"name": "sky", "state": main},
        ]
    return {
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "sky", "image": "ubunu:22.04"}],
            "initContainers": [{"name": "prepare", "image": "busybox"}],
        },
        "status": {"phase": phase, **status},
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


RUNNING, PENDING = InstanceState.RUNNING, InstanceState.PENDING
FAILED, ENDED = InstanceState.FAILED, InstanceState.ENDED
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available:\n3 Insufficient cpu.",
}
NO_SECRET = 'secret "s" not found'
NO_SHELL = 'exec: "/bin/sh": no such file'
NO_DISK = "The node was low on resource: ephemeral-storage."


@pytest.mark.parametrize(
    ("seen", "state", "cause", "words"),
    [
        (pod("Running", {"running": {}}), RUNNING, "", ""),
        (pod("Pending", {"running": {}}), RUNNING, "", ""),
        (pod(main=waiting("ContainerCreating")), PENDING, "", "starting"),
        (pod(), PENDING, "", "starting"),
        (pod(conditions=[UNSCHEDULABLE]), PENDING, "unschedulable", "available: 3 Insufficient cpu"),
        (
            pod(main=waiting("ErrImagePull", "gone")),
            FAILED,
            "image",
            "ErrImagePull: image 'ubunu:22.04': gone",
        ),
        (pod(main=waiting("ImagePullBackOff", "Back-off pulling")), FAILED, "image", "ubunu:22.04"),
        (pod(main=waiting("ErrImagePull", "tcp: i/o timeout")), PENDING, "image", "i/o timeout"),
        (pod(main=waiting("InvalidImageName", "no parse")), FAILED, "image", "InvalidImageName"),
        (pod(main=waiting("CreateContainerConfigError", NO_SECRET)), PENDING, "config", NO_SECRET),
        (pod("Failed", ended(137, "OOMKilled")), FAILED, "dead", "OOMKilled"),
        (pod("Failed", ended(128, "StartError", NO_SHELL)), FAILED, "dead", "/bin/sh"),
        (pod("Running", ended(1)), FAILED, "dead", "code 1"),
        (pod("Succeeded", ended(0, "Completed")), ENDED, "dead", "by itself"),
        (pod("Running", ended(0, "Completed")), ENDED, "dead", "by itself"),
        (pod("Succeeded", ended(0, "OOMKilled")), ENDED, "dead", "OOMKilled"),
        (pod("Failed", reason="Evicted", message=NO_DISK), FAILED, "dead", f"Evicted: {NO_DISK}"),
        (pod("Failed", reason="DeadlineExceeded"), FAILED, "dead", "DeadlineExceeded"),
        (pod("Failed", init=ended(3)), FAILED, "dead", "container 'prepare' ended with code 3"),
        (pod(init=waiting("ErrImagePull", "denied")), FAILED, "image", "busybox"),
    ],
)
def test_verdicts(seen: dict[str, Any], state: InstanceState, cause: str, words: str) -> None:
    verdict = judge(seen)
    assert (verdict.state, verdict.cause) == (state, cause), verdict
    assert words in verdict.reason
    assert "\n" not in verdict.reason


def test_a_pod_on_its_way_out_has_ended() -> None:
    leaving = pod("Running", {"running": {}})
    leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert judge(leaving).state is InstanceState.ENDED


def test_only_what_cannot_pass_by_itself_is_hopeless() -> None:
    assert judge(pod(main=waiting("ErrImagePull", "pull access denied"))).hopeless
    assert not judge(pod(main=waiting("ErrImagePull", "503 Service Unavailable"))).hopeless
    assert not judge(pod(main=waiting("CreateContainerConfigError"))).hopeless


def test_a_node_is_ready_by_its_condition_alone() -> None:
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "t"}
    assert ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})[0]
    assert ready({"status": {"conditions": [lost]}}) == (False, "NodeStatusUnknown since t")
    assert ready({"status": {}}) == (False, "it never reported")
