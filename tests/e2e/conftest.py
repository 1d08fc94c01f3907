"""Fixtures of the end-to-end tests: the installed command in a home of its own, a real Kubernetes, SSH hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test modules are imported by path (importlib mode), so what they share is found by name only here.
sys.path.insert(0, str(Path(__file__).parent))

from e2e_fixtures import kubernetes, ssh_hosts  # noqa: F401 - fixtures
from sky_command import SMALL, Kubernetes, Sky, kubernetes_home
from ssh_home import Hosts, ssh_home


@pytest.fixture
def sky(tmp_path: Path) -> Iterator[Sky]:
    """`sky(*args, code=0)` with only `local` in reach."""
    made = Sky(tmp_path, {"KUBECONFIG": str(tmp_path / "no-kubeconfig")})
    yield made
    made.clean()


@pytest.fixture
def kube_sky(tmp_path: Path, kubernetes: Kubernetes) -> Iterator[Sky]:  # noqa: F811
    """`sky(*args, code=0)` with the testbed's Kubernetes in reach, in our namespace."""
    yield from kubernetes_home(tmp_path, kubernetes)


@pytest.fixture
def ssh_sky(tmp_path: Path, ssh_hosts: Hosts) -> Iterator[Sky]:  # noqa: F811
    """`sky(*args, code=0)` with the testbed's SSH hosts in reach: pools `lab` (h1 h2 h3) and `behind` (inner)."""
    yield from ssh_home(tmp_path, ssh_hosts)


@pytest.fixture
def small() -> tuple[str, ...]:
    """Options of `launch` for a pod that is small enough to share the testbed."""
    return SMALL
