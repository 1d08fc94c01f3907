"""Kubernetes' notation of amounts (`7910m`, `16Gi`, `1e3`), read exactly, rounded as the scheduler does."""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction

_SUFFIX = {
    "": Fraction(1),
    **{letter: Fraction(1, 1000**n) for n, letter in enumerate("mun", 1)},
    **{letter: Fraction(1000**n) for n, letter in enumerate("kMGTPE", 1)},
    **{letter + "i": Fraction(1024**n) for n, letter in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")


def parse(text: str | int | float) -> Fraction:
    """The exact amount. Raises `ValueError` for what isn't a quantity."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"not a Kubernetes quantity: {text!r}")
    number, exponent, suffix = match.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _SUFFIX[suffix or ""])


@functools.lru_cache(maxsize=4096)  # a big cluster repeats few amounts many times
def units(resource: str, text: str | int | float) -> int:
    """Whole units of `resource`, rounded up: millicores of `cpu`, bytes or pieces of anything else."""
    amount = parse(text)
    return math.ceil(amount * 1000 if resource == "cpu" else amount)


def cpu(vcpus: float) -> str:
    """vCPUs as a quantity: `2`, `500m`."""
    millis = round(vcpus * 1000)
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def memory(gib: float) -> str:
    """GiB as a quantity: `2Gi`, `1536Mi`."""
    mib = round(gib * 1024)
    return f"{mib}Mi" if mib % 1024 else f"{mib // 1024}Gi"
