"""Locks of the kernel's on files of ours: they end with their process, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sky.cancellation import CancelToken


@contextmanager
def locked(file: Path, cancel: CancelToken, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock; blocks until those who hold it otherwise have ended. Raises `Cancelled`."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                cancel.wait(0.1)
                cancel.check()
        yield
    finally:
        os.close(fd)
