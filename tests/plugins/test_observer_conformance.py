"""Observers keep the contract, by the kit."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sky.testing import ObserverConformance


@pytest.fixture(scope="module", autouse=True)
def installed_here(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(broken))
        patch.setenv("PYTHONPATH", str(broken))
        patch.setenv("SKY_HOME", str(tmp_path_factory.mktemp("sky-home")))
        importlib.invalidate_caches()
        yield


class TestWatcher(ObserverConformance):
    plugin = "watcher"


class TestPolicy(ObserverConformance):
    plugin = "policy"
