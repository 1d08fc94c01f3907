"""python -m benchmarks [startup|kubernetes|ssh|files|nodes]: every budget beside its floor, measured in this run.

Exit code 1 when a budget is not met. Each line: milliseconds of whole processes, ours and the floor by
turns (minimum, median, maximum), the ratio or difference of the medians, and the budget.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import files, measure, nodes, on_kubernetes, on_ssh, startup, testbeds
from benchmarks.measure import Result


def _startup(home: Path) -> Iterator[Result]:
    yield from startup.run(home)
    startup.remove_clusters(home)


def _kubernetes(home: Path) -> Iterator[Result]:
    with testbeds.kubernetes() as bed:
        yield from on_kubernetes.run(bed) if bed else ()


def _ssh(home: Path) -> Iterator[Result]:
    with testbeds.ssh(home) as bed:
        yield from on_ssh.run(bed) if bed else ()


def _files(home: Path) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        sources = files.make_sources(Path(name))
        with testbeds.ssh(home) as hosts:
            yield from files.run(hosts, sources) if hosts else ()
        with testbeds.kubernetes() as pods:
            yield from files.run(pods, sources) if pods else ()


def _nodes(home: Path) -> Iterator[Result]:
    yield from nodes.run(testbeds.Local())
    with testbeds.ssh(home) as hosts:
        yield from nodes.run(hosts) if hosts else ()
    with testbeds.kubernetes() as pods:
        yield from nodes.run(pods) if pods else ()


SECTIONS: dict[str, Callable[[Path], Iterator[Result]]] = {
    "startup": _startup,
    "kubernetes": _kubernetes,
    "ssh": _ssh,
    "files": _files,
    "nodes": _nodes,
}


def main(wanted: list[str]) -> int:
    if unknown := [name for name in wanted if name not in SECTIONS]:
        raise SystemExit(f"no section {unknown[0]!r}: {', '.join(SECTIONS)}")
    over = 0
    with tempfile.TemporaryDirectory(prefix="sky-bench-") as home:
        os.environ.update(SKY_HOME=home, XDG_DATA_HOME=home)
        print(measure.HEAD)
        for name in wanted or SECTIONS:
            print(f"{name}:", flush=True)
            for result in SECTIONS[name](Path(home)):
                measure.show(result)
                over += not result.met
    return 1 if over else 0


sys.exit(main(sys.argv[1:]))
