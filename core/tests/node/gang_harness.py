"""Several nodes and one job on all of them: what the client does, by hand."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from node_harness import Answer, Node, environ, job, kill, processes, until

from sky.node import protocol
from sky.types import Job


@dataclass
class Gang:
    """A job given to each of `nodes`, and the calls that follow its logs."""

    nodes: list[Node]
    run: str
    fields: dict[str, Any] = field(default_factory=dict)
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    ports: list[str] = field(default_factory=list)
    calls: list[subprocess.Popen[bytes]] = field(default_factory=list)
    said: bytes = b""

    def __post_init__(self) -> None:
        self.job: Job = job(self.run, num_nodes=len(self.nodes), **self.fields)

    @property
    def names(self) -> list[str]:
        return [f"h{rank}" for rank in range(len(self.nodes))]

    def submission(self, rank: int) -> tuple[Any, BinaryIO]:
        where = ("-", "-") if rank == 0 else ("127.0.0.1", self.ports[rank - 1])
        gang = protocol.gang_file(rank, self.secret, self.names, *where)
        return protocol.submit("", self.job, {"RANK": str(rank)}, True, gang)

    def begin(self) -> None:
        """Rank 0 has it, and has told where it waits for the others."""
        first = self.nodes[0].open(self.submission(0))
        assert first.stderr is not None
        while b"sky1 job " not in self.said:
            chunk = os.read(first.stderr.fileno(), 4096)
            assert chunk, self.said
            self.said += chunk
        self.calls = [first]
        (line,) = [line for line in self.said.splitlines() if line.startswith(b"sky1 gang ")]
        self.ports = line.decode().split()[2:]

    def join(self, rank: int) -> None:
        self.calls.append(self.nodes[rank].open(self.submission(rank)))

    def give(self) -> Gang:
        self.begin()
        for rank in range(1, len(self.nodes)):
            self.join(rank)
        return self

    def answers(self, seconds: float = 30) -> list[Answer]:
        """What each call said in the end, in the order in which they were made; its last line is `end`."""
        deadline = time.monotonic() + seconds
        return [
            node.finish(call, deadline - time.monotonic())
            for node, call in zip(self.nodes, self.calls, strict=True)
        ]

    def directory(self, rank: int) -> Path:
        work = self.nodes[rank].work
        return work / "j" / (work / "t" / self.job.token).read_text().strip()

    def wait_running(self) -> None:
        """Until the block of every rank has said something."""
        for rank in range(len(self.nodes)):
            until(lambda rank=rank: (self.directory(rank) / "log").stat().st_size)  # type: ignore[misc]

    def driver(self, rank: int) -> int:
        return int((self.directory(rank) / "driver").read_text().partition(":")[0])

    def blocks(self, rank: int) -> list[int]:
        """Processes of the job on that node: those with its cookie, but the driver."""
        cookie = f"SKY_JOB_COOKIE={self.directory(rank).name}\0".encode()
        return processes(lambda pid: cookie in environ(pid) + b"\0" and pid != self.driver(rank))

    def engine(self, rank: int) -> list[int]:
        """All that our script runs for the job on that node: driver, guard, links; not the blocks."""
        mark = f"{self.nodes[rank].mark}".encode()
        blocks = set(self.blocks(rank))
        calls = {call.pid for call in self.calls}
        return [
            pid
            for pid in processes(lambda pid: mark in environ(pid))
            if pid not in blocks and pid not in calls and not _below(pid, calls)
        ]

    def freeze(self, rank: int) -> Callable[[], None]:
        """No word from this node any more, while its connections stay open: as when it was cut off."""
        frozen = self.engine(rank)
        kill(frozen, signal.SIGSTOP)
        return lambda: kill(frozen, signal.SIGCONT)


def _below(pid: int, ancestors: set[int]) -> bool:
    try:
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(") ")[2].split()[1])
            if pid in ancestors:
                return True
    except OSError:
        return False  # it ended meanwhile
    return False


def ends(answers: list[Answer]) -> list[list[str]]:
    """State and code of each."""
    return [answer.end[:2] for answer in answers]


def reason(answer: Answer) -> str:
    return " ".join(answer.end[3:])
