"""Connections that commands share: OpenSSH's masters, one for each host, started by whoever comes first.

A master is found by a socket whose name is a digest of everything that decides where the connection leads, so
that all processes of a user share it. It's started under a lock, one handshake for a host at a time (sshd
refuses many at once: MaxStartups). A server lets ten sessions into one connection (MaxSessions); for
more there are spare masters, numbered from 1, that are kept for a shorter time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import random
import stat
import subprocess
import time
from collections.abc import Iterator

from sky.api import (
    Context,
    CredentialsError,
    Host,
    ProgramMissing,
    SkyError,
    TimedOut,
    Unreachable,
    UsageError,
    run_process,
)
from sky_ssh import options
from sky_ssh.address import Target

SPARES = 16
_LONGEST_DIRECTORY = 55  # a socket's path holds 104 bytes on some systems; ssh adds 17 while it makes it
_DROPPED_TRIES = 5
_SHARED = {kind.kind: kind for kind in (Unreachable, CredentialsError, UsageError)}


class Master:
    """The connection number `slot` to a host."""

    def __init__(self, ctx: Context, target: Target, slot: int = 0) -> None:
        self._ctx = ctx
        self._target = target
        self._slot = slot
        hop = target.hop()
        self._hop = Master(ctx, hop) if hop is not None else None
        self.identity = options.identity(ctx.config, target, self._hop.socket if self._hop else "")
        told = "\0".join((target.host, *self.identity))
        digest = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._stem = f"{directory()}/{digest}"
        self.socket: str = f"{self._stem}-{slot}" if slot else self._stem

    def made(self) -> int:
        """When the master began to listen, which tells it from others: 0 for none. It may have died since."""
        try:
            return os.stat(self.socket).st_mtime_ns  # noqa: PTH116 - pathlib's cost shows in exec
        except FileNotFoundError:
            return 0

    def ensure(self, stale: int = 0, *, terminal: bool = False) -> int:
        """Start it unless there is one, other than the `stale` that didn't answer; when it was `made`. Blocks.

        With `terminal`, ssh may ask the user for a passphrase or about a host key.
        Raises `Unreachable`, `CredentialsError`, `UsageError`, `TimedOut`, `Cancelled`.
        """
        found = self.made()
        if found and found != stale:
            return found
        asked = time.monotonic()
        with self._lock() as record:
            found = self.made()
            if found and found != stale:
                return found
            _raise_shared(record, asked)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.socket)  # noqa: PTH108
            try:
                self._start(terminal)
            except (Unreachable, CredentialsError) as error:
                _share(record, error)
                raise
            return self.made()

    def answers(self) -> bool:
        """Whether a master listens. Blocks briefly."""
        return self._control("check") == 0

    def through_hop(self) -> list[str]:
        """The options for a connection of one's own on the same way; the hop's is started. Blocks."""
        from sky_ssh import failures

        failures.check_files(self._target)
        if self._hop is not None:
            made = self._hop.ensure()
            if not self._hop.answers():
                self._hop.ensure(stale=made)
        return self.identity

    def exit(self) -> None:
        """Close it. Idempotent."""
        if self.made():
            with contextlib.suppress(SkyError):  # nobody listens: it's gone
                self._control("exit")

    def _control(self, word: str) -> int:
        return control(self._ctx, self.socket, word)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[int]:
        descriptor = os.open(f"{self._stem}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._wait(0.02)
            yield descriptor
        finally:
            os.close(descriptor)

    def _left(self) -> float | None:
        left = None if self._ctx.deadline is None else self._ctx.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimedOut(f"{self._target.name}: connecting ran longer than allowed")
        return left

    def _wait(self, seconds: float) -> None:
        self._left()
        self._ctx.cancel.wait(seconds)
        self._ctx.cancel.check()

    def _start(self, terminal: bool) -> None:
        """Connect; again where the server was too busy to greet, or the hop's master had died."""
        from sky_ssh import failures

        failures.check_files(self._target)
        for attempt in range(_DROPPED_TRIES):
            hop = self._hop.ensure(terminal=terminal) if self._hop is not None else 0
            code, said = self._connect(terminal)
            if code == 0:
                return
            if attempt == 0 and self._hop is not None and failures.by_dead_hop(said):
                self._hop.ensure(stale=hop, terminal=terminal)
            elif failures.was_dropped(said):
                self._wait(random.uniform(0.1, 0.4) * 2**attempt)
            else:
                break
        raise failures.of_connecting(self._ctx.config, self._target, self.identity, said)

    def _connect(self, terminal: bool) -> tuple[int, str]:
        background = options.master_arguments(self._ctx.config, self.socket, self._left(), bool(self._slot))
        batch = () if terminal else options.BATCH
        argv = [options.PROGRAM, *batch, *background, *self.identity, "--", self._target.host]
        if terminal:
            return subprocess.call(argv), ""
        said = io.BytesIO()
        # It must not ask by a window either.
        environment = {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
        try:
            code = run_process(
                self._ctx,
                argv,
                None,
                io.BytesIO(),
                said,
                what=f"{self._target.name}: connecting",
                env=environment,
            )
        except ProgramMissing as error:
            raise no_program() from error
        return code, said.getvalue().decode("utf-8", "replace")


def control(ctx: Context, socket: str, word: str) -> int:
    """Say `check` or `exit` to a master; 0 if it heard. Blocks briefly."""
    argv = [options.PROGRAM, *options.session_arguments(socket), "-O", word, "host"]
    return run_process(ctx, argv, None, io.BytesIO(), io.BytesIO(), what=f"{word} of a connection")


def no_program() -> SkyError:
    """This machine has no ssh."""
    return SkyError("this machine has no program ssh", remedy="install the OpenSSH client")


def directory() -> str:
    """Where the sockets are: private, and with a short name. Raises `SkyError` when it is another's."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    chosen = f"{base}/sky-ssh"
    if not base.startswith("/") or len(chosen) > _LONGEST_DIRECTORY or not os.access(base, os.W_OK):
        chosen = f"/tmp/sky-ssh-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(chosen, 0o700)  # noqa: PTH102 - pathlib's cost shows in exec
    found = os.lstat(chosen)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SkyError(
            f"{chosen} isn't a private directory of yours: no connection is kept in it",
            remedy=f"look whose it is; then rm -r {chosen}, or chmod 700 {chosen}",
        )
    return chosen


def disconnect(ctx: Context, host: Host | None) -> None:
    """`sky_disconnect`: also ends what still runs over these connections, of any process of the user."""
    if host is not None:
        target = Target.of(host)
        for slot in range(SPARES + 1):
            Master(ctx, target, slot).exit()
        return
    place = directory()
    for name in os.listdir(place):  # noqa: PTH208
        path = f"{place}/{name}"
        with contextlib.suppress(FileNotFoundError, SkyError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                control(ctx, path, "exit")


def _share(record: int, error: SkyError) -> None:
    """Tell those who wait for the lock: each would fail the same way, one after the other."""
    import json

    said = {"at": time.monotonic(), "kind": error.kind, "message": error.message, "remedy": error.remedy}
    os.ftruncate(record, 0)
    os.pwrite(record, json.dumps(said).encode(), 0)


def _raise_shared(record: int, since: float) -> None:
    """Raise what another failed with while we waited for it."""
    import json

    try:
        said = json.loads(os.pread(record, 1 << 16, 0))
        at, kind = float(said["at"]), _SHARED[said["kind"]]
    except (ValueError, KeyError, TypeError):
        return
    if since < at <= time.monotonic():
        raise kind(said["message"], remedy=said["remedy"], retryable=kind is Unreachable)
