"""Files of a task onto its nodes: the workdir, then every mount, in parallel over mounts and nodes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sky.errors import SkyError, TransferFailed, UsageError
from sky.fanout import fan_out
from sky.types import Host, Transfer, TransferResult

if TYPE_CHECKING:
    from sky.session import Session
    from sky.task.model import Task

WORKDIR = "~/sky_workdir"
"""Where the workdir lands, and where setup and run start: SkyPilot's place."""
TRANSFER_SECONDS = 24 * 3600.0


def check(task: Task) -> None:
    """Everything named exists and can be read, before anything is created. Raises `UsageError` with all of it."""
    wrong = []
    if task.workdir is not None and not Path(_local(task, task.workdir)).is_dir():
        wrong.append(f"workdir: no directory {task.workdir}")
    for target, source in task.file_mounts.items():
        if not os.access(_local(task, source), os.R_OK):
            wrong.append(f"file_mounts: {target}: can't read {source}")
    if wrong:
        raise UsageError("; ".join(wrong))


def upload(session: Session, hosts: Sequence[Host], task: Task) -> None:
    """Make the nodes' files equal to the task's. Blocks; a repeat sends only what changed."""
    transfers = []
    if task.workdir is not None:
        source = _local(task, task.workdir)
        left_out, why = excluded(source)
        if left_out:
            session.phase(f"workdir: {len(left_out)} paths left out ({why})")
        transfers.append(Transfer(direction="up", source=source, target=WORKDIR, excludes=left_out))
    transfers += [
        Transfer(direction="up", source=_local(task, source), target=target)
        for target, source in task.file_mounts.items()
    ]
    if not transfers:
        return
    session.phase(f"syncing {len(transfers)} " + ("paths" if len(transfers) > 1 else "path"))
    calls = {
        f"{transfer.target} on {host.name}": _call(session, host, transfer)
        for host in hosts
        for transfer in transfers
    }
    for what, answer in fan_out(calls, TRANSFER_SECONDS).items():
        if isinstance(answer.error, SkyError):
            raise answer.error
        if answer.error is not None or answer.late:
            raise TransferFailed(f"{what}: {answer.error or 'not done within a day'}")


def _call(session: Session, host: Host, transfer: Transfer) -> Callable[[], TransferResult]:
    return lambda: one(session, host, transfer)


def one(session: Session, host: Host, transfer: Transfer) -> TransferResult:
    """One transfer, by the runner of the host. Blocks."""
    runner = session.registry.runner(host.transport)
    result: TransferResult = runner.call(
        "sky_rsync", ctx=session.context(runner), host=host, transfer=transfer
    )
    return result


def _local(task: Task, path: str) -> str:
    return str(Path(task.base_dir or ".", os.path.expanduser(path)))  # noqa: PTH111 - keeps a trailing slash out


def excluded(directory: str) -> tuple[tuple[str, ...], str]:
    """What stays behind: what `.skyignore` names, else what git ignores, by git's own rules.

    Returns paths relative to `directory`, and the name of what decided. Without either, or without git,
    nothing is left out.
    """
    root = Path(directory)
    if (root / ".skyignore").is_file():
        return _git_ignored(root, ["--exclude-from=.skyignore"], own_repository=True), ".skyignore"
    if (root / ".git").exists() or (root / ".gitignore").is_file():
        own = not (root / ".git").exists()
        return _git_ignored(root, ["--exclude-standard"], own_repository=own), "ignored by git"
    return (), ""


def _git_ignored(root: Path, rules: list[str], own_repository: bool) -> tuple[str, ...]:
    """Ask git. Where the directory is no repository, an empty one elsewhere lends its rules."""
    import tempfile

    base = ["git", "-C", str(root), "-c", "core.quotePath=false"]
    query = ["ls-files", "-z", "--others", "--ignored", "--directory", *rules]
    try:
        with tempfile.TemporaryDirectory(prefix="sky-git-") as empty:
            if own_repository:
                subprocess.run(["git", "init", "-q", "--bare", empty], check=True, capture_output=True)
                base += [f"--git-dir={empty}", f"--work-tree={root}"]
            done = subprocess.run([*base, *query], check=True, capture_output=True)
    except FileNotFoundError as error:
        raise UsageError(
            "git is needed to read the ignore rules of the workdir", remedy="install git"
        ) from error
    except subprocess.CalledProcessError as error:
        message = os.fsdecode(error.stderr).strip().splitlines()
        raise UsageError(
            f"git can't read the ignore rules of {root}: {message[-1] if message else ''}"
        ) from error
    return tuple(os.fsdecode(path).rstrip("/") for path in done.stdout.split(b"\0") if path)
