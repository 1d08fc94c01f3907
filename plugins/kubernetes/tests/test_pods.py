"""The manifest: what we need stays whatever the configuration says, and all else can be said by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sky.api import Accelerator, LaunchSpec, Offer, Request, UsageError
from sky_kubernetes import labels, pods
from sky_kubernetes.merge import merged
from sky_kubernetes.settings import Settings

OFFER_SPEC = {"context": "c", "namespace": "ns", "cpus": "0.5", "memory_gib": "1.5"}


def make(request: Request | None = None, offer_spec: dict[str, str] | None = None, **changes: Any) -> Any:
    accelerator = Accelerator("L4", 2) if offer_spec else None
    offer = Offer(
        cloud="kubernetes",
        region="c",
        vcpus=0.5,
        memory_gib=1.5,
        accelerator=accelerator,
        spec={**OFFER_SPEC, **(offer_spec or {})},
    )
    spec = LaunchSpec(
        cluster_id="train-x1",
        cluster_name="Train " + "é" * 80,
        user="A.B_c",
        num_nodes=2,
        offer=offer,
        request=request or Request(),
        tags={"owner": "A.B_c", "name": "Train " + "é" * 80},
    )
    return pods.manifest(spec, 1, Settings(**{"context": "c", "server": "s", "namespace": "ns", **changes}))


def test_names_that_are_no_labels_are_kept_unchanged_beside_labels_that_are() -> None:
    metadata = make()["metadata"]
    assert metadata["name"] == "train-x1-1"
    assert all(labels.valid(key, value) for key, value in metadata["labels"].items())
    assert json.loads(metadata["annotations"][labels.TAGS])["name"] == "Train " + "é" * 80
    assert json.loads(metadata["annotations"][labels.ALLOCATION])["user"] == "A.B_c"


def test_requests_and_limits() -> None:
    (container,) = make()["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "1536Mi"},
        "limits": {"memory": "1536Mi"},
    }
    (container,) = make(offer_spec={"disk_gb": "50"})["spec"]["containers"]
    assert container["resources"]["limits"]["ephemeral-storage"] == "50G"


def test_devices_are_asked_for_by_resource_label_and_toleration() -> None:
    spec = make(
        offer_spec={
            "accelerator_resource": "nvidia.com/gpu",
            "accelerator_count": "2",
            "accelerator_labels": '{"nvidia.com/gpu.product": ["NVIDIA-L4"], "gke": ["nvidia-l4"]}',
        },
        pod_config={"spec": {"tolerations": [{"key": "team", "operator": "Exists"}]}},
    )["spec"]
    resources = spec["containers"][0]["resources"]
    assert resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"] == "2"
    assert [t["key"] for t in spec["tolerations"]] == ["nvidia.com/gpu", "team"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert len(terms["nodeSelectorTerms"]) == 2, "either label will do"


def test_an_affinity_of_pod_config_holds_beside_the_kind_of_device() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zones = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [z]}]} for z in "ab"]
    spec = make(
        offer_spec={
            "accelerator_resource": "nvidia.com/gpu",
            "accelerator_count": "2",
            "accelerator_labels": '{"gke": ["nvidia-l4"]}',
        },
        pod_config={"spec": {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": zones}}}}},
    )["spec"]
    terms = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert [[e["key"] for e in term["matchExpressions"]] for term in terms] == [["zone", "gke"]] * 2


@pytest.mark.parametrize(
    ("image_id", "image"),
    [
        ("docker:nvcr.io/nvidia/pytorch:24.01", "nvcr.io/nvidia/pytorch:24.01"),
        ("alpine", "alpine"),
        (None, "base"),
    ],
)
def test_the_image_is_the_tasks_else_the_configured_one(image_id: str | None, image: str) -> None:
    assert make(Request(image_id=image_id), image="base")["spec"]["containers"][0]["image"] == image


def test_an_image_id_that_names_no_image_is_refused_before_a_pod_is_made() -> None:
    with pytest.raises(UsageError, match="image_id: ':'"):
        make(Request(image_id="docker::"))


def test_pod_config_reaches_everything_but_what_we_find_pods_by() -> None:
    config = {
        "metadata": {"labels": {"team": "ml", labels.CLUSTER: "stolen"}, "annotations": {labels.TAGS: "{}"}},
        "spec": {
            "restartPolicy": "Always",
            "priorityClassName": "low",
            "securityContext": {"runAsUser": 1000},
            "containers": [
                {"env": [{"name": "A", "value": "1"}], "volumeMounts": [{"mountPath": "/data", "name": "d"}]},
                {"name": "proxy", "image": "envoy"},
            ],
            "volumes": [{"name": "d", "emptyDir": {}}],
        },
    }
    pod = make(pod_config=config)
    assert pod["metadata"]["labels"]["team"] == "ml"
    assert pod["metadata"]["labels"][labels.CLUSTER] == "train-x1"
    assert json.loads(pod["metadata"]["annotations"][labels.TAGS])["owner"] == "A.B_c"
    spec = pod["spec"]
    assert (spec["restartPolicy"], spec["priorityClassName"]) == ("Never", "low")
    assert [c["name"] for c in spec["containers"]] == ["sky", "proxy"]
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert [m["mountPath"] for m in spec["containers"][0]["volumeMounts"]] == [pods.WORK_DIR, "/data"]


def test_a_service_account_is_mounted_only_when_one_is_named() -> None:
    assert make()["spec"]["automountServiceAccountToken"] is False
    spec = make(service_account="trainer")["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("trainer", True)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": None},
        {"containers": ["sky"]},
        {"containers": [{"volumeMounts": None}]},
        {"volumes": [{"emptyDir": {}}]},
    ],
)
def test_a_pod_config_that_cannot_be_merged_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="pod_config"):
        make(pod_config={"spec": spec})


def test_merging_replaces_plain_lists_and_drops_what_is_null() -> None:
    base = {"a": {"x": 1, "y": 2}, "command": ["sh"], "env": [{"name": "A", "value": "1"}]}
    over = {"a": {"x": None}, "command": ["bash"], "env": [{"name": "A", "value": "2"}, {"name": "B"}]}
    assert merged(base, over) == {
        "a": {"y": 2},
        "command": ["bash"],
        "env": [{"name": "A", "value": "2"}, {"name": "B"}],
    }
    assert base["env"] == [{"name": "A", "value": "1"}], "what was given isn't changed"
