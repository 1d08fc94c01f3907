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


def test_what_is_known_without_io() -> None:
    assert cloud_info() == cloud_info()
    assert cloud_info().levels == ("context",)
    assert "spot" not in cloud_info().capabilities
