"""What a client hears of one job while its log comes, and how it says that it stopped listening."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from sky.errors import Cancelled, ConnectionLost, SkyError
from sky.types import JobState, Place


@dataclass
class Stream:
    """What has been heard of one job."""

    job_id: str = ""
    state: JobState = JobState.PENDING
    code: int | None = None
    position: int = 0
    """Bytes of the log that were passed on, counted from its beginning."""
    ended: bool = False
    """All of the log that was asked for has come; never so for a job that was only submitted. When the job was
    followed, `state` and `code` are final."""
    reason: str = ""
    """Why it ended as it did, where more is known than the code."""
    end: int = -1
    """Where the node said that the log ends; negative until it did."""
    ports: tuple[str, ...] = ()
    """Where rank 0 waits for each of the others: said when a job of several nodes is submitted."""
    ranks: int = 1
    token: str = ""
    """With it the other ranks know the job: said with its log when it has several."""


OnState = Callable[[Stream], None]


def read(stream: Stream, words: list[str], base: int) -> None:
    """Take in one control line; the call began at byte `base` of the log."""
    kind, rest = words[0], words[1:]
    if kind == "job":
        stream.job_id = rest[0]
    elif kind == "state":
        stream.state = JobState(rest[0])
    elif kind == "gang":
        stream.ports = tuple(rest)
    elif kind == "ranks":
        stream.ranks, stream.token = int(rest[0]), rest[1].partition(".")[0]
    elif kind == "from":
        # Some of what follows it may have come before, on the other channel.
        stream.position += int(rest[0]) - base
    elif kind == "end":
        stream.state = JobState(rest[0])
        stream.code = int(rest[1]) if rest[1] != "-" else None
        stream.end = int(rest[2])
        stream.reason = " ".join(rest[3:])


class Sink:
    """Passes the log on and counts it.

    What comes is held back until the control line `held_until` was heard: only then is it known of which
    job and from which byte it is, without which it couldn't be taken up again.
    """

    def __init__(self, stream: Stream, out: BinaryIO, held_until: str) -> None:
        self._stream, self._out, self._held_until = stream, out, held_until
        self._held = b""
        self.placed = False

    def write(self, data: bytes) -> int:
        if self.placed:
            self._out.write(data)
        else:
            self._held += data
        self._stream.position += len(data)
        return len(data)

    def heard(self, kind: str) -> None:
        if kind == self._held_until and not self.placed:
            self.placed = True
            self._out.write(self._held)
            self._held = b""

    def forget(self) -> None:
        """What was held, as it will come again."""
        self._held = b""

    def flush(self) -> None:
        self._out.flush()


def given_up(place: Place, stream: Stream, lost: SkyError) -> ConnectionLost:
    """What is raised when a stream can't be had again."""
    cluster = place.allocation.cluster_name
    if not stream.job_id:
        return ConnectionLost(
            f"{lost.message}; whether the job was submitted isn't known", remedy=f"sky queue {cluster}"
        )
    return ConnectionLost(
        f"{lost.message}; job {stream.job_id} may still be running",
        remedy=f"sky logs {cluster} {stream.job_id}",
    )


def cancelled(place: Place, stream: Stream) -> Cancelled:
    """What is raised when the user stops following."""
    cluster = place.allocation.cluster_name
    if not stream.job_id:
        return Cancelled(
            "cancelled; whether the job was submitted isn't known", remedy=f"sky queue {cluster}"
        )
    return Cancelled(
        f"job {stream.job_id} goes on",
        remedy=f"sky logs {cluster} {stream.job_id}, sky cancel {cluster} {stream.job_id}",
    )
