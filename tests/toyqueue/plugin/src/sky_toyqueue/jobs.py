"""The queue's own interface: a job is a directory below `jobs/`, numbered in the order of submission."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from sky.api import Context, HostGone, Job, JobReference, JobState, JobStatus, Place
from sky_toyqueue.places import DOCUMENT, pause, root, served
from sky_toyqueue.worker import job_directories


def submit(place: Place, job: Job) -> JobReference:
    """Idempotent by token: the directory appears whole, under a lock, or not at all."""
    at = _at(place)
    with open(at / "submit.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = job_directories(at)
        for directory in known:
            if _document(directory)["token"] == job.token:
                return _reference(place, directory)
        new = at / "jobs" / f".{job.token}"
        shutil.rmtree(new, ignore_errors=True)  # left by a client that was killed in the middle
        new.mkdir(mode=0o700)
        document = {
            "token": job.token,
            "name": job.name,
            "setup": job.setup,
            "run": job.run,
            "envs": dict(job.envs),
            "secrets": dict(job.secrets),
            "submitted_at": time.time(),
        }
        (new / "job.json").write_text(json.dumps(document), encoding="utf-8")
        (new / "log").touch()
        directory = at / "jobs" / str(int(known[-1].name) + 1 if known else 1)
        new.rename(directory)
        return _reference(place, directory)


def query(place: Place, references: Sequence[JobReference] | None) -> list[JobStatus]:
    wanted = None if references is None else {reference.id for reference in references}
    return [
        _status(place, directory)
        for directory in job_directories(_at(place))
        if wanted is None or directory.name in wanted
    ]


def cancel(ctx: Context, place: Place, reference: JobReference) -> None:
    """Ask the worker, and wait until it has done so."""
    directory = _at(place) / "jobs" / reference.id
    if not reference.id.isdigit() or not directory.is_dir():
        return
    (directory / "cancel").touch()
    while not _status(place, directory).state.final:
        pause(ctx, f"cancelling job {reference.id}")


def _at(place: Place) -> Path:
    at = root() / place.allocation.id
    if not (at / DOCUMENT).exists():
        raise HostGone(f"cluster {place.allocation.cluster_name!r} is no more")
    return at


def _document(directory: Path) -> dict[str, object]:
    return json.loads((directory / "job.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _reference(place: Place, directory: Path) -> JobReference:
    return JobReference(
        id=directory.name,
        token=str(_document(directory)["token"]),
        log_host=place.hosts[0],
        log_path=str(directory / "log"),
    )


def _status(place: Place, directory: Path) -> JobStatus:
    asked = json.loads((directory / "job.json").read_text(encoding="utf-8"))
    try:
        now = json.loads((directory / "state.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        now = {"state": "PENDING", "exit_code": None, "started_at": None, "ended_at": None}
    state = JobState(now["state"])
    if state in (JobState.RUNNING, JobState.SETTING_UP) and not served(_at(place)):
        state = JobState.UNKNOWN  # its worker died: nobody saw how it ended
    return JobStatus(
        id=directory.name,
        name=asked["name"],
        state=state,
        exit_code=now["exit_code"],
        submitted_at=asked["submitted_at"],
        started_at=now["started_at"],
        ended_at=now["ended_at"],
        reference=_reference(place, directory),
    )
