"""What is free on a node, against the rules by which the scheduler counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sky_kubernetes import capacity, quantities


def node(name: str = "n1", *, taints: Any = (), ready: str = "True", **allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"disk": "ssd"}},
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable},
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet stopped posting"}],
        },
    }


def pod(where: str | None, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    return {"spec": {"nodeName": where, **spec}, "status": {"phase": phase}}


def needs(cpu: str, **more: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, **more}}}


@pytest.mark.parametrize(
    ("text", "amount"),
    [("7910m", 7910), ("7.91", 7910), ("8", 8000), ("0", 0), ("1e3", 10**6), ("100n", 1), ("2k", 2 * 10**6)],
)
def test_cpu_is_read_in_millicores_rounded_up(text: str, amount: int) -> None:
    assert quantities.units("cpu", text) == amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [("16Gi", 16 << 30), ("16G", 16 * 10**9), ("123Mi", 123 << 20), ("1E", 10**18), ("1E2", 100), ("5", 5)],
)
def test_memory_is_read_in_bytes(text: str, amount: int) -> None:
    assert quantities.units("memory", text) == amount


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "1GiB", "--1", "1ee3"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantities.parse(text)


@given(st.integers(1, 10**6))
def test_what_we_write_is_read_back_unchanged(millis: int) -> None:
    assert quantities.units("cpu", quantities.cpu(millis / 1000)) == millis
    assert quantities.units("memory", quantities.memory(millis / 1024)) == millis << 20


def test_init_containers_count_by_their_largest_and_overhead_is_added() -> None:
    spec = {
        "initContainers": [needs("3"), needs("1")],
        "containers": [needs("1"), needs("500m")],
        "overhead": {"cpu": "250m"},
    }
    assert capacity.pod_requests(spec)["cpu"] == 3250
    spec["initContainers"] = [needs("1")]
    assert capacity.pod_requests(spec)["cpu"] == 1750


def test_an_init_container_that_stays_counts_with_all_that_follows() -> None:
    sidecar = {**needs("1"), "restartPolicy": "Always"}
    spec = {"initContainers": [sidecar, needs("2")], "containers": [needs("1500m")]}
    assert capacity.pod_requests(spec)["cpu"] == 3000
    spec = {"initContainers": [needs("2"), sidecar], "containers": [needs("1500m")]}
    assert capacity.pod_requests(spec)["cpu"] == 2500


def test_a_limit_without_a_request_is_a_request_and_the_pods_own_wins() -> None:
    spec: dict[str, Any] = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2, "cpu": "1"}}}]}
    assert capacity.pod_requests(spec) == {"nvidia.com/gpu": 2, "cpu": 1000}
    spec["resources"] = {"requests": {"cpu": "3"}}
    assert capacity.pod_requests(spec) == {"nvidia.com/gpu": 2, "cpu": 3000}


def test_only_pods_that_hold_something_on_the_node_are_subtracted() -> None:
    pods = [
        pod("n1", containers=[needs("1", memory="1Gi")]),
        pod("n1", phase="Pending", containers=[needs("500m")]),
        pod("n1", phase="Succeeded", containers=[needs("2")]),
        pod("n1", phase="Failed", containers=[needs("2")]),
        pod("n2", containers=[needs("2")]),
        pod(None, phase="Pending", containers=[needs("2")]),
    ]
    (seen,) = capacity.nodes([node()], pods, {})
    assert (seen.free["cpu"], seen.free["memory"], seen.free["pods"]) == (2500, 7 << 30, 108)
    assert seen.total["cpu"] == 4000


def test_a_node_used_beyond_its_size_has_nothing_free() -> None:
    (seen,) = capacity.nodes([node()], [pod("n1", containers=[needs("9")])], {})
    assert seen.free["cpu"] == 0
    assert capacity.room(seen.free, {"cpu": 1}) == 0


GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "lets_in"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "value": "other"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations_match_taints_as_the_scheduler_matches_them(
    toleration: dict[str, str], lets_in: bool
) -> None:
    (seen,) = capacity.nodes([node(taints=[GPU_TAINT])], [], {"tolerations": [toleration]})
    assert (seen.blocked is None) is lets_in


def test_what_keeps_every_pod_away_is_named() -> None:
    cordoned = node("a")
    cordoned["spec"]["unschedulable"] = True
    soft = node("d", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    seen = capacity.nodes([cordoned, node("b", ready="Unknown"), node("c", taints=[GPU_TAINT]), soft], [], {})
    assert [n.blocked.rule if n.blocked else None for n in seen] == ["cordoned", "not_ready", "taint", None]
    assert seen[2].blocked is not None
    assert "nvidia.com/gpu=present:NoSchedule" in seen[2].blocked.reason
    (elsewhere,) = capacity.nodes([node()], [], {"nodeSelector": {"disk": "hdd"}})
    assert elsewhere.blocked is not None
    assert elsewhere.blocked.rule == "node_selector"
