"""`ssh NAME` for the user's own ssh: a file for each cluster in ~/.ssh/sky, and one line in ~/.ssh/config.

All under one lock, on the directory ~/.ssh itself, so that nothing is left behind when the last cluster is gone.
The user's file stays as it is but for that line, which is its first: after a `Host` it would belong to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sky.api import Allocation, Context, Event, Host, Place, SkyError
from sky_ssh import entries, published, ssh_names


def publish(ctx: Context, place: Place) -> None:
    """`sky_publish_hosts`: NAME for rank 0, NAME-worker1 and so on for the others. Blocks briefly; idempotent."""
    hosts = sorted(place.hosts, key=lambda host: host.rank)
    wanted = place.allocation.cluster_name
    named = dict(zip(entries.names(wanted, place.allocation.id, len(hosts)), hosts, strict=True))
    first = next(iter(named), wanted)
    if first != wanted:
        _warn(ctx, f"ssh's config can't hold the name {wanted!r}: it's `ssh {first}`")
    with _guarded(ctx, f"`ssh {first}` won't work"), _lock(make=True):
        text = entries.document(ctx.config, place, _free(ctx, named))
        directory = published.directory()
        directory.mkdir(mode=0o700, exist_ok=True)
        _yield_names(named, place.allocation.id)
        _replace(_file(place.allocation), text.encode("utf-8", "surrogateescape"), 0o600)
        _include()


def withdraw(ctx: Context, allocation: Allocation) -> None:
    """`sky_withdraw_hosts`: Blocks briefly; idempotent."""
    with _guarded(ctx, "the names of the cluster's hosts stay in ~/.ssh/sky"), _lock(make=False) as there:
        if not there:
            return
        _file(allocation).unlink(missing_ok=True)
        if not any(published.directory().glob("*.conf")):
            _exclude()
            with contextlib.suppress(OSError):  # absent, or the user has put something there
                published.directory().rmdir()


def _file(allocation: Allocation) -> Path:
    return published.directory() / f"{allocation.id}.conf"


def _free(ctx: Context, named: dict[str, Host]) -> dict[str, Host]:
    """Without the names that the user's own config gives to others."""
    taken = {name.casefold() for name in ssh_names.plain(ssh_names.patterns(ctx))}
    for name in named:
        if name.casefold() in taken:
            _warn(
                ctx, f"`ssh {name}` is what your ssh config says it is, not the cluster: a Host has that name"
            )
    return {name: host for name, host in named.items() if name.casefold() not in taken}


def _yield_names(named: Sequence[str] | dict[str, Host], cluster_id: str) -> None:
    """A name means the cluster that had it last; an older one's is followed by its id."""
    ours = {name.casefold() for name in named}
    for path in published.directory().glob("*.conf"):
        if path.stem == cluster_id:
            continue
        text = path.read_text("utf-8", "surrogateescape")

        def renamed(match: re.Match[str], cluster: str = path.stem) -> str:
            return f"Host {match[1]}.{cluster}" if match[1].casefold() in ours else match[0]

        changed = re.sub(r"^Host (\S+)$", renamed, text, flags=re.MULTILINE)
        if changed != text:
            _replace(path, changed.encode("utf-8", "surrogateescape"), 0o600)


def _line() -> bytes:
    """`~` of a config is the password file's; where $HOME is another, the path is written out."""
    usual = Path("~").expanduser() == Path(f"~{_login()}").expanduser()
    directory = "~/.ssh/sky" if usual else str(published.directory())
    pattern = f"{directory}/*.conf"
    return (f'Include "{pattern}"' if " " in pattern else f"Include {pattern}").encode() + b"\n"


def _login() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def _config() -> Path:
    return Path("~/.ssh/config").expanduser()


def _include() -> None:
    content = _config().read_bytes() if _config().exists() else None
    if content is None or _line() not in content.splitlines(keepends=True):
        _replace(_config(), _line() + (content or b""), 0o600)


def _exclude() -> None:
    with contextlib.suppress(FileNotFoundError):
        content = _config().read_bytes()
        lines = content.splitlines(keepends=True)
        kept = b"".join(line for line in lines if line != _line())
        if kept != content and not kept and not _config().is_symlink():
            _config().unlink()  # there was none before ours
        elif kept != content:
            _replace(_config(), kept, 0o600)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """A new content at once, with the mode and owner that the file had; a link stays one."""
    real = path.resolve()
    descriptor, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            with contextlib.suppress(FileNotFoundError):
                had = real.stat()
                mode = had.st_mode & 0o7777
                if (had.st_uid, had.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), had.st_uid, had.st_gid)
            os.fchmod(file.fileno(), mode)
        Path(temporary).replace(real)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _lock(*, make: bool) -> Iterator[bool]:
    """Hold ~/.ssh; false, unheld, where there is none and none is to be made."""
    place = Path("~/.ssh").expanduser()
    if make:
        place.mkdir(mode=0o700, exist_ok=True)
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield True
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _guarded(ctx: Context, consequence: str) -> Iterator[None]:
    """What can't be done is said, and stops nothing."""
    try:
        yield
    except (OSError, SkyError) as error:
        _warn(ctx, f"{consequence}: {error}")


def _warn(ctx: Context, message: str) -> None:
    ctx.emit(Event(kind="warning", message=message))
