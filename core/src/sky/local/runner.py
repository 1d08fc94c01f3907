"""Running a program on a local node: a child process with the node's home directory."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from typing import BinaryIO

from sky.api import Command, Context, Host, HostGone, run_process
from sky.local.processes import COOKIE


def run(
    ctx: Context, host: Host, command: Command, stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO
) -> int:
    """See `sky_run`. What processes that it leaves behind print after its end is not waited for."""
    home = _home(host)
    return run_process(
        ctx,
        command.argv,
        stdin,
        stdout,
        stderr,
        what=f"{host.name}: the command",
        cwd=home,
        env=_environment(host, home),
    )


def shell(host: Host, command: Command | None) -> int:
    """The user's shell, or a command, on this terminal, in the node's home."""
    argv = command.argv if command else (os.environ.get("SHELL") or "/bin/sh", "-l")
    home = _home(host)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, not for us
    try:
        code = subprocess.call(argv, cwd=home, env=_environment(host, home))
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code


def _home(host: Host) -> str:
    home = os.path.join(host.address["root"], "home")  # noqa: PTH118 - pathlib's cost shows in exec
    if not os.path.isdir(home):  # noqa: PTH112
        raise HostGone(f"{host.name}: its directory is gone", remedy="sky status --refresh")
    return home


def _environment(host: Host, home: str) -> Mapping[str, str]:
    return {**os.environ, "HOME": home, "PWD": home, COOKIE: host.address["cluster"]}
