"""Words that depend on numbers."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`, `1,000 files`; `plural` for what doesn't take an `s`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
