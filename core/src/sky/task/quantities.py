"""Amounts as users write them: vCPUs, memory, disk, accelerators. Pure; every parser raises `UsageError`."""

from __future__ import annotations

import math
import re

from sky.errors import UsageError
from sky.task.problems import shown
from sky.types import Accelerator, Quantity

# Digits are bounded because int() refuses thousands of them with an error of its own.
_NUMBER = r"(?:\d{1,15}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,3})?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-z]*)\s*(\+?)", re.ASCII)
_ACCELERATOR_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]*", re.ASCII)
_GIB_PER_UNIT = {"m": 1 / 1024, "g": 1.0, "t": 1024.0}


def parse_cpus(text: str) -> Quantity:
    """`4` or `4+` vCPUs."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2]:
        raise UsageError(f"{shown(text)} is not a number of vCPUs", remedy="write 4, or 4+ for at least 4")
    return Quantity(_positive(float(match[1]), text), "at_least" if match[3] else "exact")


def parse_memory(text: str) -> Quantity:
    """`16`, `16+` (GiB), `4x` (GiB for each vCPU), or with a unit: `16GB`, `16Gi`, `512MB`, `1TB+`.

    Units are powers of 1024, whichever way they are spelt, as in SkyPilot.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is not None:
        number, unit, plus = float(match[1]), match[2].lower(), match[3]
        if unit == "x" and not plus:
            return Quantity(_positive(number, text), "per_cpu")
        scale = 1.0 if not unit else gib_per_unit(unit)
        if scale is not None:
            return Quantity(_positive(number * scale, text), "at_least" if plus else "exact")
    raise UsageError(
        f"{shown(text)} is not an amount of memory",
        remedy="write GiB: 16, 16+ for at least 16, 4x for 4 for each vCPU; or a unit: 512MB",
    )


def parse_disk_size(text: str) -> int:
    """`256`, or with a unit: `256GB`, `1TB`; whole GB."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is not None and not match[3]:
        scale = 1.0 if not match[2] else gib_per_unit(match[2].lower())
        if scale is not None:
            size = _positive(float(match[1]) * scale, text)
            if size == int(size):
                return int(size)
    raise UsageError(f"{shown(text)} is not a disk size", remedy="write whole GB: 256")


def gib_per_unit(unit: str) -> float | None:
    """How many GiB a lower-case unit (`mb`, `gi`, `gib`, `t`) is; None if it isn't one."""
    if unit[1:] in ("", "b", "i", "ib"):
        return _GIB_PER_UNIT.get(unit[:1])
    return None


def parse_number(text: str) -> float:
    """A number greater than zero."""
    if re.fullmatch(_NUMBER, text.strip(), re.ASCII) is None:
        raise UsageError(f"{shown(text)} is not a number greater than zero")
    return _positive(float(text), text)


def parse_accelerator(text: str) -> Accelerator:
    """`H100` or `H100:8`; the name is kept as written, the count may be a fraction."""
    name, colon, count = text.strip().partition(":")
    return make_accelerator(name.strip(), count.strip() if colon else "1")


def make_accelerator(name: str, count: str) -> Accelerator:
    """An accelerator from its two parts."""
    if _ACCELERATOR_NAME.fullmatch(name) is None:
        raise UsageError(
            f"{shown(name)} is not the name of an accelerator", remedy="write NAME:COUNT, as in H100:8"
        )
    try:
        return Accelerator(name, parse_number(count))
    except UsageError:
        raise UsageError(
            f"{shown(count)} is not a number of accelerators greater than zero",
            remedy=f"write it as in {name}:8",
        ) from None


def parse_accelerators(text: str) -> tuple[tuple[Accelerator, ...], bool]:
    """What `--gpus` takes: `H100:8`, `{T4:1, L4:1}` (any of them) or `[T4:1, L4:1]` (in that order).

    Returns the alternatives, and whether their order matters.
    """
    text = text.strip()
    if text[:1] + text[-1:] not in ("[]", "{}"):
        return (parse_accelerator(text),), False
    alternatives = tuple(parse_accelerator(part) for part in text[1:-1].split(","))
    return alternatives, text[0] == "[" and len(alternatives) > 1


def number_text(value: float) -> str:
    """A number so that reading it gives the same value; `8` rather than `8.0`."""
    return str(int(value)) if value == int(value) and value < 1e15 else repr(value)


def quantity_text(quantity: Quantity) -> str:
    """A quantity so that reading it gives the same (its `str` is for people and rounds)."""
    return number_text(quantity.value) + {"exact": "", "at_least": "+", "per_cpu": "x"}[quantity.mode]


def _positive(value: float, text: str) -> float:
    if value == 0:
        raise UsageError(f"{shown(text)} is not greater than zero")
    if not math.isfinite(value):
        raise UsageError(f"{shown(text)} is out of range")
    return value
