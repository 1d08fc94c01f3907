"""Offers and rejections from hand-made nodes and pods: offers can be had, refusals say what could."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sky.api import Accelerator, Feasibility, Quantity, Request
from sky_kubernetes.feasibility import answer, refuse
from sky_kubernetes.settings import Pricing, Settings


def settings(**changes: Any) -> Settings:
    return Settings(**{"context": "prod", "server": "https://prod:6443", **changes})


def node(name: str, cpu: str = "8", memory: str = "32Gi", gpus: int = 0, label: str = "") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100G"}
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": label} if label else {}},
        "spec": {},
        "status": {
            "capacity": {**amounts, "cpu": "64"},
            "allocatable": {**amounts, **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(where: str, **requests: str) -> dict[str, Any]:
    container = {"resources": {"requests": requests}}
    return {"spec": {"nodeName": where, "containers": [container]}, "status": {"phase": "Running"}}


def ask(request: Request, nodes: Any, pods: Any = (), **changes: Any) -> Feasibility:
    return answer(settings(**changes), request, nodes, pods)


def gpus(name: str, count: float = 1) -> Request:
    return Request(accelerator=Accelerator(name, count))


# --- what is free ------------------------------------------------------------------------------------


def test_a_request_equal_to_the_nodes_cpus_is_refused_with_what_would_fit() -> None:
    big = node("n1", cpu="7910m")
    big["status"]["capacity"]["cpu"] = "8"
    daemons = [pod("n1", cpu="200m"), pod("n1", cpu="100m")]
    refused = ask(Request(cpus=Quantity(8)), [big], daemons)
    assert not refused.offers
    (rejection,) = refused.rejections
    assert (rejection.subject, rejection.rule) == ("prod/n1", "cpus")
    assert rejection.near_misses == ("cpus: 7",)
    assert "7.61 of 7.91" in rejection.reason
    (offer,) = ask(Request(cpus=Quantity(7)), [big], daemons).offers
    assert (offer.region, offer.vcpus, offer.zone) == ("prod", 7, None)


def test_nodes_that_take_no_pods_do_not_count_and_are_named() -> None:
    cordoned, lost, tainted = node("a"), node("b"), node("c")
    cordoned["spec"]["unschedulable"] = True
    lost["status"]["conditions"][0]["status"] = "Unknown"
    tainted["spec"]["taints"] = [{"key": "team", "value": "x", "effect": "NoExecute"}]
    nodes = [cordoned, lost, tainted, node("d", cpu="1")]
    refused = ask(Request(cpus=Quantity(4, "at_least")), nodes)
    assert not refused.offers
    assert {(r.subject, r.rule) for r in refused.rejections} == {
        ("prod/a", "cordoned"),
        ("prod/b", "not_ready"),
        ("prod/c", "taint"),
        ("prod/d", "cpus"),
    }
    tolerating = {"spec": {"tolerations": [{"key": "team", "operator": "Exists"}]}}
    accepted = ask(Request(cpus=Quantity(4)), nodes, pod_config=tolerating)
    assert len(accepted.offers) == 1
    assert {r.rule for r in accepted.rejections} == {"cordoned", "not_ready"}


def test_sidecars_and_the_node_selector_of_pod_config_are_counted() -> None:
    sidecar = {"name": "proxy", "image": "p", "resources": {"requests": {"cpu": "1"}}}
    config = {"spec": {"containers": [sidecar]}}
    (rejection,) = ask(Request(cpus=Quantity(8)), [node("n1")], pod_config=config).rejections
    assert rejection.near_misses == ("cpus: 7",)
    elsewhere = ask(Request(), [node("n1")], pod_config={"spec": {"nodeSelector": {"disk": "ssd"}}})
    assert [r.rule for r in elsewhere.rejections] == ["node_selector"]


def test_all_that_is_short_is_told_at_once() -> None:
    request = Request(cpus=Quantity(16), memory=Quantity(64), disk_size_gb=500)
    (rejection,) = ask(request, [node("n1")]).rejections
    assert rejection.near_misses == ("cpus: 8", "memory: 32", "disk_size: 100")


def test_several_nodes_need_room_together() -> None:
    nodes = [node("a"), node("b")]
    assert ask(Request(num_nodes=4, cpus=Quantity(4), memory=Quantity(1)), nodes).offers
    (rejection,) = ask(Request(num_nodes=3, cpus=Quantity(8), memory=Quantity(1)), nodes).rejections
    assert (rejection.rule, rejection.near_misses) == ("num_nodes", ("num_nodes: 2",))


def test_many_alike_nodes_are_told_in_a_few_lines() -> None:
    refused = ask(Request(cpus=Quantity(16)), [node(f"n{i}") for i in range(500)])
    assert len(refused.rejections) == 4
    assert "497 more nodes" in refused.rejections[-1].subject


# --- sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "instance_type"),
    [
        (Request(), "2CPU--4GB"),
        (Request(cpus=Quantity(4, "at_least")), "4CPU--8GB"),
        (Request(memory=Quantity(3)), "2CPU--3GB"),
        (Request(cpus=Quantity(2), memory=Quantity(4, "per_cpu")), "2CPU--8GB"),
        (Request(instance_type="1.5CPU--3GB"), "1.5CPU--3GB"),
        (gpus("h100"), "4CPU--16GB--H100:1"),
        (gpus("H100", 2), "8CPU--32GB--H100:2"),
        (gpus("H100", 4), "8CPU--32GB--H100:4"),
        (Request(instance_type="1CPU--2GB--h100:1"), "1CPU--2GB--H100:1"),
    ],
)
def test_sizes_are_as_asked_and_defaults_shrink_until_they_fit(request_: Request, instance_type: str) -> None:
    (offer,) = ask(request_, [node("n1", gpus=8, label="NVIDIA-H100-80GB-HBM3")]).offers
    assert offer.instance_type == instance_type


@pytest.mark.parametrize(
    "request_",
    [
        Request(instance_type="m5.large"),
        Request(instance_type="2CPU--4GB", cpus=Quantity(4, "at_least")),
        Request(instance_type="2CPU--4GB", accelerator=Accelerator("H100")),
    ],
)
def test_a_pod_size_that_is_none_or_contradicts_is_refused(request_: Request) -> None:
    (rejection,) = ask(request_, [node("n1")]).rejections
    assert rejection.rule == "instance_type"


# --- accelerators ------------------------------------------------------------------------------------


def test_accelerators_are_found_by_any_spelling_and_pinned_by_label() -> None:
    nodes = [
        node("a", gpus=8, label="NVIDIA-A100-SXM4-80GB"),
        node("b", gpus=8, label="NVIDIA-A100-PCIe-80GB"),
        node("c", gpus=8, label="NVIDIA-H100-80GB-HBM3"),
    ]
    (offer,) = ask(gpus("a100-80gb", 8), nodes).offers
    assert offer.accelerator == Accelerator("A100-80GB", 8)
    assert offer.spec["accelerator_resource"] == "nvidia.com/gpu"
    assert json.loads(offer.spec["accelerator_labels"]) == {
        "nvidia.com/gpu.product": ["NVIDIA-A100-PCIe-80GB", "NVIDIA-A100-SXM4-80GB"]
    }


def test_the_wrong_kind_or_count_is_refused_with_what_there_is() -> None:
    nodes = [node("a", gpus=8, label="NVIDIA-A100-SXM4-80GB"), node("b")]
    refused = ask(gpus("A100", 8), nodes)
    assert {r.rule for r in refused.rejections} == {"accelerator"}
    assert refused.rejections[0].near_misses == ("A100-80GB:8",)
    busy = [pod("a", **{"nvidia.com/gpu": "5"})]
    (rejection, _) = ask(gpus("A100-80GB", 4), nodes, busy).rejections
    assert (rejection.rule, rejection.near_misses) == ("accelerator", ("A100-80GB:3",))


def test_a_fraction_of_a_device_is_refused_with_a_whole_one() -> None:
    (rejection,) = ask(gpus("L4", 0.5), [node("a", gpus=1, label="NVIDIA-L4")]).rejections
    assert rejection.near_misses == ("L4:1",)


def test_devices_without_a_label_are_said_to_lack_one() -> None:
    (rejection,) = ask(gpus("H100"), [node("a", gpus=8)]).rejections
    assert rejection.rule == "accelerator_label"
    assert rejection.near_misses == ("kubectl label node a skypilot.co/accelerator=h100",)


def test_the_taint_that_guards_devices_is_tolerated_by_who_asks_for_them() -> None:
    guarded = node("a", gpus=8, label="NVIDIA-L4")
    guarded["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert ask(gpus("L4"), [guarded]).offers
    assert [r.rule for r in ask(Request(), [guarded]).rejections] == ["taint"]


# --- what can't be seen, prices, capabilities --------------------------------------------------------


def test_without_permission_to_list_nodes_there_is_an_offer_that_says_so() -> None:
    (offer,) = ask(gpus("H100", 8), None, None).offers
    assert "unknown" in offer.note
    assert json.loads(offer.spec["accelerator_labels"])["nvidia.com/gpu.product"] == [
        "NVIDIA-H100-80GB-HBM3",
        "NVIDIA-H100-PCIe",
    ]
    (offer,) = ask(Request(), [node("n1")], None).offers
    assert "other pods" in offer.note


def test_an_autoscaler_makes_an_offer_of_what_no_node_has_room_for() -> None:
    seen = ask(Request(cpus=Quantity(16)), [node("n1")], autoscaler="gke")
    assert "gke" in seen.offers[0].note
    assert [r.rule for r in seen.rejections] == ["cpus"]


def test_prices_come_from_the_configuration_and_the_limit_is_for_all_nodes() -> None:
    pricing = Pricing(cpu=0.05, memory=0.01, accelerators={"L4": 0.5})
    nodes = [node("a", gpus=8, label="NVIDIA-L4")]
    request = Request(cpus=Quantity(2), memory=Quantity(10), accelerator=Accelerator("L4", 2))
    (offer,) = ask(request, nodes, pricing=pricing).offers
    assert offer.price_usd_per_hour == pytest.approx(1.2)
    twice = Request(
        num_nodes=2,
        cpus=Quantity(2),
        memory=Quantity(10),
        accelerator=Accelerator("L4", 2),
        max_price_usd_per_hour=2.0,
    )
    refused = ask(twice, nodes, pricing=pricing)
    assert not refused.offers
    assert refused.rejections[0].rule == "price"


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        (Request(use_spot=True), "capability"),
        (Request(zone="a"), "capability"),
        (Request(disk_tier="best"), "capability"),
        (Request(ports=("80",)), "capability"),
        (Request(labels={"team": "a b"}), "labels"),
        (Request(image_id="docker:UPPER CASE!!"), "usage"),
    ],
)
def test_what_kubernetes_lacks_is_refused_by_name(request_: Request, rule: str) -> None:
    assert [r.rule for r in refuse(request_)] == [rule]
    assert refuse(Request(labels={"team": "ml"}, image_id="docker:alpine:3")) == []


def test_a_cluster_without_nodes_says_so() -> None:
    assert [r.rule for r in ask(Request(), []).rejections] == ["nodes"]
