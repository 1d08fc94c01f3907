"""The toy queue's distribution, installed for these tests alone."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sky_command import Sky

from installing import install

PROJECT = Path(__file__).parent / "plugin"


@pytest.fixture(scope="session")
def toyqueue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is installed."""
    return install(tmp_path_factory.mktemp("toyqueue"), PROJECT)


@pytest.fixture(scope="module")
def toyqueue_here(toyqueue: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """It can be imported by the tests themselves; its clusters are below a directory of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(toyqueue))
        patch.setenv("PYTHONPATH", str(toyqueue))
        patch.setenv("SKY_HOME", str(tmp_path_factory.mktemp("sky-home")))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        importlib.invalidate_caches()
        yield


@pytest.fixture
def sky(tmp_path: Path, toyqueue: Path) -> Iterator[Sky]:
    """`sky(*args, code=0)` with the toy queue installed."""
    made = Sky(tmp_path, {"PYTHONPATH": str(toyqueue), "KUBECONFIG": str(tmp_path / "none")})
    yield made
    made.clean()
