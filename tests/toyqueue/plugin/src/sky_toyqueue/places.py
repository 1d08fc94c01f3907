"""Clusters: a directory each, its tags in `cluster.json`, served by one worker process that holds a lock.

The worker ends by itself when `cluster.json` is gone, so taking the cluster away is removing files.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from sky.api import (
    Allocation,
    Context,
    Feasibility,
    Host,
    InstanceState,
    InstanceStatus,
    LaunchSpec,
    NotYet,
    Offer,
    ProvisioningFailed,
    Rejection,
    Request,
    TimedOut,
)

NAME = "toyqueue"
VCPUS, MEMORY_GIB = 1.0, 1.0
DOCUMENT, LOCK = "cluster.json", "worker.lock"


def root() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(data) / NAME


def feasible(request: Request) -> Feasibility:
    """One size, without accelerators."""
    cpus = request.cpus.value if request.cpus else VCPUS
    memory = request.memory.value if request.memory else MEMORY_GIB
    wrong = [
        Rejection(
            cloud=NAME,
            subject=NAME,
            rule=rule,
            reason=f"gives {given:g}",
            near_misses=(f"{rule}: {given:g}",),
        )
        for rule, asked, given in (("cpus", cpus, VCPUS), ("memory", memory, MEMORY_GIB))
        if asked > given
    ]
    if request.accelerator is not None:
        wrong.append(Rejection(cloud=NAME, subject=NAME, rule="accelerator", reason="gives none"))
    if wrong:
        return Feasibility(rejections=tuple(wrong))
    return Feasibility(
        offers=(Offer(cloud=NAME, region="", instance_type="slot", vcpus=VCPUS, memory_gib=MEMORY_GIB),)
    )


def create(spec: LaunchSpec) -> Allocation:
    """Make the directory or adopt it, and see to it that a worker serves it."""
    place = root() / spec.cluster_id
    for part in ("home", "jobs"):
        (place / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (place / DOCUMENT).exists():
        document = {"name": spec.cluster_name, "tags": dict(spec.tags), "offer": asdict(spec.offer)}
        replace_file(place / DOCUMENT, json.dumps(document))
    # Two may start one: the second doesn't get the lock, and ends.
    subprocess.Popen(
        [sys.executable, "-m", "sky_toyqueue.worker", str(place)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return _allocation(place)


def pause(ctx: Context, what: str) -> None:
    """A moment's sleep. Raises `TimedOut`, naming `what`, or `Cancelled`."""
    if ctx.deadline is not None and time.monotonic() > ctx.deadline:
        raise TimedOut(what)
    ctx.cancel.wait(0.02)
    ctx.cancel.check()


def replace_file(path: Path, text: str) -> None:
    """Readers see the old content or the new; two writers may do it at once."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    temporary.touch(mode=0o600)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def wait(ctx: Context, allocation: Allocation) -> None:
    place = root() / allocation.id
    while not served(place):
        if not (place / DOCUMENT).exists():
            raise ProvisioningFailed(f"{allocation.cluster_name!r} was taken away while it was made")
        pause(ctx, "waiting for the worker")


def query(allocation: Allocation) -> list[InstanceStatus]:
    place = root() / allocation.id
    if not (place / DOCUMENT).exists():
        return []
    if served(place):
        return [InstanceStatus(name=place.name, rank=0, state=InstanceState.RUNNING)]
    return [
        InstanceStatus(name=place.name, rank=0, state=InstanceState.PENDING, reason="no worker serves it yet")
    ]


def hosts(allocation: Allocation) -> list[Host]:
    place = root() / allocation.id
    if not served(place):
        raise NotYet(f"no worker serves {allocation.cluster_name!r} yet")
    address = {"home": str(place / "home")}
    return [Host(transport=NAME, address=address, name=place.name, work_dir=str(place / "sky"))]


def find(tags: Mapping[str, str]) -> list[Allocation]:
    places = sorted(root().iterdir()) if root().is_dir() else []
    found = (_allocation(place) for place in places if (place / DOCUMENT).exists())
    return [allocation for allocation in found if tags.items() <= allocation.tags.items()]


def remove(ctx: Context, allocation: Allocation) -> None:
    """Take `cluster.json` away, wait until the worker has ended its job and itself, then remove the rest."""
    place = root() / allocation.id
    (place / DOCUMENT).unlink(missing_ok=True)
    while served(place):
        pause(ctx, "waiting for the worker to end")
    if place.is_dir():
        shutil.rmtree(place)


def served(place: Path) -> bool:
    """Whether a worker holds the lock of a place."""
    try:
        with open(place / LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _allocation(place: Path) -> Allocation:
    document = json.loads((place / DOCUMENT).read_text(encoding="utf-8"))
    return Allocation(
        id=place.name,
        cloud=NAME,
        cluster_name=document["name"],
        tags=document["tags"],
        num_nodes=1,
        offer=Offer(**document["offer"]),
    )
