"""Nodes with a home each, reached by a runner whose connections can be cut."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Test modules are imported by path (importlib mode), so what they share is found by name only here.
sys.path.insert(0, str(Path(__file__).parent))

import cutting_runner
from cutting_runner import Line

from sky.registry.index import Entry
from sky.registry.plugins import Registry
from sky.session import Session
from sky.types import Event, Host


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    fresh = Line()
    monkeypatch.setattr(cutting_runner, "LINE", fresh)
    return fresh


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[Event], line: Line) -> Session:
    monkeypatch.setenv("SKY_HOME", str(tmp_path / "sky home"))
    monkeypatch.delenv("SKY_CONFIG", raising=False)
    made = Session(events.append)
    made.registry = Registry([Entry("runner", "cutting", "cutting_runner:CuttingRunner", "", "1")])
    return made


@pytest.fixture
def nodes(tmp_path: Path) -> Callable[[int], list[Host]]:
    """As many nodes as asked for; their homes are `tmp_path/RANK/home`."""

    def make(count: int) -> list[Host]:
        hosts = []
        for rank in range(count):
            root = tmp_path / str(rank)
            (root / "home").mkdir(parents=True)
            address = {"root": str(root), "cluster": "test"}
            hosts.append(Host(transport="cutting", address=address, rank=rank, name=f"node-{rank}"))
        return hosts

    return make
