"""The SSH hosts are shared by all who test, measure or try things on this machine: who may break them, and when."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

LOCK = Path("/tmp/ssh-lab.lock")
"""By hand: `flock /tmp/ssh-lab.lock bash tests/testbed/ssh-hosts.sh crash h1`, and heal it under the same lock."""


@contextlib.contextmanager
def held(*, alone: bool = False) -> Iterator[IO[str]]:
    """Nobody breaks hosts meanwhile; `alone`: nobody else uses them. Blocks until that can be, however long.

    What it gives is the locked file. Whoever holds it and asks again for another waits for itself.
    """
    with LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield lock
