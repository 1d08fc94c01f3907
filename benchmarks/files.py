"""Files up to a node, against plain tools over the same connection."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
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
    """Blocks. Both ways write to the same place; where all is to be sent, it's removed before each."""
    with bed.node("bench") as node:
        there = f"{node.home}/t"

        def clean() -> None:
            subprocess.run([*node.shell, "rm", "-rf", there], check=True, capture_output=True)

        def compare(
            what: str,
            source: Path,
            runs: int,
            between: Callable[[], None] = lambda: None,
            floor: list[str] | None = None,
            warm_up: bool = True,
        ) -> Result:
            ours = [SKY, "rsync", str(source), "bench:t"]
            plain = floor or _rsync(node, source, there)
            title = f"{bed.name}: {what}{'' if floor else '; rsync'}"
            return pair(title, ours, plain, LIMIT, runs=runs, warm_up=warm_up, between=between)

        yield compare("1000 small files", sources.small, 7, clean)
        yield compare("1000 small files, none changed", sources.small, 7)
        yield compare("200 MB", sources.big, 5, clean)
        yield compare("100,000 files", sources.many, 2, clean, warm_up=False)
        yield compare("100,000 files, none changed", sources.many, 2)
        if isinstance(bed, Kubernetes):
            on_it = " ".join(node.shell)
            tar = f"tar cf - -C {sources.small} . | {on_it} sh -c 'mkdir {there} && tar xf - -C {there}'"
            yield compare("1000 small files; tar", sources.small, 7, clean, ["sh", "-c", tar])
            cat = f"{on_it} sh -c 'mkdir {there} && cat >{there}/data' <{sources.big}/data"
            yield compare("200 MB; cat", sources.big, 5, clean, ["sh", "-c", cat])
        clean()


def _rsync(node: Node, source: Path, there: str) -> list[str]:
    return ["rsync", "-rlpt", "-e", node.remote_shell, f"{source}/", f"{node.rsync_host}:{there}"]
