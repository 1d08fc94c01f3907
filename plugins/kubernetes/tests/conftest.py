"""Fixtures of the Kubernetes plugin's tests: a context for hooks, and a real cluster."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sky.api import Cache, CancelToken, Context, Event

ROOT = Path(__file__).resolve().parents[3]
TESTBED = Path(os.environ.get("SKY_TESTBED", "~/.cache/sky-testbed")).expanduser() / "kubernetes"
SCRIPT = ROOT / "tests" / "testbed" / "kubernetes.sh"

MakeContext = Callable[..., Context]


@pytest.fixture
def make_context(tmp_path: Path) -> MakeContext:
    """`make_context(config={}, seconds=30, events=None, directory=None, cancel=None)`: a hook's `ctx`."""

    def make(
        config: Mapping[str, Any] | None = None,
        seconds: float | None = 30.0,
        events: list[Event] | None = None,
        directory: Path | None = None,
        cancel: CancelToken | None = None,
    ) -> Context:
        home = directory or tmp_path / "plugin-directory"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Context(
            config=config or {},
            deadline=None if seconds is None else time.monotonic() + seconds,
            cancel=cancel or CancelToken(),
            emit=(events if events is not None else []).append,
            cache=Cache(),
            directory=home,
        )

    return make


@dataclass(frozen=True)
class Cluster:
    """A real Kubernetes, and a namespace of it that is ours alone."""

    kubeconfig: Path
    """Its only context, `testbed`, has our namespace as its own; KUBECONFIG is set to it."""
    context: str
    namespace: str

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """The oracle: what kubectl says, in our namespace."""
        done = subprocess.run(
            [str(TESTBED / "bin" / "kubectl"), "--kubeconfig", str(self.kubeconfig), *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


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
