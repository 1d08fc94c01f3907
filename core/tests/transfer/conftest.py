"""A host made of a directory and a PATH: real processes, run with the semantics of `sky_run`."""

# Paths are bytes here, for a name need not be text; pathlib has none.
# ruff: noqa: PTH115, PTH118, PTH208
from __future__ import annotations

import hashlib
import os
import queue
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

from sky.api import (
    Cache,
    Cancelled,
    CancelToken,
    Command,
    ConnectionLost,
    Context,
    Event,
    Host,
    TimedOut,
    Transfer,
    TransferResult,
    transfer_over,
)

SMALL_TOOLS = (
    "sh",
    "cat",
    "chmod",
    "dd",
    "find",
    "head",
    "ln",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "rmdir",
    "stat",
)
SMALL_TOOLS += ("tar", "touch")

Tree = Mapping[str, tuple[object, ...]]


def tree_of(root: Path | str) -> Tree:
    """All that a transfer has to keep, by path: type, mode, mtime in seconds, content or link target."""
    found: dict[str, tuple[object, ...]] = {}
    for directory, names, files in os.walk(os.fsencode(root)):
        for path in [directory, *(os.path.join(directory, name) for name in (*names, *files))]:
            status = os.lstat(path)
            key = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                digest = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
                found[key] = ("file", oct(stat.S_IMODE(status.st_mode)), int(status.st_mtime), digest)
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("dir", oct(stat.S_IMODE(status.st_mode)), int(status.st_mtime))
            else:
                found[key] = ("special",)
    return found


@dataclass
class FakeHost:
    """`run` is a `sky_run`. With `cut_after`, the connection breaks after that many bytes of a direction."""

    home: Path
    path: Path
    runs: int = 0
    user: int | None = None
    one_loop: bool = False
    """Like a runner with one `select` loop: while it writes to `stdout`, it sends nothing of stdin."""
    cut_after: tuple[str, int] | None = None
    before_run: Callable[[Command], None] | None = None
    on_bytes: Callable[[str, int], None] | None = None
    commands: list[Command] = field(default_factory=list)
    moved: Counter[str] = field(default_factory=Counter)
    """Bytes by direction, `in` and `out`, of all runs."""

    def run(
        self,
        ctx: Context,
        host: Host,
        command: Command,
        stdin: BinaryIO | None,
        stdout: BinaryIO,
        stderr: BinaryIO,
    ) -> int:
        self.runs += 1
        self.commands.append(command)
        if self.before_run:
            self.before_run(command)
        process = subprocess.Popen(
            command.argv,
            executable=str(self.path / command.argv[0]),
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": str(self.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            user=self.user,
            process_group=0,
        )
        failures: list[BaseException] = []
        lost = threading.Event()

        def end() -> None:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass

        def count(way: str, size: int) -> bool:
            self.moved[way] += size
            if self.on_bytes:
                self.on_bytes(way, self.moved[way])
            if self.cut_after and self.cut_after[0] == way and self.moved[way] >= self.cut_after[1]:
                lost.set()
                end()
            return lost.is_set()

        def feed() -> None:
            assert process.stdin
            try:
                while stdin is not None and (data := stdin.read(65536)):
                    if count("in", len(data)):
                        return
                    process.stdin.write(data)
                if command.stdin_mode == "eof" or stdin is None:
                    process.stdin.close()
            except BrokenPipeError:
                pass
            except Exception as error:  # noqa: BLE001 - all is raised again, by `run`
                failures.append(error)
                end()

        def drain(source: BinaryIO, sink: BinaryIO, way: str) -> None:
            try:
                while data := source.read(65536):
                    if way == "out" and count("out", len(data)):
                        source.close()
                        return
                    with loop:
                        sink.write(data)
            except Exception as error:  # noqa: BLE001 - all is raised again, by `run`
                failures.append(error)
                end()

        loop = threading.Lock() if self.one_loop else nullcontext()
        ahead: queue.Queue[bytes] = queue.Queue(4)

        def read_ahead() -> None:
            while data := (stdin.read(65536) if stdin else b""):
                ahead.put(data)
            ahead.put(b"")

        def feed_in_loop() -> None:
            threading.Thread(target=read_ahead, daemon=True).start()
            assert process.stdin
            while data := ahead.get():
                with loop:
                    pass
                try:
                    process.stdin.write(data)
                except BrokenPipeError:
                    return

        assert process.stdout and process.stderr
        feeder = threading.Thread(target=feed_in_loop if self.one_loop else feed, daemon=True)
        drains = [
            threading.Thread(target=drain, args=(process.stdout, stdout, "out")),
            threading.Thread(target=drain, args=(process.stderr, stderr, "err")),
        ]
        for thread in (feeder, *drains):
            thread.start()
        undo = ctx.cancel.on_cancel(end)
        try:
            while any(thread.is_alive() for thread in drains):
                drains[0].join(0.01)
                drains[1].join(0.01)
                if ctx.deadline is not None and time.monotonic() > ctx.deadline:
                    end()
            code = process.wait()
        finally:
            undo()
            process.stdout.close()
            process.stderr.close()
            # The runner doesn't wait for whoever gives it stdin.
            threading.Thread(target=lambda: (feeder.join(), process.stdin and process.stdin.close())).start()
        if ctx.cancel.cancelled:
            raise Cancelled("cancelled")
        if ctx.deadline is not None and time.monotonic() > ctx.deadline:
            raise TimedOut("too late")
        if failures:
            raise failures[0]
        if lost.is_set():
            raise ConnectionLost("the connection was cut")
        return code if code >= 0 else 128 - code


