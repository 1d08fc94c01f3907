"""Commands on a real Kubernetes, against kubectl doing as little as that takes."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import SKY, down_all, task_file
from benchmarks.measure import Result, pair
from benchmarks.testbeds import DEBIAN, Kubernetes


def run(bed: Kubernetes) -> Iterator[Result]:
    """Blocks."""
    with bed.node("bench") as node:
        floor = [bed.kubectl, "exec", node.rsync_host, "--", "true"]
        execute = [SKY, "exec", "bench", "--", "true"]
        yield pair("sky exec; kubectl exec", execute, floor, 2.0)
        yield pair("sky exec -d", [SKY, "exec", "bench", "-d", "--", "true"], floor, 2.0)
        yield pair("sky logs (of a finished job)", [SKY, "logs", "bench", "1"], floor, 2.0)
        yield from _launch_again(execute)
    yield from _new_cluster(bed)


def _launch_again(execute: list[str]) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        file = task_file(Path(name), 0)
        again = ["env", "-C", name, SKY, "launch", "-c", "bench", "-y", file]
        yield pair("launch on it, nothing changed; against exec", again, execute, 3.0, runs=9)


def _new_cluster(bed: Kubernetes) -> Iterator[Result]:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bench-floor"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": DEBIAN, "command": ["sleep", "1000000"]}],
        },
    }
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        pod = Path(name, "pod.json")
        pod.write_text(json.dumps(manifest))
        plain, mounts = task_file(Path(name), 0), task_file(Path(other), 4)

        def floor() -> None:
            for args in (
                ["apply", "-f", str(pod)],
                ["wait", "--for=condition=Ready", "pod/bench-floor", "--timeout=60s"],
                ["exec", "bench-floor", "--", "true"],
                ["exec", "bench-floor", "--", "true"],
            ):
                subprocess.run([bed.kubectl, *args], check=True, capture_output=True)

        def clean() -> None:
            down_all()
            gone = ["delete", "pod", "bench-floor", "--ignore-not-found", "--wait"]
            subprocess.run([bed.kubectl, *gone], check=True, capture_output=True)

        new = [SKY, "launch", "-c", "bench-new", *bed.ask_debian]
        setup = [*new, "--env", "A=1", plain]
        without = ["env", "-C", name, *setup]
        yield pair("new cluster, setup and run", without, floor, 1.5, runs=7, between=clean)
        yield pair("  and four file mounts more", ["env", "-C", other, *new, mounts], without, 0.5, unit="s", runs=7, between=clean)  # fmt: skip  # noqa: E501
        clean()
