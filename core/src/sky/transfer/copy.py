"""The ways without rsync: list both ends, compare here, move what differs as tar or as plain records."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH118
from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import ProgramMissing, TransferFailed
from sky.transfer import codes
from sky.transfer.batches import batches
from sky.transfer.large import PROGRAMS, is_large, send_large
from sky.transfer.listing import Entry, Listing, entry_of, list_local, list_remote
from sky.transfer.pipes import CHUNK, Head, Produced, Progress, read_while_written
from sky.transfer.plan import Plan, difference
from sky.transfer.route import Route
from sky.transfer.staging import Staging, turn
from sky.types import Command, Context, Event, Host, TransferResult

if TYPE_CHECKING:
    from sky.transfer import Run


def transfer_by_copy(run: Run, ctx: Context, host: Host, route: Route) -> TransferResult:
    """Move files in two `run`s, one if nothing differs. Blocks. Raises as `transfer_over`."""
    with turn(route, ctx):
        return (_up if route.up else _down)(run, ctx, host, route)


def _up(run: Run, ctx: Context, host: Host, route: Route) -> TransferResult:
    source = list_local(route)
    if source.kind == "d":
        root = final = route.remote
    else:
        root, name = route.file_target()
        final = f"{root.rstrip('/')}/{name}"
        # The file's new name is where it lands.
        source = Listing("f", {os.fsencode(name): entry for entry in source.entries.values()})
    target = list_remote(run, ctx, host, route, final)
    _check_kinds(source, target, final)
    if route.delete and source.kind == "d":
        _check_complete(target)
    plan = _difference(ctx, source, target, route)
    method = "tar" if "tar" in target.programs else "sh"
    if method == "sh" and "dd" not in target.programs:
        raise ProgramMissing("dd", remedy="install rsync, tar or dd on the host")
    progress = Progress(ctx, up=True)
    done = []
    for part in batches(plan) if not plan.empty else ():
        sending = Source(ctx, route, part, progress)
        if is_large(part) and target.programs >= PROGRAMS:
            send_large(run, host, sending, root)
        else:
            _send(run, host, sending, root, method)
        for path in sending.torn:
            message = f"{os.fsdecode(path)} changed while it was sent, and was left out"
            ctx.emit(Event(kind="warning", message=message))
        done.append(part)
    return _result(done, method)


def _down(run: Run, ctx: Context, host: Host, route: Route) -> TransferResult:
    source = list_remote(run, ctx, host, route, route.remote)
    if source.kind == "n":
        raise TransferFailed(f"{route.remote}: no such file or directory on the host")
    _check_complete(source)
    if source.kind == "d":
        root, final = route.local, route
    else:
        directory, name = route.file_target()
        root = os.fsencode(directory)
        final = route.at_local(os.path.join(root, os.fsencode(name)))
        source = Listing("f", {os.fsencode(name): e for e in source.entries.values()}, source.programs)
    target = list_local(final)
    _check_kinds(source, target, os.fsdecode(final.local))
    plan = _difference(ctx, source, target, route)
    method = "tar" if "tar" in source.programs else "sh"
    progress = Progress(ctx, up=False)
    done = []
    for part in batches(plan) if not plan.empty else ():
        _fetch(run, ctx, host, route, part, root, method, source.kind, progress)
        done.append(part)
    return _result(done, method)


def _check_complete(listing: Listing) -> None:
    if not listing.complete:
        missing = next(p for p in ("find", "stat", "readlink") if p not in listing.programs)
        raise ProgramMissing(missing, remedy="install it, or install rsync on the host")
    if listing.problem:
        raise TransferFailed(f"not all could be listed on the host: {listing.problem}")


def _check_kinds(source: Listing, target: Listing, final: str) -> None:
    if any(entry.kind == "s" for entry in source.entries.values()) and source.kind == "f":
        raise TransferFailed(f"{final}: the source is neither a file nor a directory")
    if target.kind != "n" and target.kind != source.kind:
        raise TransferFailed(
            f"{final}: a file and a directory can't take each other's place",
            remedy="remove the target, or end it with / to put a file inside it",
        )


def _difference(ctx: Context, source: Listing, target: Listing, route: Route) -> Plan:
    plan = difference(source, target, route)
    for path in plan.skipped:
        message = f"skipped {os.fsdecode(path)!r}: neither file, directory nor link"
        ctx.emit(Event(kind="warning", message=message))
    return plan


def _result(done: list[Plan], method: str) -> TransferResult:
    sizes = [plan.source[path].size for plan in done for path in plan.files]
    return TransferResult(files_sent=len(sizes), bytes_sent=sum(sizes), method=method)


# --- up ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Opened:
    """A source file as it is when its turn comes, which may differ from its listing."""

    entry: Entry
    file: BinaryIO


class Source:
    """The files of a plan, opened one by one; those that vanish or shrink meanwhile are remembered."""

    def __init__(self, ctx: Context, route: Route, plan: Plan, progress: Progress) -> None:
        self.ctx = ctx
        self.route = route
        self.plan = plan
        self.vanished: list[bytes] = []
        self.torn: list[bytes] = []
        self.progress = progress

    def open(self, path: bytes) -> Opened | None:
        """None if it is no more. Raises `TransferFailed`."""
        whole = self.plan.root is not None
        name = os.path.join(self.route.local, path) if whole else os.path.realpath(self.route.local)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            self.vanished.append(path)
            self.ctx.emit(Event(kind="warning", message=f"{os.fsdecode(name)} vanished before it was sent"))
            return None
        except OSError as error:
            raise TransferFailed(f"{os.fsdecode(name)}: {error.strerror}") from error
        status = os.fstat(fd)
        entry = entry_of(status.st_mode, status.st_size, int(status.st_mtime_ns // 1_000_000_000))
        if entry.kind != "f":
            os.close(fd)
            self.torn.append(path)
            return None
        return Opened(entry, open(fd, "rb", buffering=0))

    def content(self, path: bytes, opened: Opened, start: int = 0) -> Iterator[bytes]:
        """From `start`, exactly as many bytes as announced, whatever happens to the file."""
        left, whole = opened.entry.size - start, True
        with opened.file as file:
            while left:
                try:
                    chunk = file.read(min(CHUNK, left))
                except OSError as error:
                    raise TransferFailed(f"{os.fsdecode(path)}: {error.strerror}") from error
                if not chunk:
                    whole = False
                    chunk = bytes(min(CHUNK, left))
                self.progress.add(len(chunk))
                left -= len(chunk)
                yield chunk
        self.progress.files += 1
        if not whole:
            self.torn.append(path)


def _send(run: Run, host: Host, source: Source, root: str, method: str) -> None:
    ctx, route = source.ctx, source.route
    staging = route.staging_name()
    if method == "tar":
        from sky.transfer.tar import produce
    else:
        from sky.transfer.shell import produce
    stdin = Produced(produce(source, f"./{staging}".encode()))
    entry = source.plan.root
    attributes = (f"{entry.mode:05o}", str(entry.mtime)) if entry else ("", "")
    script = Path(__file__).with_name("scripts").joinpath("receive.sh").read_text()
    argv = ("sh", "-c", script, "sky", method, root, staging, route.stale_prefix, *attributes)
    output, errors = Head(), Head()
    code = run(ctx, host, Command(argv=argv), stdin.as_file(), output.as_file(), errors.as_file())
    if code != 0:
        raise codes.failure(root, staging, method, code, errors.lines)


# --- down --------------------------------------------------------------------------------------------


def _fetch(
    run: Run,
    ctx: Context,
    host: Host,
    route: Route,
    plan: Plan,
    root: bytes,
    method: str,
    kind: str,
    progress: Progress,
) -> None:
    if method == "tar":
        from sky.transfer.tar import REMOTE, consume, judge, request
    else:
        from sky.transfer.shell import REMOTE, consume, judge, request
    names: dict[bytes, bytes]
    if kind == "d":
        directory, names = route.remote, {path: path for path in plan.files}
    else:
        directory = route.remote.rpartition("/")[0] or "/"
        names = {os.fsencode(route.name): path for path in plan.files}
    with Staging(route, plan, root, progress) as staging:
        if names:
            stdin, errors = Produced(iter([request(names)])), Head()
            command = Command(argv=("sh", "-c", REMOTE, "sky", directory))
            code, outcome = read_while_written(
                lambda sink: run(ctx, host, command, stdin.as_file(), sink, errors.as_file()),
                lambda stream: consume(stream, names, staging, plan),
                progress.add,
            )
            judge(code, outcome, errors.lines)
            missing = [path for path in plan.files if path not in staging.files]
            for path in missing:
                message = f"{os.fsdecode(path)} vanished before it was received"
                ctx.emit(Event(kind="warning", message=message))
            plan.without(missing)
        staging.place()
