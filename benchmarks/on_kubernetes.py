"""Commands on a real Kubernetes, against kubectl doing as little as that takes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Result, pair
from benchmarks.startup import SKY

IMAGE = "docker.io/library/debian:testbed"
ASK = ["--infra", "kubernetes", "--image-id", f"docker:{IMAGE}", "--cpus", "0.1", "--memory", "0.2", "-y"]


def run(kubectl: str) -> Iterator[Result]:
    """Needs KUBECONFIG in the environment, and the three images of the testbed."""
    sky("launch", "-c", "bench", *ASK, "--", "true")
    try:
        pod = hosts("bench")[0]["name"]
        floor = [kubectl, "exec", pod, "--", "true"]
        execute = [SKY, "exec", "bench", "--", "true"]
        yield pair("sky exec", execute, floor, 2.0)
        yield pair("sky exec -d", [SKY, "exec", "bench", "-d", "--", "true"], floor, 2.0)
        yield pair("sky logs (of a finished job)", [SKY, "logs", "bench", "1"], floor, 2.0)
        yield from _launch_again(execute)
        yield from _files(kubectl, pod)
    finally:
        sky("down", "bench", "-y")
    yield from _new_cluster(kubectl)


def sky(*args: str) -> None:
    done = subprocess.run([SKY, *args], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"sky {' '.join(args)}: {done.returncode}\n{done.stderr}")


def hosts(cluster: str) -> list[dict[str, str]]:
    done = subprocess.run([SKY, "status", cluster, "-o", "json"], capture_output=True, check=True)
    found: list[dict[str, str]] = json.loads(done.stdout)["clusters"][0]["hosts"]
    return found


def task_file(directory: Path, mounts: int) -> str:
    (directory / "work").mkdir()
    for number in range(10):
        (directory / "work" / f"{number}.py").write_text(f"print({number})\n")
    lines = ["workdir: work", "setup: 'true'", "run: 'true'"]
    if mounts:
        lines.append("file_mounts:")
    for number in range(mounts):
        (directory / f"m{number}").mkdir()
        for name in range(5):
            (directory / f"m{number}" / str(name)).write_text("x" * 1000)
        lines.append(f"  ~/m{number}: m{number}")
    path = directory / "task.yaml"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _launch_again(execute: list[str]) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        file = task_file(Path(name), 0)
        again = ["env", "-C", name, SKY, "launch", "-c", "bench", "-y", file]
        yield pair("launch on it, nothing changed; against exec", again, execute, 3.0, runs=9)


def _files(kubectl: str, pod: str) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        small, big = Path(name, "small"), Path(name, "big")
        small.mkdir()
        big.mkdir()
        for number in range(1000):
            (small / f"{number}.txt").write_text(f"{number}\n" * 50)
        (big / "data").write_bytes(os.urandom(200_000_000))

        def clean() -> None:
            subprocess.run(
                [kubectl, "exec", pod, "--", "rm", "-rf", "/root/t"], check=True, capture_output=True
            )

        def by_tar(source: Path) -> Callable[[], None]:
            into = "mkdir -p /root/t && tar xf - -C /root/t"
            line = f"tar cf - -C {source} . | {kubectl} exec -i {pod} -- sh -c '{into}'"
            return lambda: subprocess.run(["sh", "-c", line], check=True, capture_output=True) and None

        cat = f"{kubectl} exec -i {pod} -- sh -c 'mkdir -p /root/t && cat >/root/t/data' <{big}/data"
        up = [SKY, "rsync"]
        yield pair("1000 small files; tar over kubectl exec", [*up, f"{small}", "bench:t"], by_tar(small), 1.2, runs=7, between=clean)  # fmt: skip  # noqa: E501
        yield pair("200 MB; cat over kubectl exec", [*up, f"{big}", "bench:t"], ["sh", "-c", cat], 1.2, runs=5, between=clean)  # fmt: skip  # noqa: E501


def _new_cluster(kubectl: str) -> Iterator[Result]:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bench-floor"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "1000000"]}],
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
                subprocess.run([kubectl, *args], check=True, capture_output=True)

        def clean() -> None:
            sky("down", "-a", "-y")
            gone = ["delete", "pod", "bench-floor", "--ignore-not-found", "--wait"]
            subprocess.run([kubectl, *gone], check=True, capture_output=True)

        new = [SKY, "launch", "-c", "bench-new", *ASK]
        setup = [*new, "--env", "A=1", plain]
        without = ["env", "-C", name, *setup]
        yield pair("new cluster, setup and run", without, floor, 1.5, runs=7, between=clean)
        yield pair("  and four file mounts more", ["env", "-C", other, *new, mounts], without, 0.5, unit="s", runs=7, between=clean)  # fmt: skip  # noqa: E501
        clean()
