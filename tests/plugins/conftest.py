"""Every misbehaving plugin of `broken/`, built and installed for real, beside the healthy `local`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test modules are imported by path (importlib mode), so what they share is found by name only here.
sys.path.insert(0, str(Path(__file__).parent))

from distributions import BROKEN, write_project
from sky_command import Sky

from installing import install


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of them are installed."""
    sources = tmp_path_factory.mktemp("sources")
    projects = [write_project(sources, outcome) for outcome in BROKEN]
    return install(tmp_path_factory.mktemp("broken"), *projects)


@pytest.fixture
def sky(tmp_path: Path, broken: Path) -> Iterator[Sky]:
    """`sky(*args, code=0)` with all of them installed. What a module of theirs does at import is in `imports`."""
    made = Sky(
        tmp_path,
        {
            "PYTHONPATH": str(broken),
            "KUBECONFIG": str(tmp_path / "none"),
            "SKY_TEST_IMPORTS": str(tmp_path / "imports"),
        },
    )
    yield made
    made("down", "-a", "-y", "--purge", code=None)
