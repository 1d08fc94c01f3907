"""What is known of SSH without any I/O: its capabilities and the shape of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sky.api import CloudInfo

CLOUD = "ssh"


def cloud_info() -> CloudInfo:
    """The same answer every time."""
    return CloudInfo(title="SSH", levels=("pool",), capabilities=frozenset({"multi_node"}))


def config_schema() -> Mapping[str, Any]:
    """Schema of the section `ssh:`, for the cloud and the runner."""
    return {
        "type": "object",
        "properties": {
            "pools_file": {
                "type": "string",
                "description": "Where pools are written; default ~/.sky/ssh_node_pools.yaml.",
            },
            "config_file": {
                "type": "string",
                "description": "The ssh config to use instead of ~/.ssh/config.",
            },
            "control_persist": {
                "type": "number",
                "minimum": 0,
                "description": "Seconds that an idle connection is kept for the next command; default 600.",
            },
        },
        "additionalProperties": False,
    }
