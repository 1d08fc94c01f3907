"""Installing distributions for a test, without a network: real wheels, real metadata, in a directory of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

UV = Path(sys.executable).with_name("uv")


def install(target: Path, *projects: Path) -> Path:
    """Build the projects with the environment's own hatchling and install them into `target`. Blocks.

    `target` on PYTHONPATH makes them part of an interpreter. What is there already is replaced.
    """
    command = [
        str(UV),
        *[
            "pip",
            "install",
            "--quiet",
            "--offline",
            "--no-deps",
            "--no-build-isolation",
            "--reinstall",
            "--no-cache",
        ],
        *("--python", sys.executable, "--target", str(target)),
        *map(str, projects),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target
