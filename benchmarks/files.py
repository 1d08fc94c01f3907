"""Files up to a node, against plain tools over the same connection."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import SKY
from benchmarks.measure import Result, pair
from benchmarks.testbeds import SSH, Kubernetes, Node

LIMIT = 1.2


@dataclass(frozen=True)
class Sources:
    """Local directories."""

    small: Path
    """1000 files of 150 to 200 bytes."""
    big: Path
    """One file, `data`, of 200 MB that don't compress."""
    many: Path
    """100 directories of 1000 small files."""


def make_sources(parent: Path) -> Sources:
    """Blocks for seconds."""
    sources = Sources(parent / "small", parent / "big", parent / "many")
    _fill(sources.small)
    sources.big.mkdir()
    (sources.big / "data").write_bytes(os.urandom(200_000_000))
    for number in range(100):
        _fill(sources.many / str(number))
    return sources


def _fill(directory: Path) -> None:
    directory.mkdir(parents=True)
    for number in range(1000):
        (directory / f"{number}.txt").write_text(f"{number}\n" * 50)


def run(bed: SSH | Kubernetes, sources: Sources) -> Iterator[Result]:
    """Blocks. Both ways write to the same place; where all is to be sent, it's removed before each.

    Many files go to memory where there is enough: on a disk, more rounds would tell how busy that is, nothing of ours.
    """
    with bed.node("bench") as node:
        lines = _Lines(bed.name, node, f"{node.home}/bench-{os.getpid()}")
        yield lines.one("1000 small files", sources.small, 7)
        yield lines.one("1000 small files, none changed", sources.small, 7, keep=True)
        yield lines.one("200 MB", sources.big, 3)
        if isinstance(bed, Kubernetes):
            on_it, there = " ".join(node.shell), lines.there
            tar = f"tar cf - -C {sources.small} . | {on_it} sh -c 'mkdir {there} && tar xf - -C {there}'"
            yield lines.one("1000 small files", sources.small, 7, plain=("tar", tar))
            cat = f"{on_it} sh -c 'mkdir {there} && cat >{there}/data' <{sources.big}/data"
            yield lines.one("200 MB", sources.big, 3, plain=("cat", cat))
        lines.clean()
        where = ""
        if node.memory:
            where, lines = ", to memory", _Lines(bed.name, node, f"{node.memory}/bench-{os.getpid()}")
            yield lines.one(f"1000 small files{where}", sources.small, 7)
        yield lines.one(f"100,000 files{where}", sources.many, 2 if where else 1, warm_up=False)
        yield lines.one("100,000 files, none changed", sources.many, 2, keep=True)
        lines.clean()


@dataclass(frozen=True)
class _Lines:
    bed: str
    node: Node
    there: str
    """A directory on the node."""

    def one(
        self,
        what: str,
        source: Path,
        runs: int,
        *,
        keep: bool = False,
        warm_up: bool = True,
        plain: tuple[str, str] | None = None,
    ) -> Result:
        """`plain`: the floor's name and its shell line; rsync without one. `keep`: what is there stays."""
        name, line = plain or ("rsync", shlex.join(self._rsync(source)))
        between = (lambda: None) if keep else self.clean
        ours = [SKY, "rsync", str(source), f"bench:{self.there}"]
        title = f"{self.bed}: {what}; {name}"
        floor = ["sh", "-c", line]
        return pair(title, ours, floor, LIMIT, runs=runs, warm_up=warm_up, between=between)

    def clean(self) -> None:
        subprocess.run([*self.node.shell, "rm", "-rf", self.there], check=True, capture_output=True)

    def _rsync(self, source: Path) -> list[str]:
        host = f"{self.node.rsync_host}:{self.there}"
        return ["rsync", "-rlpt", "-e", self.node.remote_shell, f"{source}/", host]
