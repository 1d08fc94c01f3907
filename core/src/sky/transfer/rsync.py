"""The rsync way: the local rsync believes it starts a remote shell, and what it says goes through `run`.

Its remote shell is a line of `sh` that hands us rsync's remote argv as data and joins rsync's socket to two
pipes of ours. The remote path isn't in that argv: rsync is given a placeholder, and the wrapper on the host
puts the path there. So no shell and no version of rsync ever interprets a path, and the wrapper can decide,
in the same round trip, what a source on the host is.
"""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH103, PTH112, PTH116, PTH118, PTH120
from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sky.errors import TransferFailed
from sky.transfer import codes
from sky.transfer.pipes import Head, Progress
from sky.transfer.route import Route
from sky.transfer.rsync_process import VANISHED, LocalRsync, LocalRsyncEnded
from sky.types import Command, Context, Event, Host, TransferResult

if TYPE_CHECKING:
    from sky.transfer import Run

OPTIONS = ("-rlpt", "--no-s", "--no-h", "--stats", "--blocking-io", "--from0", "--exclude-from=-")
"""Blocking, for else the helper's `cat` would write to a socket that refuses. Excludes come by stdin. Never
`--inplace`: rsync renames a whole temporary file. What came of a file when the connection is lost goes to a
directory of ours inside the target, where the next try finds it."""
USAGE, PROTOCOL, NO_ROOM, NOT_ALL = 1, 2, 11, 23
"""What rsync ends with when it doesn't know an option of ours, the two sides can't talk, a disk is full, or some
files could not be sent."""
_CHANGED = re.compile(r'read errors mapping "(.*)": No data available|: (.*) failed verification -- update ')
"""What it says of a file that became shorter, or other, while it was read: the target keeps the old one."""


class RsyncMissing(Exception):
    """One of the two ends has no rsync that will do; `lasting`: the host, so it needn't be asked again."""

    def __init__(self, *, lasting: bool) -> None:
        super().__init__()
        self.lasting = lasting


def transfer_by_rsync(run: Run, ctx: Context, host: Host, route: Route) -> TransferResult:
    """Move files in one `run`. Blocks. Raises `RsyncMissing` (nothing was changed), or as `transfer_over`."""
    if shutil.which("rsync") is None:
        raise RsyncMissing(lasting=False)
    script = f"rsync_{'up' if route.up else 'down'}.sh"
    wrapper = Path(__file__).with_name("scripts").joinpath(script).read_text()
    paths, facts = _up(route) if route.up else _down(route)
    delete = ("--delete",) if route.delete else ()
    kept = os.fsencode(route.kept_name)
    excludes = b"".join(b"/" + _literal(path) + b"\0" for path in (*route.excludes, kept))
    kept_here = _kept_here(route)
    keep = () if route.up else (b"--partial-dir=" + kept_here,)
    with LocalRsync((*OPTIONS, *delete, *keep), paths, excludes) as rsync:
        argv = rsync.remote_argv(ctx)
        if argv is None:
            raise _not_started(rsync)
        command = Command(argv=("sh", "-c", wrapper, "sky", *facts, *argv[:-1]), stdin_mode="open")
        remote_errors = Head()
        progress = Progress(ctx, up=route.up)
        stdin = rsync.stdin(progress.add if route.up else None)
        stdout = rsync.stdout(None if route.up else _receiving(route, progress))
        code = -1
        try:
            code = run(ctx, host, command, stdin, stdout, remote_errors.as_file())
        except LocalRsyncEnded:
            pass
        rsync.finish(ctx)
        if NO_ROOM in (code, rsync.code) and route.up:
            # Where a disk is full, a part of a file is no help.
            command = Command(argv=("rm", "-rf", _kept_there(route)))
            run(ctx, host, command, None, Head().as_file(), Head().as_file())
        if code in (0, VANISHED, NO_ROOM) or rsync.code == NO_ROOM:
            _forget_kept(route, kept_here)
        return _conclude(ctx, route, code, rsync, remote_errors.lines)


def _kept_there(route: Route) -> str:
    directory = route.remote if os.path.isdir(route.local) else route.file_target()[0]
    return f"{directory.rstrip('/')}/{route.kept_name}"


def _kept_here(route: Route) -> bytes:
    """Inside the target or beside it: what comes may be a file or a directory, but the next try must find it."""
    places = [
        os.path.join(at, os.fsencode(route.kept_name)) for at in (route.local, os.path.dirname(route.local))
    ]
    first = places[0] if route.inside or os.path.isdir(route.local) else places[1]
    return next((place for place in places if os.path.isdir(place)), first)


def _forget_kept(route: Route, kept: bytes) -> None:
    """Remove here what was taken up, and leave no trace in the time of the directory around it."""
    if not route.up and os.path.isdir(kept):
        around = os.path.dirname(kept)
        times = os.stat(around)
        shutil.rmtree(kept, ignore_errors=True)
        os.utime(around, ns=(times.st_atime_ns, times.st_mtime_ns))


