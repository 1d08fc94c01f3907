"""The clusters that this machine knows of: rows written before the first call to a cloud, and their locks."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import hashlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sky import paths
from sky.errors import UsageError
from sky.state import codec, db

if TYPE_CHECKING:
    from sky.cancellation import CancelToken
    from sky.types import Allocation, Host, Offer


class ClusterStatus(enum.StrEnum):
    """What was last known of a cluster."""

    INIT = "INIT"
    """Being created, or its creation was cut short: it may exist and cost money."""
    UP = "UP"
    STOPPED = "STOPPED"
    ENDED = "ENDED"
    """It ended by itself or was taken away: it costs nothing, and is removed by the next `down` or launch."""
    FAILED = "FAILED"
    """It exists and will not run as it is; `reason` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One row. `spec` is what was asked for, as stored by the launch: offer, num_nodes, tags."""

    name: str
    id: str
    status: ClusterStatus
    cloud: str
    spec: Mapping[str, Any]
    allocation: Allocation | None
    hosts: tuple[Host, ...]
    reason: str
    created_at: float
    identity: str
    last_use: str

    @property
    def offer(self) -> Offer | None:
        return codec.offer_from(self.spec.get("offer"))

    @property
    def num_nodes(self) -> int:
        return int(self.spec.get("num_nodes", 1))


class State:
    """The state file, opened on first use. Close it, or use it in `with`."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = db.connect()
        return self._connection

    def __enter__(self) -> State:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Raises `SkyError` for what the disk or the file is to blame for."""
        try:
            return self.connection.execute(sql, values)
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            raise db.failure(error) from error

    def get(self, name: str) -> Cluster | None:
        if not db.path().exists():
            return None
        row = self._execute("SELECT * FROM clusters WHERE name = ?", (name,)).fetchone()
        return _cluster(row) if row else None

    def require(self, name: str) -> Cluster:
        """The cluster, or `UsageError` with the nearest name."""
        found = self.get(name)
        if found is None:
            names = [cluster.name for cluster in self.all()]
            from difflib import get_close_matches

            near = get_close_matches(name, names, 1)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else "sky status lists clusters; --rebuild finds lost ones"
            )
            raise UsageError(f"no cluster named {name!r}", remedy=hint)
        return found

    def all(self) -> list[Cluster]:
        """Every cluster, newest first. Reads nothing but the file, and makes none."""
        if not db.path().exists():
            return []
        rows = self._execute("SELECT * FROM clusters ORDER BY created_at DESC, name")
        return [_cluster(row) for row in rows]

    def add(
        self, name: str, cluster_id: str, cloud: str, spec: Mapping[str, Any], identity: str, use: str
    ) -> None:
        """Write the row that makes a cluster ours, before anything is asked of its cloud."""
        try:
            self._execute(
                "INSERT INTO clusters (name, id, status, cloud, spec, created_at, identity, last_use)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (name, cluster_id, ClusterStatus.INIT, cloud, json.dumps(spec), time.time(), identity, use),
            )
        except sqlite3.IntegrityError as error:
            raise UsageError(f"a cluster named {name!r} exists already") from error

    def update(self, name: str, **values: Any) -> None:
        """Change columns of a row. Objects are given as such: allocation, hosts, status."""
        if "allocation" in values:
            values["allocation"] = codec.allocation_to(values["allocation"])
        if "hosts" in values:
            values["hosts"] = codec.hosts_to(values["hosts"])
        if "spec" in values:
            values["spec"] = json.dumps(values["spec"])
        assignments = ", ".join(f"{column} = ?" for column in values)
        self._execute(f"UPDATE clusters SET {assignments} WHERE name = ?", (*values.values(), name))

    def remove(self, name: str) -> None:
        """Forget a cluster: only after its cloud said that nothing of it is left, or by `--purge`."""
        self._execute("DELETE FROM clusters WHERE name = ?", (name,))

    @contextlib.contextmanager
    def intent(self, cluster: str, cluster_id: str, step: str, detail: str = "") -> Iterator[None]:
        """Record that `step` is about to be done, and how it ended. A row without an end was cut short."""
        cursor = self._execute(
            "INSERT INTO intents (cluster_id, cluster_name, step, detail, started_at) VALUES (?, ?, ?, ?, ?)",
            (cluster_id, cluster, step, detail, time.time()),
        )
        outcome = "cut short"
        try:
            yield
            outcome = "done"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._execute(
                "UPDATE intents SET ended_at = ?, outcome = ? WHERE number = ?",
                (time.time(), outcome, cursor.lastrowid),
            )


def _cluster(row: sqlite3.Row) -> Cluster:
    values = dict(row)
    values["status"] = ClusterStatus(values["status"])
    values["spec"] = json.loads(values["spec"])
    values["allocation"] = codec.allocation_from(values["allocation"])
    values["hosts"] = codec.hosts_from(values["hosts"])
    return Cluster(**values)


@contextlib.contextmanager
def locked(name: str, cancel: CancelToken, tell: Any) -> Iterator[None]:
    """One command at a time changes a cluster. Blocks; `tell(holder)` is called once if it must wait.

    A lock of the kernel's: it ends with its process, however that ends. Raises `Cancelled`.
    """
    file = paths.private("locks") / hashlib.sha256(name.encode()).hexdigest()[:24]
    fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        told = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    told = True
                    tell(os.pread(fd, 4096, 0).decode("utf-8", "replace").strip() or "another command")
                cancel.wait(0.1)
                cancel.check()
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{command} (pid {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(fd)
