"""Fixtures for the tests of a plugin's own modules: `from sky.testing.fixtures import make_context` in a conftest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sky.api import CancelToken, Context, Event
from sky.testing.lab import context_maker


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., Context]:
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
        return context_maker(config or {}, home)(seconds, cancel=cancel, events=events)

    return make
