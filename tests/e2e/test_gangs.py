"""One rank's end is everyone's, whatever ends it and however the nodes are reached: seen from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gang_places import NAME, RANKS, OnHosts, Place, kill, pods
from sky_command import Kubernetes, Running, Sky, eventually

LIMIT_SECONDS = 15.0
"""From what happened until every other rank is gone and the job says so."""
CLIENT_SECONDS = 25.0
"""Until a client that follows has ended: it may wait for the end of a log that never comes."""


@dataclass(frozen=True)
class Fault:
    """What happens to rank `victim`, and what the job must say of it."""

    name: str
    victim: int = 1
    says: str = "was lost: "

    def strike(self, place: Place, client: Running) -> None:
        if self.name == "client, then kill":
            kill(client)
        if self.name.endswith("kill"):
            place.signal(self.victim, signal.SIGKILL)
        elif self.name == "exit 3":
            place.signal(self.victim, signal.SIGUSR1)
        elif self.name == "cut":
            place.cut(self.victim)
        else:
            place.crash(self.victim)

    @property
    def loses_node(self) -> bool:
        return self.name in ("cut", "crash")

    def __str__(self) -> str:
        return f"{self.name}, rank {self.victim}"


PROCESS = [
    Fault("kill", says="ended with 137"),
    Fault("kill", 0, says="ended with 137"),
    Fault("exit 3", says="ended with 3"),
    Fault("client, then kill", says="ended with 137"),
]
NODE = [Fault("cut"), Fault("crash"), Fault("cut", 0), Fault("crash", 0)]
CASES = [
    *(("local", fault) for fault in PROCESS),
    *((place, fault) for place in ("ssh", "debian") for fault in (*PROCESS, *NODE)),
    *(("busybox", fault) for fault in NODE if fault.name == "cut"),
    *(
        pytest.param("busybox", fault, marks=pytest.mark.soak)
        for fault in (*PROCESS, *NODE)
        if fault.name != "cut"
    ),
]


@dataclass
class Row:
    """What was seen; seconds since it happened, None for never."""

    transport: str
    fault: Fault
    gone: float | None = None
    said: float | None = None
    ended: float | None = None
    words: str = ""

    def __str__(self) -> str:
        seconds = [f"{s:8.1f}" if s is not None else f"{'-':>8}" for s in (self.gone, self.said, self.ended)]
        return f"{self.transport:<10} {self.fault!s:<26}{''.join(seconds)}  {self.words}"


@dataclass
class Table:
    """All rows, printed as they come, and once more in the end."""

    rows: list[Row] = field(default_factory=list)

    HEAD = f"{'transport':<10} {'fault':<26}{'gone s':>8}{'said s':>8}{'client':>8}  what the job said"

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(f"\n{row}")

    def __str__(self) -> str:
        return "\n".join([self.HEAD, *map(str, self.rows)])


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    made = Table()
    yield made
    print(f"\n{made}")
    if file := os.environ.get("SKY_GANG_TABLE"):
        Path(file).write_text(f"{made}\n")


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Where three nodes are to be had: the parameter names it."""
    if request.param == "local":
        yield Place(request.getfixturevalue("sky"))
    elif request.param == "ssh":
        sky: Sky = request.getfixturevalue("ssh_sky")
        yield OnHosts(sky, hosts=request.getfixturevalue("ssh_hosts"))
    else:
        kubernetes: Kubernetes = request.getfixturevalue("kubernetes")
        yield pods(request.getfixturevalue("kube_sky"), kubernetes, request.param)


def breaking(place: Place) -> contextlib.AbstractContextManager[None]:
    return place.hosts.destroying() if isinstance(place, OnHosts) else contextlib.nullcontext()


@pytest.mark.parametrize(("place", "fault"), CASES, indirect=["place"], ids=str)
def test_one_rank_ends_all(place: Place, fault: Fault, table: Table, request: pytest.FixtureRequest) -> None:
    row = Row(request.node.callspec.id.partition("-")[0], fault)
    with breaking(place) if fault.loses_node else contextlib.nullcontext():
        client = place.launch()
        fault.strike(place, client)
        watch(place, client, row)
        table.add(row)
        if fault.name == "cut":  # it notices, too
            eventually(lambda: not place.processes(fault.victim), LIMIT_SECONDS)
    assert row.gone is not None and row.gone <= LIMIT_SECONDS, row
    assert row.said is not None and row.said <= LIMIT_SECONDS, row
    assert fault.says in row.words or (fault.name == "crash" and "is gone: it was deleted" in row.words), row
    if not fault.name.startswith("client"):
        done = client.end(1)
        code = {"ended with 137": 137, "ended with 3": 3}.get(fault.says, 125)
        assert done.code == code or fault.victim == 0, done
        assert done.code != 0 and "Traceback" not in done.err, done


def watch(place: Place, client: Running, row: Row) -> None:
    """Fill the row, from now on; what never comes stays None."""
    began = time.monotonic()
    others = [rank for rank in RANKS if rank != row.fault.victim]
    lonely = row.fault.name.startswith("client")
    while (passed := time.monotonic() - began) < CLIENT_SECONDS:
        if row.gone is None and not any(place.processes(rank) for rank in others):
            row.gone = time.monotonic() - began
        if row.said is None and (words := told(place, client, row.fault)):
            row.said, row.words = time.monotonic() - began, words
        if row.ended is None and not lonely and client.process.poll() is not None:
            row.ended = time.monotonic() - began
        if row.gone and row.said and (row.ended or lonely):
            return
        time.sleep(0.05)
    assert passed >= CLIENT_SECONDS


def told(place: Place, client: Running, fault: Fault) -> str:
    """What the job says about the victim, by who can tell: the client that follows, else the queue."""
    if fault.name.startswith("client"):
        (job,) = place.sky("queue", NAME, "-o", "json").json()["clusters"][NAME]
        return str(job["reason"]) if job["state"] == "FAILED" else ""
    lines = (client.out + client.err).splitlines()
    if fault.name == "cut":
        # In a pod the client still hears it: that it was cut off itself. What the others say is asked here.
        lines = [line for line in lines if not line.startswith(f"(rank {fault.victim}) ")]
    words = (f"rank {fault.victim} (", f"-{fault.victim} is gone: it was deleted")
    return next((line for line in lines if any(w in line for w in words)), "")
