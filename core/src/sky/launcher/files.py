"""Files of a task onto its nodes: the workdir, then every mount, in parallel over mounts and nodes.

What a connection lost half way is taken up again by itself: what arrived isn't sent twice. A file that changes or
vanishes while it is sent is a warning, and all others are synced; a repeat sends it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sky.errors import ConnectionLost, HostGone, SkyError, TransferFailed, Unreachable, UsageError
from sky.fanout import fan_out
from sky.types import Host, Transfer, TransferResult
from sky.wording import counted

if TYPE_CHECKING:
    from sky.session import Session
    from sky.task.model import Task

WORKDIR = "~/sky_workdir"
"""Where the workdir lands, and where setup and run start: SkyPilot's place."""
TRANSFER_SECONDS = 24 * 3600.0
AT_ONCE = 32
AT_ONCE_PER_HOST = 8
"""sshd gives one connection ten sessions, and other commands want some, too."""
PAUSES_SECONDS = (2.0, 20.0, 90.0)
"""Before each further try of a transfer whose connection was lost."""
BIG_REPOSITORY_BYTES = 100_000_000


def check(task: Task, warn: Callable[[str], None] = lambda line: None) -> Task:
    """Everything named exists and can be read, before anything is created. Raises `UsageError` with all of it.

    A repository is fetched: blocks on its server, raises `Unreachable` without it. The task comes back with
    the commit that it will use.
    """
    wrong = []
    if task.workdir is not None and not Path(_local(task, task.workdir)).is_dir():
        wrong.append(f"workdir: no directory {task.workdir}")
    for target, source in task.file_mounts.items():
        if not os.access(_local(task, source), os.R_OK):
            wrong.append(f"file_mounts: {target}: can't read {source}")
    if wrong:
        raise UsageError("; ".join(wrong))
    if task.git is None:
        return task
    from sky.launcher import gitdir

    return replace(task, git=replace(task.git, commit=gitdir.prepare(task.git, task.base_dir, warn)))


def upload(session: Session, hosts: Sequence[Host], task: Task) -> None:
    """Make the nodes' files equal to the task's. Blocks; a repeat sends only what changed."""
    with ExitStack() as stack:
        transfers = [] if (workdir := stack.enter_context(_workdir(session, task))) is None else [workdir]
        transfers += [
            Transfer(direction="up", source=_local(task, source), target=target)
            for target, source in task.file_mounts.items()
        ]
        if transfers:
            session.phase(f"syncing {counted(len(transfers), 'path')}")
            everywhere(session, hosts, transfers)


@contextmanager
def _workdir(session: Session, task: Task) -> Iterator[Transfer | None]:
    """How the workdir is sent, while what it is made of stays as it is."""
    if task.git is not None:
        from sky.launcher import gitdir

        with gitdir.checked_out(task.git, task.base_dir, session.cancel) as tree:
            ref = task.git.ref or "its default branch"
            session.phase(f"workdir: {task.git.shown_url} at {tree.commit[:7]} ({ref})")
            yield _all_but_ignored(session, str(tree.directory), tree.excludes)
    elif task.workdir is not None:
        source = _local(task, task.workdir)
        yield _all_but_ignored(session, source)
    else:
        yield None


def _all_but_ignored(session: Session, source: str, git_files: tuple[str, ...] = ()) -> Transfer:
    from sky.launcher.ignore import excluded

    left_out, why = excluded(source)
    if left_out:
        session.phase(f"workdir: {counted(len(left_out), 'path')} left out ({why})")
    if not git_files and ".git" not in left_out and (size := _packed(source)) > BIG_REPOSITORY_BYTES:
        session.phase(f"workdir: .git is sent, too: {size / 1e6:.0f} MB (a line in .skyignore leaves it out)")
    return Transfer(direction="up", source=source, target=WORKDIR, excludes=(*git_files, *left_out))


def _packed(source: str) -> int:
    packs = Path(source, ".git", "objects", "pack")
    return sum(file.stat().st_size for file in packs.iterdir()) if packs.is_dir() else 0


def everywhere(
    session: Session, hosts: Sequence[Host], transfers: Sequence[Transfer]
) -> list[TransferResult]:
    """All transfers on all hosts, many at once, few of them on one host. Blocks.

    After a failure none is begun. Raises what the first of them, by order, failed with, its node named.
    """
    room = threading.BoundedSemaphore(AT_ONCE)
    per_host = {_place(host): threading.BoundedSemaphore(AT_ONCE_PER_HOST) for host in hosts}
    failed = threading.Event()

    def in_turn(host: Host, transfer: Transfer) -> TransferResult | None:
        with _turn(session, per_host[_place(host)]), _turn(session, room):
            if failed.is_set():
                return None
            try:
                return one(session, host, transfer)
            except BaseException:
                failed.set()
                raise

    calls = {
        f"{number}: {transfer.target} on {host.name}": lambda h=host, t=transfer: in_turn(h, t)
        for number, (host, transfer) in enumerate((h, t) for h in hosts for t in transfers)
    }
    answers = fan_out(calls, TRANSFER_SECONDS)
    for what, answer in answers.items():
        if isinstance(answer.error, SkyError):
            raise answer.error
        if answer.error is not None or answer.late:
            _, _, what = what.partition(": ")
            raise TransferFailed(f"{what}: {answer.error or 'not done within a day'}")
    return [answer.value for answer in answers.values() if answer.value is not None]


def _place(host: Host) -> tuple[object, ...]:
    return (host.transport, *sorted(host.address.items()))


@contextmanager
def _turn(session: Session, room: threading.BoundedSemaphore) -> Iterator[None]:
    while not room.acquire(timeout=0.1):
        session.cancel.check()
    try:
        yield
    finally:
        room.release()


def one(
    session: Session,
    host: Host,
    transfer: Transfer,
    pauses_seconds: Sequence[float] = PAUSES_SECONDS,
) -> TransferResult:
    """One transfer, by the runner of the host; a lost connection is tried again. Blocks.

    Raises what `sky_rsync` does. What failed to connect at all is raised at once, and so is a host that is gone.
    """
    runner = session.registry.runner(host.transport)

    def attempt() -> TransferResult:
        ctx = session.context(runner)
        try:
            result: TransferResult = runner.call("sky_rsync", ctx=ctx, host=host, transfer=transfer)
        except TransferFailed as error:
            raise _on(host, error) from error
        return result

    retried: tuple[type[SkyError], ...] = (ConnectionLost,)
    for pause in pauses_seconds:
        try:
            return attempt()
        except retried as error:
            if isinstance(error, HostGone):
                raise
            session.warn(f"{transfer.target} on {host.name}: {error.message}; again in {pause:g} s")
        # It was there a moment ago: from now on, not to reach it is the same as to lose it.
        retried = (ConnectionLost, Unreachable)
        session.cancel.wait(pause)
        session.cancel.check()
    return attempt()


def _on(host: Host, error: TransferFailed) -> TransferFailed:
    if not host.name or host.name in error.message:
        return error
    return TransferFailed(f"{host.name}: {error.message}", remedy=error.remedy)


def _local(task: Task, path: str) -> str:
    return str(Path(task.base_dir or ".", os.path.expanduser(path)))  # noqa: PTH111 - keeps a trailing slash out
