"""The one SQLite file: opening it, its schema and its migrations."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from sky import paths
from sky.errors import SkyError

MIGRATIONS = (
    """
    CREATE TABLE clusters (
        name TEXT PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL,
        cloud TEXT NOT NULL,
        spec TEXT NOT NULL,
        allocation TEXT,
        hosts TEXT NOT NULL DEFAULT '[]',
        reason TEXT NOT NULL DEFAULT '',
        created_at REAL NOT NULL,
        identity TEXT NOT NULL DEFAULT '',
        last_use TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE intents (
        number INTEGER PRIMARY KEY,
        cluster_id TEXT NOT NULL,
        cluster_name TEXT NOT NULL,
        step TEXT NOT NULL,
        detail TEXT NOT NULL,
        started_at REAL NOT NULL,
        ended_at REAL,
        outcome TEXT
    ) STRICT;
    CREATE INDEX intents_of_cluster ON intents (cluster_id, number);
    """,
)
"""Each takes the schema one version further; user_version counts those that were applied. Only ever append."""


def path() -> Path:
    return paths.home() / "sky.db"


def connect() -> sqlite3.Connection:
    """Open it, made or migrated if need be; private, WAL, waiting up to 10 s for a writer. Close it yourself.

    Where nothing can be written it's opened as it is, to be read.

    Raises `SkyError` when it can't be opened, is damaged, or was written by a newer version.
    """
    file = path()
    if not file.exists():
        paths.private()
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    name, uri = str(file), False
    if not os.access(file.parent, os.W_OK):
        # WAL needs to write beside the file even to read it; what can't change can be read without.
        name, uri = f"{file.absolute().as_uri()}?mode=ro&immutable=1", True
    try:
        connection = sqlite3.connect(name, timeout=10, isolation_level=None, check_same_thread=False, uri=uri)
        connection.row_factory = sqlite3.Row
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < len(MIGRATIONS):
            _migrate(connection)
        elif version > len(MIGRATIONS):
            raise SkyError(
                f"{file} was written by a newer Sky (schema {version}, this one knows {len(MIGRATIONS)})",
                remedy="upgrade sky-core",
            )
    except sqlite3.DatabaseError as error:
        raise failure(error) from error
    return connection


_REMEDIES = {
    "SQLITE_FULL": "make room there, or name another directory in SKY_HOME",
    "SQLITE_READONLY": "make it writable, or name another directory in SKY_HOME",
    "SQLITE_BUSY": "another command is writing to it: try again",
    "SQLITE_IOERR": "look at the disk it is on, or name another directory in SKY_HOME",
}


def failure(error: sqlite3.DatabaseError) -> SkyError:
    """What an error of SQLite means for the user."""
    name = str(getattr(error, "sqlite_errorname", ""))
    remedy = next((remedy for prefix, remedy in _REMEDIES.items() if name.startswith(prefix)), None)
    return SkyError(
        f"{path()}: {error}",
        remedy=remedy
        or "move it away and run `sky status --rebuild`: clusters are found again by their tags",
    )


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been first
    for script in MIGRATIONS[version:]:
        for statement in script.split(";"):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")
