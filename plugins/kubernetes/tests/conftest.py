"""Fixtures of the Kubernetes plugin's tests: a context for hooks, and a real cluster."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sky.testing.fixtures import make_context

__all__ = ["make_context"]

# Test modules are imported by path (importlib mode), so their shared helper is found by name only here.
sys.path.insert(0, str(Path(__file__).parent))

from kubernetes_fixtures import TESTBED, Certificates, Cluster
from kubernetes_stub import StubServer, write_kubeconfig

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests" / "testbed" / "kubernetes.sh"


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    """A stub API server on plain http, protocol v4; KUBECONFIG names it (context `stub`, no login)."""
    server = StubServer()
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "stub-kubeconfig", server.url)))
    with contextlib.closing(server):
        yield server


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made by openssl; see `Certificates`."""
    home = tmp_path_factory.mktemp("pki")
    made = Certificates(home / "ca.crt", home / "api.crt", home / "api.key")
    (home / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:api.test")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=test-ca -days 2",
        "req -newkey rsa:2048 -nodes -keyout api.key -out api.csr -subj /CN=api",
        "x509 -req -in api.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out api.crt -days 2 -extfile names",
    ):
        subprocess.run(["openssl", *command.split()], cwd=home, check=True, capture_output=True)
    return made


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The testbed's Kubernetes, started if it is built; see `Cluster`."""
    if not (TESTBED / "bin" / "kube-apiserver").exists() or not (TESTBED / "images" / "pause.tar").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("no Kubernetes testbed: CI must build it (make testbed)")
        pytest.skip("no Kubernetes testbed (make testbed builds it)")
    subprocess.run(["bash", str(SCRIPT), "up"], check=True, capture_output=True, timeout=120)
    namespace = f"sky-test-{os.getpid()}-{time.time_ns() % 100000}"
    source = (TESTBED / "kubeconfig").read_text()
    kubeconfig = tmp_path_factory.mktemp("kube") / "config"
    kubeconfig.write_text(source.replace("namespace: default", f"namespace: {namespace}"))
    made = Cluster(kubeconfig, "testbed", namespace)
    made.kubectl("create", "namespace", namespace)
    _wait_for_service_account(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig))
        yield made
    made.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    made.kubectl("delete", "namespace", namespace, "--wait=false")


def _wait_for_service_account(cluster: Cluster) -> None:
    """Pods are refused until a new namespace has its default service account."""
    deadline = time.monotonic() + 30
    while not cluster.kubectl("get", "serviceaccounts", "--output=name").strip():
        assert time.monotonic() < deadline, "the namespace never got a service account"
        time.sleep(0.05)
