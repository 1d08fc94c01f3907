"""The user's own git, run as a child: its logins, helpers and settings are its affair."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sky.errors import Cancelled, UsageError

_LOCAL = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
)
"""What a hook that calls us has set for its own repository."""


_NO_SERVER = re.compile(
    r"Could ?n[o']t (?:resolve|connect)|Failed to connect|Name or service not known|[Tt]imed out|[Tt]imeout was|"
    r"Connection (?:refused|reset|closed by)|No route to host|Network is unreachable|Empty reply from server|"
    r"unable to (?:connect to|look up)|Operation too slow|returned error: 50[234]"
)
"""In the words of curl, ssh and git itself, all of which speak English here."""


class GitFailed(Exception):
    """What git said, in one line."""

    def __init__(self, said: str, *, unreachable: bool = False) -> None:
        super().__init__(said)
        self.unreachable = unreachable
        """Whether it is that the server can't be reached."""


def git(
    *words: str | os.PathLike[str],
    settings: Sequence[tuple[str, str]] = (),
    environ: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> bytes:
    """Its output. Blocks. `settings` are of this run only, and no argument of a process shows them.

    Raises `UsageError` without git, `Cancelled` when it was interrupted, `GitFailed` for all else.
    """
    try:
        done = subprocess.run(
            ["git", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_environment(settings, environ or {}),
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError("git is needed for the workdir", remedy="install git") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"no answer within {seconds:g} s", unreachable=True) from error
    if done.returncode in (-2, -15, 130):
        raise Cancelled("cancelled while git ran")
    if done.returncode != 0:
        unreachable = _NO_SERVER.search(done.stderr.decode(errors="replace")) is not None
        raise GitFailed(_reason(done.stderr) or f"git ended with {done.returncode}", unreachable=unreachable)
    return done.stdout


def succeeds(*words: str | os.PathLike[str]) -> bool:
    """Whether git says yes. Blocks. Raises as `git`, but `GitFailed`."""
    try:
        git(*words)
    except GitFailed:
        return False
    return True


def repository_of(directory: Path) -> Path | None:
    """The top of the working tree that it is in, if any. Raises `UsageError` if git won't look at it."""
    try:
        top = git("-C", directory, "rev-parse", "--show-toplevel")
    except GitFailed as failed:
        if "not a git repository" in str(failed) or "must be run in a work tree" in str(failed):
            return None
        raise UsageError(
            f"git can't read the repository of {directory}: {failed}",
            remedy=f"git -C {shlex.quote(str(directory))} status says what is wrong",
        ) from failed
    return Path(os.fsdecode(top.removesuffix(b"\n")))


def _environment(settings: Sequence[tuple[str, str]], more: Mapping[str, str]) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name not in _LOCAL}
    environ |= {"LC_ALL": "C", **more}
    if not sys.stdin or not sys.stdin.isatty():
        environ["GIT_TERMINAL_PROMPT"] = "0"
    count = int(environ.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(settings, count):
        environ[f"GIT_CONFIG_KEY_{number}"] = key
        environ[f"GIT_CONFIG_VALUE_{number}"] = value
    if settings:
        environ["GIT_CONFIG_COUNT"] = str(count + len(settings))
    return environ


def _reason(stderr: bytes) -> str:
    """The line of git's that says most: ssh says why before git says that it could not read."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("warning:", "hint:", "Cloning into"))]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    telling = [line for line in fatal if "Could not read from remote" not in line]
    chosen = next(iter((*telling, *lines)), "")
    return chosen.removeprefix("fatal: ").removeprefix("error: ").removeprefix("remote: ")
