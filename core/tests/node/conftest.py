"""Nodes of each kind; see node_harness.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the module below, in whatever way pytest imports tests

from node_harness import SHELLS, Node, check_clean, make_node, make_paths


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """For each kind of node, its PATH."""
    return make_paths(tmp_path_factory.mktemp("paths"))


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, paths: Mapping[str, str], tmp_path: Path) -> Iterator[Node]:
    """Under each shell."""
    made = make_node(request.param, paths, tmp_path)
    yield made
    check_clean(made)


@pytest.fixture
def bash_node(paths: Mapping[str, str], tmp_path: Path) -> Iterator[Node]:
    """With dash as sh, and bash for the user's blocks."""
    made = make_node("dash", paths, tmp_path)
    yield made
    check_clean(made)


@pytest.fixture
def anywhere(paths: Mapping[str, str], tmp_path: Path) -> Iterator[Callable[[str], Node]]:
    """Makes nodes of the kind named."""
    made: list[Node] = []

    def make(kind: str) -> Node:
        made.append(make_node(kind, paths, tmp_path / str(len(made))))
        return made[-1]

    yield make
    for node in made:
        check_clean(node)
