"""What is known of Kubernetes without any I/O: its capabilities and the shape of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sky.api import CloudInfo

DEFAULT_IMAGE = "docker.io/library/python:3.11-slim"

_METADATA = {
    "type": "object",
    "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}

_PER_CONTEXT: Mapping[str, Any] = {
    "namespace": {"type": "string", "description": "Where pods are made; default: the context's own."},
    "image": {"type": "string", "description": f"When a task names none; default {DEFAULT_IMAGE}."},
    "image_pull_policy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "pod_config": {"type": "object", "description": "Merged over the pod that Sky makes."},
    "provision_timeout": {
        "type": "number",
        "description": "Seconds a pod may be without a node; default 10, with `autoscaler` 600; -1: any.",
    },
    "autoscaler": {
        "enum": ["gke", "karpenter", "coreweave", "generic"],
        "description": "New nodes come when pods wait: offer what no present node has room for.",
    },
    "custom_metadata": {**_METADATA, "description": "Labels and annotations put on every pod."},
    "remote_identity": {"type": "string", "description": "Service account of the pods; default: no token."},
    "pricing": {
        "type": "object",
        "description": "US dollars an hour; default: free.",
        "properties": {
            "cpu": {"type": "number", "minimum": 0, "description": "One vCPU."},
            "memory": {"type": "number", "minimum": 0, "description": "One GiB."},
            "accelerators": {
                "type": "object",
                "additionalProperties": {"type": "number", "minimum": 0},
                "description": "One device, by name.",
            },
        },
        "additionalProperties": False,
    },
}


def cloud_info() -> CloudInfo:
    """The same answer every time."""
    return CloudInfo(
        title="Kubernetes",
        levels=("context",),
        capabilities=frozenset({"multi_node", "image", "autostop", "disk"}),
    )


def config_schema() -> Mapping[str, Any]:
    """Schema of the section `kubernetes:`; `context_configs` overrides the rest for one context."""
    return {
        "type": "object",
        "properties": {
            "allowed_contexts": {
                "type": ["array", "string"],
                "items": {"type": "string"},
                "description": "Contexts that may be used, or `all`; default: the current one.",
            },
            **_PER_CONTEXT,
            "context_configs": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": dict(_PER_CONTEXT),
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    }
