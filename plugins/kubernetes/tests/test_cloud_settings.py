"""The section `kubernetes:`: its schema and what is made of it agree, and a context's own part wins."""

from __future__ import annotations

import dataclasses

import pytest
from kubernetes_fixtures import MakeContext

from sky.api import UsageError
from sky_kubernetes.about import DEFAULT_IMAGE, cloud_info, config_schema
from sky_kubernetes.kubeconfig import ContextRef, Kubeconfig
from sky_kubernetes.settings import allowed_contexts, settings

REF = ContextRef(name="lab", server="https://lab", namespace="own")
TWO = Kubeconfig(contexts={"lab": REF, "other": dataclasses.replace(REF, name="other")}, current="lab")

EVERYTHING = {
    "namespace": "ns",
    "image": "img",
    "image_pull_policy": "Never",
    "pod_config": {"spec": {"priorityClassName": "low"}},
    "provision_timeout": 99,
    "autoscaler": "gke",
    "custom_metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "remote_identity": "account",
    "pricing": {"cpu": 1, "memory": 2, "accelerators": {"h100": 3}},
}


def test_every_key_of_the_schema_has_its_effect(make_context: MakeContext) -> None:
    schema = config_schema()
    assert set(EVERYTHING) | {"allowed_contexts", "context_configs"} == set(schema["properties"])
    per_context = schema["properties"]["context_configs"]["additionalProperties"]
    assert set(EVERYTHING) == set(per_context["properties"])
    assert schema["additionalProperties"] is per_context["additionalProperties"] is False
    default = settings(make_context(), REF)
    assert (default.namespace, default.image) == ("own", DEFAULT_IMAGE)
    for key, value in EVERYTHING.items():
        assert settings(make_context({key: value}), REF) != default, key
        nested = make_context({"context_configs": {"lab": {key: value}, "other": {}}})
        assert settings(nested, REF) == settings(make_context({key: value}), REF)


def test_a_contexts_own_part_is_laid_over_the_section(make_context: MakeContext) -> None:
    config = {
        "namespace": "all",
        "pod_config": {"spec": {"priorityClassName": "low", "containers": [{"env": [{"name": "A"}]}]}},
        "context_configs": {"lab": {"pod_config": {"spec": {"priorityClassName": "high"}}}},
    }
    lab = settings(make_context(config), REF)
    assert lab.namespace == "all"
    assert lab.pod_config["spec"]["priorityClassName"] == "high"
    assert lab.pod_config["spec"]["containers"] == [{"env": [{"name": "A"}]}]


def test_how_long_a_pod_may_be_without_a_node(make_context: MakeContext) -> None:
    def timeout(**config: object) -> float | None:
        return settings(make_context(config), REF).provision_timeout_seconds

    assert timeout() == 10
    assert timeout(autoscaler="karpenter") == 600
    assert timeout(autoscaler="karpenter", provision_timeout=5) == 5
    assert timeout(provision_timeout=-1) is None


def test_which_contexts_are_allowed(make_context: MakeContext) -> None:
    assert allowed_contexts(make_context(), TWO) == ("lab",)
    assert allowed_contexts(make_context({"allowed_contexts": "all"}), TWO) == ("lab", "other")
    assert allowed_contexts(make_context({"allowed_contexts": ["other", "new"]}), TWO) == ("other", "new")
    assert allowed_contexts(make_context({"allowed_contexts": "other"}), TWO) == ("other",)


def test_a_price_below_zero_is_refused(make_context: MakeContext) -> None:
    with pytest.raises(UsageError, match="pricing"):
        settings(make_context({"pricing": {"accelerators": {"L4": -1}}}), REF)


@pytest.mark.parametrize("namespace", ["x y", "Team", "-a", "a/b", "a" * 64, 3])
def test_a_namespace_that_cannot_be_is_refused_by_its_key(
    make_context: MakeContext, namespace: object
) -> None:
    with pytest.raises(UsageError, match=r"^kubernetes\.namespace: "):
        settings(make_context({"namespace": namespace}), REF)
    nested = {"context_configs": {"lab": {"namespace": namespace}}}
    with pytest.raises(UsageError, match=r"^kubernetes\.context_configs\.lab\.namespace: "):
        settings(make_context(nested), REF)
    assert settings(make_context({"namespace": "ml-2"}), REF).namespace == "ml-2"


