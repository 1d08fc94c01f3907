"""The installed `sky`, and what the measured commands are given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SKY = str(Path(sys.executable).with_name("sky"))


def sky(*args: str) -> None:
    """Run it; whatever goes wrong ends the benchmark with what it said."""
    done = subprocess.run([SKY, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"sky {' '.join(args)}: {done.returncode}\n{done.stderr}")


def hosts(cluster: str) -> list[dict[str, str]]:
    """The nodes of a cluster, by rank."""
    done = subprocess.run([SKY, "status", cluster, "-o", "json"], capture_output=True, check=True)
    found: list[dict[str, str]] = json.loads(done.stdout)["clusters"][0]["hosts"]
    return found


def down_all() -> None:
    """Leave no cluster."""
    sky("down", "-a", "-y")


def task_file(directory: Path, mounts: int = 0) -> str:
    """A small task with a workdir, setup and run, which are relative to `directory`."""
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
