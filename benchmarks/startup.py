"""What is paid before anything is done: against an interpreter that imports click."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import SKY
from benchmarks.measure import Result, pair

FLOOR = [sys.executable, "-c", "import click"]


def run(home: Path) -> Iterator[Result]:
    """Needs SKY_HOME=`home` in the environment."""
    yield pair("sky --help", [SKY, "--help"], FLOOR, 1.5)
    yield pair("sky --version", [SKY, "--version"], FLOOR, 1.5)
    complete = ["env", "_SKY_COMPLETE=bash_complete", "COMP_WORDS=sky la", "COMP_CWORD=1", SKY]
    yield pair("completion of a command", complete, FLOOR, 1.5)
    twenty_clusters(home)
    yield pair("sky status, 20 clusters", [SKY, "status"], FLOOR, 2.0)


def twenty_clusters(home: Path) -> None:
    """Rows like those that launches leave, made by a launch on `local` and copied."""
    subprocess.run(
        [SKY, "launch", "-c", "c0", "--infra", "local", "-y", "--", "true"], check=True, capture_output=True
    )
    with sqlite3.connect(home / "sky.db", isolation_level=None) as db:
        row = db.execute("SELECT * FROM clusters WHERE name = 'c0'").fetchone()
        names = [column[1] for column in db.execute("PRAGMA table_info(clusters)")]
        for number in range(1, 20):
            values = dict(zip(names, row, strict=True)) | {
                "name": f"c{number}",
                "id": f"sky-c{number}",
                "created_at": time.time(),
            }
            db.execute(f"INSERT INTO clusters VALUES ({', '.join('?' * len(names))})", list(values.values()))


def remove_clusters(home: Path) -> None:
    with sqlite3.connect(home / "sky.db", isolation_level=None) as db:
        db.execute("DELETE FROM clusters WHERE name != 'c0'")
    subprocess.run([SKY, "down", "c0", "-y"], check=True, capture_output=True)
