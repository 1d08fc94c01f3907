"""SSH keeps the contract of clouds, on real hosts."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud_fixtures import THREE

from sky.api import Request
from sky.testing import CloudConformance, CloudLifecycle

POOLS = Path(tempfile.gettempdir()) / f"sky-ssh-conformance-{os.getpid()}.json"


@pytest.fixture(scope="module")
def pools_file(testbed: Path) -> Iterator[None]:
    """A pool of three hosts and one behind the bastion, with leases of our own."""
    shared = {
        "user": "lab2",
        "identity_file": str(testbed / "id_ed25519"),
        "known_hosts": str(testbed / "known_hosts"),
        "lease_dir": f"/tmp/sky-lease-{uuid.uuid4().hex[:8]}",
    }
    inner = {"ip": "10.77.1.10", "proxy_jump": "lab@10.77.0.200"}
    POOLS.write_text(json.dumps({"lab": {"hosts": [*THREE, inner], **shared}}))
    yield
    POOLS.unlink()


class TestCloud(CloudConformance):
    plugin = "ssh"
    sdk_modules = ("fabric", "paramiko", "invoke", "yaml")


@pytest.mark.usefixtures("pools_file")
class TestLifecycle(CloudLifecycle):
    plugin = "ssh"
    config = {"pools_file": str(POOLS)}  # noqa: RUF012
    request = Request()