@dataclass
class World:
    """One local side, one host, and the way between them."""

    local: Path
    host: FakeHost
    method: str
    events: list[Event]
    ctx: Context

    def move(
        self, direction: str, source: str | Path, target: str | Path, **options: object
    ) -> TransferResult:
        transfer = Transfer(direction=direction, source=str(source), target=str(target), **options)  # type: ignore[arg-type]
        where = Host(transport="fake", address={"home": str(self.host.home)})
        result = transfer_over(self.host.run, self.ctx, where, transfer)
        assert result.method == self.method
        return result

    def ends(self, direction: str) -> tuple[Path, Path]:
        """The directories below which the source and the target are."""
        return (self.local, self.host.home) if direction == "up" else (self.host.home, self.local)

    def warnings(self) -> list[str]:
        return [event.message for event in self.events if event.kind == "warning"]


@pytest.fixture(scope="session")
def userlands(request: pytest.FixtureRequest) -> dict[str, Path]:
    """Directories for PATH: GNU's tools with dash, or Busybox; with rsync, with tar alone, or with neither."""
    # Not below pytest's own directory, which another user may not enter.
    base = Path(tempfile.mkdtemp(prefix="sky-userlands-"))
    base.chmod(0o755)
    request.addfinalizer(lambda: shutil.rmtree(base))
    busybox = shutil.which("busybox") or pytest.fail("the tests need busybox (busybox-static)")
    rsync = shutil.which("rsync") or pytest.fail("the tests need rsync")
    content = Path(busybox).read_bytes()
    # A Busybox finds its own applets without PATH: one that has no tar needs it renamed in its table.
    without_tar = base / "busybox"
    assert content.count(b"\0tail\0tar\0taskset\0") == 1
    without_tar.write_bytes(content.replace(b"\0tail\0tar\0taskset\0", b"\0tail\0tap\0taskset\0"))
    without_tar.chmod(0o755)
    found: dict[str, Path] = {}
    for method in ("rsync", "tar", "sh"):
        for userland in ("gnu", "busybox"):
            path = found[f"{method}-{userland}"] = base / f"{method}-{userland}"
            path.mkdir()
            for tool in SMALL_TOOLS:
                if tool == "tar" and method == "sh":
                    continue
                box = str(without_tar) if method == "sh" else busybox
                real = shutil.which("dash" if tool == "sh" else tool) or pytest.fail(f"the tests need {tool}")
                (path / tool).symlink_to(box if userland == "busybox" else os.path.realpath(real))
            if method == "rsync":
                (path / "rsync").symlink_to(os.path.realpath(rsync))
    return found


@pytest.fixture(params=[f"{m}-{u}" for m in ("rsync", "tar", "sh") for u in ("gnu", "busybox")])
def world(request: pytest.FixtureRequest, userlands: dict[str, Path], tmp_path: Path) -> Iterator[World]:
    """One for each method and userland of the host."""
    made = make_world(tmp_path, userlands[request.param], request.param.partition("-")[0])
    with nothing_left_behind():
        yield made


@pytest.fixture
def world_by(userlands: dict[str, Path], tmp_path: Path) -> Callable[..., World]:
    """A world by name, for what needs no more than one of them."""

    def make(name: str, base: Path = tmp_path) -> World:
        return make_world(base, userlands[name], name.partition("-")[0])

    return make


def make_world(base: Path, path: Path, method: str) -> World:
    for name in ("local", "home", "private"):
        (base / name).mkdir()
    events: list[Event] = []
    ctx = Context(
        config={},
        deadline=None,
        cancel=CancelToken(),
        emit=events.append,
        cache=Cache(),
        directory=base / "private",
    )
    ctx.cancel.fileno()
    return World(base / "local", FakeHost(base / "home", path), method, events, ctx)


@pytest.fixture
def tree() -> Callable[[Path | str], Tree]:
    return tree_of


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """No descriptor, thread or zombie outlives a test."""

    def state() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    before = state()
    yield
    deadline = time.monotonic() + 5
    while state() > before or _zombies():
        assert time.monotonic() < deadline, f"left behind: {before} -> {state()}, zombies {_zombies()}"
        time.sleep(0.01)


def _zombies() -> list[str]:
    children = Path("/proc/self/task").glob("*/children")
    pids = [pid for file in children for pid in _text(file).split()]
    return [pid for pid in pids if "\nState:\tZ" in _text(Path(f"/proc/{pid}/status"))]


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
