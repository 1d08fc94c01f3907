"""Counts are said as people say them."""

from __future__ import annotations

from sky.api import counted


def test_one_is_singular_and_nothing_else_is() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1000)] == ["0 files", "1 file", "2 files", "1,000 files"]
    assert counted(2, "entry", "entries") == "2 entries"
