"""Commands on a real host with sshd, against ssh doing as little as that takes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import SKY, task_file
from benchmarks.measure import Result, pair
from benchmarks.testbeds import SSH

MORE_SECONDS = 0.15


def run(bed: SSH) -> Iterator[Result]:
    """Blocks. The floor is a session of the very connection that sky's commands use; cold, a new connection."""
    with bed.node("bench") as node:
        floor = [*node.shell, "true"]
        execute = [SKY, "exec", "bench", "--", "true"]
        for name, command in (
            ("sky exec; ssh, same connection", execute),
            ("sky exec -d", [SKY, "exec", "bench", "-d", "--", "true"]),
            ("sky logs (of a finished job)", [SKY, "logs", "bench", "1"]),
        ):
            yield pair(name, command, floor, MORE_SECONDS, unit="s")
        cold = [*bed.cold, "true"]
        name = "sky exec, not yet connected; ssh"
        yield pair(name, execute, cold, MORE_SECONDS, unit="s", between=bed.disconnect)
        with tempfile.TemporaryDirectory() as directory:
            file = task_file(Path(directory))
            again = ["env", "-C", directory, SKY, "launch", "-c", "bench", "-y", file]
            yield pair("launch on it, nothing changed; against exec", again, execute, 3.0, runs=9)
