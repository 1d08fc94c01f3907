"""How large a pod a request means: numbers where the user gave none, and the names of pod sizes.

Unset, a node is 2 vCPUs with 2 GiB each, or 4 vCPUs with 4 GiB each for every accelerator. What the user
didn't set is halved, down to 0.5, until it fits: a default never makes a task impossible.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sky.api import Accelerator, Quantity, Request
from sky_kubernetes.accelerators import canonical

_LEAST = 0.5
_TYPE = re.compile(r"(\d+(?:\.\d+)?)CPU--(\d+(?:\.\d+)?)GB(?:--([A-Za-z0-9.-]+):(\d+))?")


class Refused(Exception):
    """A request that no cluster of this kind can serve, with the rule and what would have worked."""

    def __init__(self, rule: str, reason: str, near_misses: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason
        self.near_misses = near_misses


@dataclass(frozen=True, slots=True)
class Size:
    """One pod: vCPUs, GiB, and `count` devices of `kind` (a canonical name)."""

    cpus: float
    memory_gib: float
    kind: str | None = None
    count: int = 0

    def __str__(self) -> str:
        devices = f"--{self.kind}:{self.count}" if self.kind else ""
        return f"{self.cpus:g}CPU--{self.memory_gib:g}GB{devices}"


def candidates(request: Request) -> list[Size]:
    """Sizes that satisfy `request`, the best first. Raises `Refused`."""
    if request.instance_type:
        request = _of_type(request)
    kind, count = _devices(request.accelerator)
    default_cpus, ratio = (4.0 * count, 4.0) if kind else (2.0, 2.0)
    sizes: list[Size] = []
    factor = 1.0
    while True:
        cpus = request.cpus.value if request.cpus else max(_LEAST, default_cpus * factor)
        size = Size(cpus, _memory(request.memory, cpus, ratio * (factor if request.cpus else 1)), kind, count)
        if sizes and size == sizes[-1]:
            return sizes
        sizes.append(size)
        factor /= 2


def _memory(asked: Quantity | None, cpus: float, ratio: float) -> float:
    if asked is None:
        return max(_LEAST, cpus * ratio)
    return asked.value * cpus if asked.mode == "per_cpu" else asked.value


def _devices(asked: Accelerator | None) -> tuple[str | None, int]:
    if asked is None or asked.count == 0:
        return None, 0
    kind = canonical(asked.name)
    if asked.count != int(asked.count):
        whole = int(asked.count) + 1
        raise Refused("accelerator", f"gives whole devices only, not {asked.count:g}", (f"{kind}:{whole}",))
    return kind, int(asked.count)


def _of_type(request: Request) -> Request:
    match = _TYPE.fullmatch(request.instance_type or "")
    if match is None:
        raise Refused(
            "instance_type",
            f"{request.instance_type!r} is no pod size; write vCPUs, GiB and devices: 4CPU--16GB--H100:1",
        )
    size = Size(
        float(match[1]), float(match[2]), canonical(match[3]) if match[3] else None, int(match[4] or 0)
    )
    asked_kind, asked_count = _devices(request.accelerator)
    if request.accelerator is not None and (asked_kind, asked_count) != (size.kind, size.count):
        raise Refused("instance_type", f"{request.instance_type} hasn't {request.accelerator}")
    if not _satisfies(size.cpus, request.cpus, size.cpus):
        raise Refused("instance_type", f"{request.instance_type} hasn't cpus: {request.cpus}")
    if not _satisfies(size.memory_gib, request.memory, size.cpus):
        raise Refused("instance_type", f"{request.instance_type} hasn't memory: {request.memory}")
    return replace(
        request,
        cpus=Quantity(size.cpus),
        memory=Quantity(size.memory_gib),
        accelerator=Accelerator(size.kind, size.count) if size.kind else None,
    )


def _satisfies(has: float, asked: Quantity | None, cpus: float) -> bool:
    if asked is None:
        return True
    if asked.mode == "exact":
        return has == asked.value
    return has >= asked.value * (cpus if asked.mode == "per_cpu" else 1)
