"""Files up to a node, against plain tools over the same connection."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.commands import SKY
from benchmarks.measure import Result, pair
from benchmarks.testbeds import SSH, Kubernetes, Node

LIMIT = 1.2
DIRECTORIES, EACH = 100, 1000


def run(bed: SSH | Kubernetes) -> Iterator[Result]:
    """Blocks. Both ways write to the same place; where all is to be sent, it's removed before each."""
    with bed.node("bench") as node, tempfile.TemporaryDirectory() as name:
        there = f"{node.home}/t"

        def clean() -> None:
            subprocess.run([*node.shell, "rm", "-rf", there], check=True, capture_output=True)

        def compare(what: str, source: Path, runs: int, between: Callable[[], None] = lambda: None) -> Result:
            title = f"{bed.name}: {what}; rsync"
            ours = [SKY, "rsync", str(source), "bench:t"]
            return pair(title, ours, _rsync(node, source, there), LIMIT, runs=runs, between=between)

        small, big, many = _small(Path(name)), _big(Path(name)), _many(Path(name))
        yield compare("1000 small files", small, 7, clean)
        yield compare("1000 small files, none changed", small, 7)
        yield compare("200 MB", big, 5, clean)
        yield compare("100,000 files", many, 2, clean)
        yield compare("100,000 files, none changed", many, 2)
        if isinstance(bed, Kubernetes):
            on_it = " ".join(node.shell)
            tar = f"tar cf - -C {small} . | {on_it} sh -c 'mkdir {there} && tar xf - -C {there}'"
            cat = f"{on_it} sh -c 'mkdir {there} && cat >{there}/data' <{big}/data"
            for what, source, floor, runs in (
                ("1000 small files; tar", small, tar, 7),
                ("200 MB; cat", big, cat, 5),
            ):
                ours = [SKY, "rsync", str(source), "bench:t"]
                plain = ["sh", "-c", floor]
                yield pair(f"{bed.name}: {what}", ours, plain, LIMIT, runs=runs, between=clean)
        clean()


def _rsync(node: Node, source: Path, there: str) -> list[str]:
    return ["rsync", "-rlpt", "-e", node.remote_shell, f"{source}/", f"{node.rsync_host}:{there}"]


def _small(parent: Path) -> Path:
    made = parent / "small"
    made.mkdir()
    for number in range(1000):
        (made / f"{number}.txt").write_text(f"{number}\n" * 50)
    return made


def _big(parent: Path) -> Path:
    made = parent / "big"
    made.mkdir()
    (made / "data").write_bytes(os.urandom(200_000_000))
    return made


def _many(parent: Path) -> Path:
    made = parent / "many"
    for directory in range(DIRECTORIES):
        (made / str(directory)).mkdir(parents=True)
        for number in range(EACH):
            (made / str(directory) / f"{number}.txt").write_text(f"{number}\n" * 20)
    return made
