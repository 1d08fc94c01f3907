"""A cluster is a directory: its tags in `cluster.json`, and a directory for each node."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from sky.api import (
    Accelerator,
    Allocation,
    Context,
    Host,
    InstanceState,
    InstanceStatus,
    LaunchSpec,
    NotYet,
    Offer,
    ProvisioningFailed,
)
from sky.local import processes
from sky.local.machine import NAME

_FILE = "cluster.json"


def root() -> Path:
    """Where clusters live: outside Sky's own state, which may be deleted without losing them."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(data) / "sky" / "local"


def create(spec: LaunchSpec) -> Allocation:
    """Make the directories, or adopt those that carry the id. `cluster.json` comes last: no file, no cluster."""
    place = root() / spec.cluster_id
    found = _read(place)
    if found is not None:
        return found
    try:
        for rank in range(spec.num_nodes):
            (place / str(rank) / "home").mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {
            "id": spec.cluster_id,
            "name": spec.cluster_name,
            "tags": dict(spec.tags),
            "num_nodes": spec.num_nodes,
            "offer": asdict(spec.offer),
        }
        temporary = place / f".{_FILE}.{secrets.token_hex(4)}"
        temporary.write_text(json.dumps(document), encoding="utf-8")
        temporary.replace(place / _FILE)
    except OSError as error:
        if _read(place) is None:  # else another caller made it meanwhile
            shutil.rmtree(place, ignore_errors=True)
        raise ProvisioningFailed(f"can't make {place}: {error.strerror}") from error
    created = _read(place)
    if created is None:
        raise ProvisioningFailed(f"{place} was removed while it was made")
    return created


def query(allocation: Allocation) -> list[InstanceStatus]:
    if _read(root() / allocation.id) is None:
        return []
    return [
        InstanceStatus(name=f"{allocation.id}/{rank}", rank=rank, state=InstanceState.RUNNING)
        for rank in range(allocation.num_nodes)
    ]


def hosts(allocation: Allocation) -> list[Host]:
    place = root() / allocation.id
    if _read(place) is None:
        raise NotYet(f"cluster {allocation.cluster_name!r} isn't there")
    return [
        Host(
            transport=NAME,
            address={"root": str(place / str(rank)), "cluster": allocation.id},
            rank=rank,
            name=f"{NAME}-{rank}",
            internal_ip="127.0.0.1",
            work_dir=str(place / str(rank) / "node"),
        )
        for rank in range(allocation.num_nodes)
    ]


def find(tags: Mapping[str, str]) -> list[Allocation]:
    if not root().is_dir():
        return []
    found = (_read(place) for place in sorted(root().iterdir()))
    return [a for a in found if a is not None and tags.items() <= a.tags.items()]


def remove(ctx: Context, allocation: Allocation) -> None:
    """End its processes, then its directories; `cluster.json` goes last, so that a crash leaves it findable."""
    place = root() / allocation.id
    processes.end(ctx, allocation.id)
    if not place.is_dir():
        return
    for entry in place.iterdir():
        if entry.name != _FILE:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.rmtree(place)


def _read(place: Path) -> Allocation | None:
    try:
        data = json.loads((place / _FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    offer = data["offer"]
    accelerator = offer.pop("accelerator")
    return Allocation(
        id=data["id"],
        cloud=NAME,
        cluster_name=data["name"],
        tags=data["tags"],
        num_nodes=data["num_nodes"],
        offer=Offer(**offer, accelerator=Accelerator(**accelerator) if accelerator else None),
    )
