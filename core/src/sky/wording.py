"""Words that depend on numbers."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 4


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`, `1,000 files`; `plural` for what doesn't take an `s`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def some(names: Sequence[str]) -> str:
    """`a, b`; of more than four the first four, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
