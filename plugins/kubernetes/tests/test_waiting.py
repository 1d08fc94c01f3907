"""What waiting says of the events it hears: each reason once a pod, the newest kept for the last words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes_fixtures import MakeContext
from kubernetes_stub import Seen, StubServer

from sky.api import Allocation, Event, TimedOut
from sky_kubernetes import cloud, labels

PODS = "/api/v1/namespaces/ns/pods"
EVENTS = "/api/v1/namespaces/ns/events"
POD: dict[str, Any] = {
    "metadata": {"name": "c-0", "uid": "u1", "labels": {labels.RANK: "0"}},
    "spec": {"nodeName": "n", "containers": [{"name": "sky"}]},
    "status": {"phase": "Pending"},
}
SPEC = {"context": "stub", "namespace": "ns", "cluster_uid": ""}


def _event(number: int, reason: str, message: str) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "c-0", "uid": "u1"}
    metadata = {"uid": f"e{number}", "resourceVersion": str(number)}
    return {"metadata": metadata, "involvedObject": about, "reason": reason, "message": message}


def _listed(items: list[dict[str, Any]]) -> Callable[[Seen], tuple[int, Any]]:
    """A list that has these items, and of which a watch tells nothing new."""
    nothing = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    listing = {"metadata": {"resourceVersion": "9"}, "items": items}
    return lambda seen: (200, nothing if seen.query.get("watch") else listing)


def test_an_events_reason_is_said_once_and_its_newest_words_are_kept(
    stub: StubServer, make_context: MakeContext
) -> None:
    heard = [
        _event(1, "MissingClusterDNS", "first"),
        _event(2, "MissingClusterDNS", "other words"),
        _event(3, "FailedMount", "no such map"),
        _event(4, "FailedMount", "still no such map"),
    ]
    stub.answers["GET", PODS] = _listed([POD])
    stub.answers["GET", EVENTS] = _listed(heard)
    told: list[Event] = []
    ctx = make_context(seconds=2.5, events=told)
    with pytest.raises(TimedOut, match="starting its containers, FailedMount: still no such map"):
        cloud.wait_instances(
            ctx, Allocation(id="c", cloud="kubernetes", cluster_name="c", tags={}, num_nodes=1, spec=SPEC)
        )
    assert [event.data["reason"] for event in told] == [
        "starting its containers",
        "MissingClusterDNS: first",
        "FailedMount: no such map",
    ]
