"""The fixtures of a real Kubernetes and of SSH hosts, for every test module outside the plugin that needs them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sky_command import TESTBED, Kubernetes, eventually
from ssh_home import Hosts, missing

SCRIPT = Path(__file__).resolve().parents[1] / "testbed" / "kubernetes.sh"


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """The testbed's Kubernetes, started if it is built; a namespace of our own, removed afterwards."""
    if not (TESTBED / "bin" / "kube-apiserver").exists() or not (TESTBED / "images" / "pause.tar").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("no Kubernetes testbed: CI must build it (make testbed)")
        pytest.skip("no Kubernetes testbed (make testbed builds it)")
    subprocess.run(["bash", str(SCRIPT), "up"], check=True, capture_output=True, timeout=120)
    namespace = f"sky-e2e-{os.getpid()}-{time.time_ns() % 100000}"
    kubeconfig = tmp_path_factory.mktemp("kube") / "config"
    kubeconfig.write_text((TESTBED / "kubeconfig").read_text())
    os.utime(kubeconfig, (0, 0))  # as users have it: settled, so that its parsed form is kept
    made = Kubernetes(kubeconfig, namespace)
    made.kubectl("create", "namespace", namespace)
    # Pods are refused until a new namespace has its default service account.
    eventually(lambda: made.kubectl("get", "serviceaccounts", "--output=name").strip())
    yield made
    made.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    made.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="session")
def ssh_hosts() -> Hosts:
    """The testbed's SSH hosts; see `Hosts`."""
    why = missing()
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"{why}: CI must have them")
    if why:
        pytest.skip(why)
    return Hosts()
