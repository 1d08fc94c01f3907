"""What this machine has, and whether a request fits it."""

from __future__ import annotations

import os
import shutil
import subprocess

from sky.api import Accelerator, Context, Feasibility, Offer, Rejection, Request

NAME = "local"
_UNSUPPORTED = {
    "use_spot": "spot",
    "disk_tier": "disk_tier",
    "image_id": "image",
    "ports": "ports",
    "region": "region",
    "zone": "zone",
}


def feasible(ctx: Context, request: Request) -> Feasibility:
    """One offer, this machine, or what it lacks."""
    cpus, memory = cpu_count(), memory_gib()
    rejections = [
        Rejection(cloud=NAME, subject="this machine", rule="capability", reason=f"has no {field}")
        for attribute, field in _UNSUPPORTED.items()
        if getattr(request, attribute)
    ]
    rejections += _too_small(request, cpus, memory)
    if request.instance_type not in (None, NAME):
        rejections.append(_no("instance_type", f"is no {request.instance_type}", NAME))
    accelerator = None
    if request.accelerator is not None:
        accelerator, rejection = _accelerator(request.accelerator)
        rejections += [rejection] if rejection else []
    price = float(ctx.config.get("price_usd_per_hour", 0))
    limit = request.max_price_usd_per_hour
    if limit is not None and price * request.num_nodes > limit:
        rejections.append(
            _no("price", f"costs ${price:g} an hour, over max_hourly_cost", f"max_hourly_cost: {price:g}")
        )
    if rejections:
        return Feasibility(rejections=tuple(rejections))
    offer = Offer(
        cloud=NAME,
        region="",
        instance_type=NAME,
        vcpus=cpus,
        memory_gib=memory,
        accelerator=accelerator,
        price_usd_per_hour=price,
        note="processes on this machine",
    )
    return Feasibility(offers=(offer,))


def _too_small(request: Request, cpus: int, memory: float) -> list[Rejection]:
    found = []
    wanted = request.cpus.value if request.cpus else 0
    if wanted > cpus:
        found.append(_no("cpus", f"has {cpus} CPUs, {wanted:g} were asked for", f"cpus: {cpus}"))
    if request.memory is not None:
        need = request.memory.value
        if request.memory.mode == "per_cpu":
            need *= wanted or cpus
        if need > memory:
            found.append(_no("memory", f"has {memory:g} GiB, {need:g} were asked for", f"memory: {memory:g}"))
    return found


def _accelerator(wanted: Accelerator) -> tuple[Accelerator | None, Rejection | None]:
    found = accelerators()
    for name, count in found.items():
        if wanted.name.lower() in name.lower().replace("-", " ").split() and wanted.count <= count:
            return Accelerator(wanted.name, wanted.count), None
    near = tuple(f"{name}:{count}" for name, count in found.items())
    return None, Rejection(
        cloud=NAME,
        subject="this machine",
        rule="accelerator",
        reason=f"has {', '.join(near) or 'no accelerators'}, {wanted} was asked for",
        near_misses=near,
    )


def _no(rule: str, reason: str, near: str) -> Rejection:
    return Rejection(cloud=NAME, subject="this machine", rule=rule, reason=reason, near_misses=(near,))


def cpu_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def memory_gib() -> float:
    """Memory of the machine in GiB, to one decimal."""
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = next(int(line.split()[1]) for line in file if line.startswith("MemTotal:"))
    return round(kib / 1024**2, 1)


def accelerators() -> dict[str, int]:
    """NVIDIA devices by product name, as `nvidia-smi` tells; none where there is no such program."""
    if shutil.which("nvidia-smi") is None:
        return {}
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    names = (
        [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
    )
    return {name: names.count(name) for name in dict.fromkeys(names)}