def _receiving(route: Route, progress: Progress) -> Callable[[int], None]:
    def receive(size: int) -> None:
        if progress.bytes == 0:
            # Not before the host has said that there is something to put into it.
            parent = os.path.dirname(route.local)
            try:
                os.makedirs(parent, exist_ok=True)
            except OSError as error:
                raise TransferFailed(f"can't make {os.fsdecode(parent)}: {error.strerror}") from error
        progress.add(size)

    return receive


def _not_started(rsync: LocalRsync) -> Exception:
    if rsync.code == USAGE:
        return RsyncMissing(lasting=False)
    return TransferFailed(_reason(rsync.output()[1], []) or f"the local rsync ended with {rsync.code}")


def _up(route: Route) -> tuple[list[bytes], list[str]]:
    """The paths for the local rsync, and what the wrapper is told."""
    if os.path.isdir(route.local):
        mtime = str(int(os.stat(route.local).st_mtime))
        facts = ["d", route.remote, route.kept_name, mtime]
        return [route.local.rstrip(b"/") + b"/", b"sky:SKY"], facts
    directory, name = route.file_target()
    # A link given as the source means the file behind it.
    facts = ["f", f"{directory.rstrip('/')}/{name}", route.kept_name, ""]
    return [os.path.realpath(route.local), b"sky:SKY"], facts


def _down(route: Route) -> tuple[list[bytes], list[str]]:
    file_target = os.path.join(route.local, os.fsencode(route.name)) if route.inside else route.local
    takes = "d" if os.path.isdir(file_target) else "any"
    # With `SKY/` rsync takes whatever names the sender lists: a directory's content, or one file.
    return [b"sky:SKY/", route.local + (b"/" if route.inside else b"")], [takes, route.remote]


def _conclude(ctx: Context, route: Route, code: int, rsync: LocalRsync, remote: list[str]) -> TransferResult:
    said, local = rsync.output()
    if code == codes.NO_RSYNC or (code != 0 and rsync.code == PROTOCOL):
        raise RsyncMissing(lasting=True)
    if code == codes.OTHER_WAY:
        raise RsyncMissing(lasting=False)
    if code == codes.NO_SOURCE:
        raise TransferFailed(f"{route.remote}: no such file or directory on the host")
    if code == codes.WRONG_KIND:
        raise TransferFailed(
            f"{route.remote}: a file and a directory can't take each other's place",
            remedy="remove the target, or end it with / to put a file inside it",
        )
    for line in said:
        if line.startswith("skipping non-regular file "):
            ctx.emit(Event(kind="warning", message=f"skipped {line[26:]}: neither file, directory nor link"))
    changed = _changed(code, rsync.code, [*local, *remote])
    for name in changed:
        ctx.emit(
            Event(kind="warning", message=f"{_unescape(name)} changed while it was sent, and was left out")
        )
    if not changed and (code not in (0, VANISHED) or rsync.code not in (0, VANISHED)):
        raise TransferFailed(
            _reason(local, remote) or f"rsync ended with {rsync.code}, on the host with {code}"
        )
    for line in (*said, *local, *remote):
        if line.startswith("file has vanished: "):
            ctx.emit(Event(kind="warning", message=_unescape(line)))
    return TransferResult(
        files_sent=_figure(said, r"Number of (?:regular )?files transferred: ([\d,]+)"),
        bytes_sent=_figure(said, r"Total transferred file size: ([\d,]+)"),
        method="rsync",
    )


def _changed(code: int, local_code: int, lines: list[str]) -> list[str]:
    """The files that changed meanwhile, if that is all that went wrong."""
    if NOT_ALL not in (code, local_code) or not {code, local_code} <= {0, VANISHED, NOT_ALL}:
        return []
    lines = [line for line in lines if "rsync error: " not in line and "file has vanished: " not in line]
    found = [_CHANGED.search(line) for line in lines]
    return list(dict.fromkeys(match[1] or match[2] for match in found if match)) if all(found) else []


def _reason(local: list[str], remote: list[str]) -> str:
    """The line that says most: one that names a path, else what the host said, else the first."""
    lines = [line for line in local if "connection unexpectedly closed" not in line]
    named = [line for line in lines if re.search(r'"[^"]+"', line) and "rsync error" not in line]
    return next((_unescape(line) for line in (*named, *remote, *lines)), "")


def _unescape(line: str) -> str:
    escaped = re.sub(rb"\\#([0-7]{3})", lambda found: bytes([int(found[1], 8) & 255]), line.encode())
    return escaped.decode(errors="replace").replace("\n", "\\n")


def _figure(lines: list[str], pattern: str) -> int:
    found = next((match for line in lines if (match := re.match(pattern, line))), None)
    return int(found[1].replace(",", "")) if found else 0


def _literal(path: bytes) -> bytes:
    """A path as a pattern of rsync, in which a backslash escapes only where there is a wildcard."""
    return re.sub(rb"([\\*?\[])", rb"\\\1", path) if re.search(rb"[*?\[]", path) else path
