"""Ending everything that runs on a local cluster, whatever it did to get away from its parents."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from sky.api import Context

COOKIE = "SKY_LOCAL_CLUSTER"
GRACE_SECONDS = 2.0


def end(ctx: Context, cluster_id: str) -> None:
    """Stop all members, then TERM, then KILL after a grace. Blocks until none is left, or `ctx` says stop.

    A process that cleared its environment, left its session and was given to pid 1 before the first look
    escapes: nothing tells it from any other process of the user.
    """
    known: set[int] = set()
    while new := members(cluster_id, known) - known:
        known |= new
        _signal(new, signal.SIGSTOP)
    _signal(known, signal.SIGTERM)
    _signal(known, signal.SIGCONT)
    started = time.monotonic()
    while living := members(cluster_id, known):
        known |= living
        if time.monotonic() - started > GRACE_SECONDS:
            _signal(living, signal.SIGKILL)
        ctx.cancel.wait(0.02)
        ctx.cancel.check()


def members(cluster_id: str, known: set[int]) -> set[int]:
    """Living processes with the cluster's cookie, their descendants and sessions, and those of `known`."""
    table = _table()
    mark = f"{COOKIE}={cluster_id}".encode()
    found = {pid for pid in table if pid in known or mark in _environment(pid)}
    while True:
        groups = {n for pid in found for n in (pid, *table[pid][1:]) if n > 1}
        more = {pid for pid, row in table.items() if pid not in found and groups.intersection(row)}
        if not more:
            return found - {1, os.getpid()}
        found |= more


def _table() -> dict[int, tuple[int, int, int]]:
    """pid → (parent, group, session) of every living process, but ourselves and our ancestors."""
    table = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                words = Path(entry.path, "stat").read_bytes().rpartition(b") ")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if words[0] not in (b"Z", b"X"):
                table[int(entry.name)] = (int(words[1]), int(words[2]), int(words[3]))
    pid = os.getpid()
    while pid in table:
        pid = table.pop(pid)[0]
    return table


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # it ended meanwhile, or is another user's


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