def test_a_namespace_of_the_kubeconfig_that_cannot_be_is_refused_unless_another_is_used(
    make_context: MakeContext,
) -> None:
    bad = dataclasses.replace(REF, namespace="x y")
    with pytest.raises(UsageError, match="the kubeconfig's context 'lab': 'x y'"):
        settings(make_context(), bad)
    assert settings(make_context({"namespace": "ns"}), bad).namespace == "ns"


@pytest.mark.parametrize(
    ("pod_config", "told"),
    [
        ([1], "kubernetes.pod_config: expected a mapping, not [1]"),
        ({"spec": [1]}, "kubernetes.pod_config.spec: expected a mapping, not [1]"),
        ({"spec": {"containers": 3}}, "kubernetes.pod_config.spec.containers: expected a list, not 3"),
        ({"spec": {"containers": [None]}}, "pod_config.spec.containers[0]: expected a mapping, not None"),
        ({"spec": {"tolerations": "x"}}, "pod_config.spec.tolerations: expected a list, not 'x'"),
        ({"spec": {"tolerations": ["x"]}}, "pod_config.spec.tolerations[0]: expected a mapping, not 'x'"),
        ({"spec": {"nodeSelector": {"a": 3}}}, "pod_config.spec.nodeSelector.a: expected a string, not 3"),
        ({"metadata": 1}, "kubernetes.pod_config.metadata: expected a mapping, not 1"),
        ({"metadata": {"labels": ["a"]}}, "pod_config.metadata.labels: expected a mapping, not ['a']"),
        ({"metadata": {"labels": {"a": 3}}}, "pod_config.metadata.labels.a: expected a string, not 3"),
        ({"metadata": {"labels": {1: "a"}}}, "pod_config.metadata.labels: keys must be strings, not 1"),
        (
            {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}},
            "kubernetes.pod_config.spec.containers[0].env[0].value: expected a string, not 1",
        ),
        (
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}},
            "containers[0].resources.requests.cpu: expected an amount such as 2, 500m or 4Gi, not 'lots'",
        ),
        ({"spec": {"affinity": {"nodeAffinity": []}}}, "affinity.nodeAffinity: expected a mapping, not []"),
    ],
)
def test_a_pod_config_of_another_shape_is_refused_by_the_place(
    make_context: MakeContext, pod_config: object, told: str
) -> None:
    with pytest.raises(UsageError) as raised:
        settings(make_context({"pod_config": pod_config}), REF)
    assert told in raised.value.message
    nested = {
        "pod_config": {"spec": {"containers": []}},
        "context_configs": {"lab": {"pod_config": pod_config}},
    }
    with pytest.raises(UsageError, match=r"^kubernetes\.context_configs\.lab\.pod_config"):
        settings(make_context(nested), REF)


def test_a_pod_config_of_a_pods_shape_is_taken_whatever_else_it_says(make_context: MakeContext) -> None:
    main = {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "resources": {"requests": {"cpu": 2, "memory": "4Gi"}, "limits": None},
        "volumeMounts": None,
    }
    spec = {"containers": [main], "newField": [1, {"x": 2}], "nodeSelector": {"a": None}, "tolerations": None}
    config = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    assert settings(make_context({"pod_config": config}), REF).pod_config == config
    assert settings(make_context({"pod_config": None}), REF).pod_config == {}


@pytest.mark.parametrize(
    "image", ["UPPER CASE!!", ":", "UPPER/Case", "a:b:c", "a//b", "https://a/b", "a:", 3]
)
def test_what_names_no_image_is_refused(make_context: MakeContext, image: object) -> None:
    with pytest.raises(UsageError, match=r"^kubernetes\.image: "):
        settings(make_context({"image": image}), REF)


@pytest.mark.parametrize(
    "image",
    [
        "alpine",
        DEFAULT_IMAGE,
        "localhost:5000/a/b_c__d--e.f:V1.2",
        "127.0.0.1:9/library/ubunu:22.04",
        "[::1]:80/a",
        "nvcr.io/nvidia/pytorch@sha256:" + "0a" * 32,
        "a:t@sha256:" + "0a" * 32,
    ],
)
def test_every_way_to_name_an_image_is_taken(make_context: MakeContext, image: str) -> None:
    assert settings(make_context({"image": image}), REF).image == image


def test_what_is_known_without_io() -> None:
    assert cloud_info() == cloud_info()
    assert cloud_info().levels == ("context",)
    assert "spot" not in cloud_info().capabilities
