"""Local staging of what comes down, and who may stage at a time."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH101, PTH102, PTH103, PTH118, PTH207
from __future__ import annotations

import glob
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from sky.errors import TransferFailed
from sky.transfer.apply import apply_here
from sky.transfer.pipes import CHUNK, Progress
from sky.transfer.plan import Plan
from sky.transfer.route import Route
from sky.types import Context

_turns: dict[str, threading.Lock] = {}


@contextmanager
def turn(route: Route, ctx: Context) -> Iterator[None]:
    """Two equal transfers of one process take turns: each removes what it takes for the other's remains."""
    lock = _turns.setdefault(route.stale_prefix, threading.Lock())
    while not lock.acquire(timeout=0.1):
        ctx.cancel.check()
    try:
        yield
    finally:
        lock.release()


class Staging:
    """A directory inside the one written to, where each file comes to be whole before it gets its name."""

    def __init__(self, route: Route, plan: Plan, root: bytes, progress: Progress) -> None:
        self._plan = plan
        self._root = root
        self._progress = progress
        self._directory = os.path.join(root, route.staging_name().encode())
        self._stale = os.path.join(glob.escape(root), route.stale_prefix.encode() + b".*")
        self.files: dict[bytes, bytes] = {}

    def __enter__(self) -> Staging:
        with _named(self._root):
            os.makedirs(self._root, exist_ok=True)
            if not os.access(self._root, os.W_OK):
                os.chmod(self._root, 0o700)
            for stale in glob.glob(self._stale):
                shutil.rmtree(stale, ignore_errors=True)
            os.mkdir(self._directory, 0o700)
        return self

    def add(self, path: bytes, source: BinaryIO, size: int, mode: int, mtime: int) -> None:
        """Stage one file from the next `size` bytes. Blocks. Raises `TransferFailed`."""
        staged = os.path.join(self._directory, b"%d" % len(self.files))
        with _named(path):
            with open(staged, "xb") as file:
                left = size
                while left:
                    chunk = source.read(min(CHUNK, left))
                    if not chunk:
                        raise TransferFailed(f"{os.fsdecode(path)}: it came only in part")
                    file.write(chunk)
                    left -= len(chunk)
            os.utime(staged, (mtime, mtime))
            os.chmod(staged, mode)
        self.files[path] = staged
        self._progress.files += 1

    def add_copy(self, path: bytes, original: bytes, mode: int, mtime: int) -> None:
        """Stage a file with the content of one that is staged."""
        with open(self.files[original], "rb") as source:
            self.add(path, source, os.fstat(source.fileno()).st_size, mode, mtime)

    def place(self) -> None:
        """Give every file its name, and do the rest of the plan. Blocks. Raises `TransferFailed`."""
        with _named(self._root):
            apply_here(self._plan, self._root, self.files)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        root = self._plan.root
        if root is not None and _[0] is None:
            os.utime(self._root, (root.mtime, root.mtime))
            os.chmod(self._root, root.mode)


@contextmanager
def _named(path: bytes) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        name = error.filename if error.filename is not None else path
        raise TransferFailed(f"{os.fsdecode(name)}: {error.strerror or error}") from error
