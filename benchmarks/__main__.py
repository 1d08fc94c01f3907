"""python -m benchmarks [startup|kubernetes]: prints every budget beside its floor, measured in this run.

Exit code 1 when a budget is not met. Each line: milliseconds of whole processes, ours and the floor by
turns (minimum, median, maximum), the ratio or difference of the medians, and the budget.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure, on_kubernetes, startup
from benchmarks.measure import Result

TESTBED = Path(os.environ.get("SKY_TESTBED") or Path.home() / ".cache/sky-testbed") / "kubernetes"


def results(wanted: list[str], home: Path) -> Iterator[Result]:
    if not wanted or "startup" in wanted:
        yield from startup.run(home)
        startup.remove_clusters(home)
    if not wanted or "kubernetes" in wanted:
        kubectl = TESTBED / "bin/kubectl"
        if not kubectl.exists():
            print("kubernetes: left out, there is no testbed here (make testbed)")
            return
        os.environ["KUBECONFIG"] = str(TESTBED / "kubeconfig")
        yield from on_kubernetes.run(str(kubectl))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sky-bench-") as name:
        os.environ["SKY_HOME"] = name
        os.environ["XDG_DATA_HOME"] = name
        print(measure.HEAD)
        over = 0
        for result in results(sys.argv[1:], Path(name)):
            measure.show(result)
            over += not result.met
    return 1 if over else 0


sys.exit(main())
