"""Run as `python -m sky_toyqueue.worker PLACE`: runs the jobs of one place, one after another, oldest first.

It alone writes `state.json` of a job. A request to cancel is the file `cancel` in the job's directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from sky_toyqueue.places import DOCUMENT, LOCK, replace_file

POLL_SECONDS = 0.02
GRACE_SECONDS = 2.0
CANCELLED = -1


def main(place: Path) -> None:
    """Serve until the place is taken away."""
    try:
        with open(place / LOCK, "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while (place / DOCUMENT).exists():
                job = next((job for job in job_directories(place) if not (job / "state.json").exists()), None)
                if job is None:
                    time.sleep(POLL_SECONDS)
                else:
                    _run(place, job)
    except (BlockingIOError, FileNotFoundError):
        return  # another worker serves it, or it is gone


def job_directories(place: Path) -> list[Path]:
    """Every job that was accepted, oldest first."""
    return sorted((p for p in (place / "jobs").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))


def _run(place: Path, job: Path) -> None:
    asked = json.loads((job / "job.json").read_text(encoding="utf-8"))
    started = time.time()

    def note(state: str, code: int | None = None, ended: float | None = None) -> None:
        replace_file(
            job / "state.json",
            json.dumps({"state": state, "exit_code": code, "started_at": started, "ended_at": ended}),
        )

    if (job / "cancel").exists():
        note("CANCELLED", ended=time.time())
        return
    for block, running, failed in (("setup", "SETTING_UP", "FAILED_SETUP"), ("run", "RUNNING", "FAILED")):
        if asked[block] is None:
            continue
        note(running)
        code = _block(place, job, asked[block], {**asked["envs"], **asked["secrets"]})
        if code == CANCELLED:
            note("CANCELLED", ended=time.time())
            return
        if code != 0:
            note(failed, code, time.time())
            return
    note("SUCCEEDED", 0, time.time())


def _block(place: Path, job: Path, script: str, envs: dict[str, str]) -> int:
    """Run one block to its end; its exit code, or CANCELLED."""
    home = place / "home"
    work = home / "sky_workdir"
    with open(job / "log", "ab") as log:
        process = subprocess.Popen(
            ["sh", "-c", script],
            cwd=work if work.is_dir() else home,
            env={**os.environ, **envs, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    while (code := process.poll()) is None:
        if (job / "cancel").exists() or not (place / DOCUMENT).exists():
            _end(process)
            return CANCELLED
        time.sleep(POLL_SECONDS)
    return code if code >= 0 else 128 - code


def _end(process: subprocess.Popen[bytes]) -> None:
    """TERM for all of its session's group, then KILL after a grace."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
