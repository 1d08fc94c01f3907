"""Several nodes against one: ours against ours."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import SKY, sky, task_file
from benchmarks.measure import Result, pair
from benchmarks.testbeds import SSH, Kubernetes, Local

LIMIT = 1.3


def run(bed: Local | SSH | Kubernetes) -> Iterator[Result]:
    """Blocks. A new cluster with workdir, setup and run; then one line on all of its nodes, and on one."""
    with tempfile.TemporaryDirectory() as name:
        new = ["env", "-C", name, SKY, "launch", "-c", "bench", *bed.ask, task_file(Path(name))]
        title = f"{bed.name}: new cluster of 3 nodes; of 1"
        yield pair(title, [*new, "--num-nodes", "3"], new, LIMIT, runs=5, between=bed.down_all)
    bed.down_all()
    sky("launch", "-c", "bench", *bed.ask, "--num-nodes", "3", "--", "true")
    try:
        execute = [SKY, "exec", "bench", "--num-nodes"]
        several, one = [*execute, "3", "--", "true"], [*execute, "1", "--", "true"]
        yield pair(f"{bed.name}: exec on 3 nodes; on 1", several, one, None, runs=9)
    finally:
        bed.down_all()
