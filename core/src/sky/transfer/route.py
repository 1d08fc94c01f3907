"""Where a transfer starts and lands: `~`, trailing slashes and excludes, worked out before all else."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH109, PTH111, PTH116, PTH118
from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, replace

from sky.errors import TransferFailed, UsageError
from sky.types import Transfer

STAGING_PREFIX = ".sky-part."
"""Of the names of staging directories, which are made inside the directory that is written to."""


@dataclass(frozen=True, slots=True)
class Route:
    """One transfer with both ends as plain paths: no trailing slash, no `~`, never beginning with `-`."""

    up: bool
    local: bytes
    """Absolute."""
    remote: str
    """Absolute, or relative to the home directory and beginning with `.`."""
    name: str
    """The last part of the source's path."""
    inside: bool
    """The target ended in a slash: a file lands inside it."""
    delete: bool
    excludes: tuple[bytes, ...]

    def excluded(self, path: bytes) -> bool:
        return any(path == exclude or path.startswith(exclude + b"/") for exclude in self.excludes)

    @property
    def stale_prefix(self) -> str:
        """The same for every repeat of this transfer: by it the remains of a killed one are found."""
        identity = "\0".join(
            (os.uname().nodename, str(os.getuid()), os.fsdecode(self.local), self.remote, str(self.up))
        )
        return STAGING_PREFIX + hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]

    @property
    def kept_name(self) -> str:
        """Of the directory where rsync keeps what came of a file until a repeat takes it up."""
        return f"{self.stale_prefix}.kept"

    def staging_name(self) -> str:
        return f"{self.stale_prefix}.{os.urandom(4).hex()}"

    def file_target(self) -> tuple[str, str]:
        """Directory and name that a file lands at, when the source is one."""
        target = self.remote if self.up else os.fsdecode(self.local)
        if self.inside:
            return target, self.name
        directory, _, name = target.rpartition("/")
        if not name or name in (".", ".."):
            raise TransferFailed(f"{target}: a file can't take the place of a directory")
        return directory or "/", name

    def at_local(self, path: bytes) -> Route:
        """The same with another local end."""
        return replace(self, local=path)

    def check_target(self) -> None:
        """A device, a pipe or a socket here is not replaced by a file. Raises `TransferFailed`."""
        if self.up or not os.path.lexists(self.local):
            return
        mode = os.lstat(self.local).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            raise TransferFailed(
                f"{os.fsdecode(self.local)}: neither a file nor a directory, and not replaced by one"
            )

    def check_source(self) -> None:
        """Raises `TransferFailed` if a local source can't be moved at all."""
        if not self.up:
            return
        name = os.fsdecode(self.local)
        try:
            mode = os.stat(self.local).st_mode
        except OSError as error:
            raise TransferFailed(f"{name}: {error.strerror}") from error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise TransferFailed(f"{name}: neither a file nor a directory")


def plan_route(transfer: Transfer) -> Route:
    """Work out both ends. Raises `UsageError` for an empty path."""
    if not transfer.source or not transfer.target:
        raise UsageError("a transfer needs a source and a target")
    up = transfer.direction == "up"
    local, remote = (transfer.source, transfer.target) if up else (transfer.target, transfer.source)
    excludes = (os.fsencode(exclude).strip(b"/").removeprefix(b"./") for exclude in transfer.excludes)
    return Route(
        up=up,
        local=os.fsencode(_strip(os.path.join(os.getcwd(), _expand_home(local)))),
        remote=_remote(remote),
        name=_strip(transfer.source).rpartition("/")[2],
        inside=transfer.target.endswith("/"),
        delete=transfer.delete,
        excludes=tuple(exclude for exclude in excludes if exclude),
    )


def _strip(path: str) -> str:
    return path.rstrip("/") or "/"


def _expand_home(path: str) -> str:
    # Not expanduser: `~name` is a file's name here, as it is on the other side.
    if path == "~" or path.startswith("~/"):
        return os.path.expanduser("~") + path[1:]
    return path


def _remote(path: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = path[1:].strip("/") if path.strip("/") != "~" else "."
    else:
        path = _strip(path)
    return path if path.startswith("/") or path == "." else f"./{path}"
