"""A node made of a shell, a PATH and a home directory: what a host is to the protocol, with real processes."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sky.node import protocol
from sky.types import Job, JobState, JobStatus

SHELLS = ("dash", "busybox")
"""dash: with GNU programs, and bash for the user's blocks. busybox: nothing but its applets."""

NEEDED = (
    "sh",
    "dd",
    "ln",
    "mkdir",
    "mv",
    "rm",
    "cat",
    "sleep",
    "setsid",
    "wc",
    "grep",
    "ls",
    "date",
    "head",
    "tail",
)
BUSYBOX_APPLETS = (*NEEDED, "id", "kill", "env", "true", "seq", "yes", "tr", "printf", "touch", "chmod")
MARK = "SKY_NODE_TEST"


@dataclass(frozen=True)
class Answer:
    """What one call said."""

    code: int
    out: bytes
    lines: list[list[str]]
    """Control lines, without the leading `sky1`."""
    other: bytes

    def of(self, kind: str) -> list[list[str]]:
        """The words after `kind`, of each such line."""
        return [words[1:] for words in self.lines if words[0] == kind]

    @property
    def end(self) -> list[str]:
        """State, code and position."""
        (end,) = self.of("end")
        return end

    @property
    def job(self) -> str:
        return self.of("job")[0][0]


@dataclass
class Node:
    shell: str
    home: Path
    path: str
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    env: dict[str, str] = field(default_factory=dict)
    """More of the host's own environment."""
    preexec: Callable[[], object] | None = None
    work_dir: str = ""

    @property
    def work(self) -> Path:
        return self.home / ".sky-node"

    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": self.path, MARK: self.mark, **self.env}

    def open(self, made: tuple[Any, BinaryIO], **more: Any) -> subprocess.Popen[bytes]:
        """Start a call; its stdin stays open after the last byte, as some transports leave it."""
        command, stdin = made
        env = {**self.environment(), **more.pop("env", {})}
        sh = shutil.which(command.argv[0], path=env["PATH"])
        assert sh is not None
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen(
            command.argv,
            executable=sh,
            env=env,
            cwd=self.home,
            stdin=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=self.preexec,
            **more,
        )
        assert process.stdin is not None
        try:
            stdin.seek(0)  # the same may be said twice
            process.stdin.write(stdin.read())
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it refused before it had read all
        return process

    def finish(self, process: subprocess.Popen[bytes], seconds: float = 30) -> Answer:
        stdin, process.stdin = process.stdin, None
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            assert stdin is not None
            try:
                stdin.close()
            except BrokenPipeError:
                pass  # what it never read
        lines: list[list[str]] = []
        control = protocol.Control(lines.append)
        control.write(err or b"")
        return Answer(process.returncode, out or b"", lines, control.other)

    def call(self, verb: str, *args: str, payload: bytes = b"", **more: Any) -> Answer:
        return self.finish(self.open(protocol.call(self.work_dir, verb, *args, payload=payload), **more))

    def submit(self, run: str | None = None, follow: bool = True, env: Any = (), **fields: Any) -> Answer:
        return self.finish(self.open(self.submission(run, follow, env, **fields)))

    def submission(
        self, run: str | None = None, follow: bool = True, env: Any = (), **fields: Any
    ) -> tuple[Any, BinaryIO]:
        return protocol.submit(self.work_dir, job(run, **fields), dict(env), follow)

    def jobs(self) -> list[JobStatus]:
        answer = self.call("list")
        assert answer.lines == [["end", str(answer.out.count(b"\n"))]], answer
        return [status for status, _ in protocol.parse_list(answer.out)]

    def directory(self, job_id: str | int) -> Path:
        return self.work / "j" / (self.work / "q" / str(job_id)).read_text().strip()

    def state(self, job_id: str | int) -> JobState | None:
        return next((status.state for status in self.jobs() if status.id == str(job_id)), None)

    def wait(self, job_id: str | int, *states: str) -> JobState:
        """Until the job is in one of `states`; final ones if none are named."""
        return until(lambda: (s := self.state(job_id)) and (s in states if states else s.final) and s)  # type: ignore[no-any-return]

    def log(self, job_id: str | int) -> bytes:
        return (self.directory(job_id) / "log").read_bytes()

    def wait_log(self, job_id: str | int, text: bytes) -> bytes:
        return until(lambda: text in self.log(job_id) and self.log(job_id))  # type: ignore[no-any-return]

    def living(self) -> list[int]:
        """Processes that were started here and still carry this node's mark."""
        return processes(lambda pid: f"{MARK}={self.mark}".encode() in environ(pid))


def job(run: str | None, **fields: Any) -> Job:
    given: dict[str, Any] = {
        "token": secrets.token_hex(8),
        "name": "",
        "setup": None,
        "run": run,
        "envs": {},
        "secrets": {},
        "num_nodes": 1,
        "accelerators_per_node": 0,
        "place_accelerators_per_node": 0,
    }
    return Job(**{**given, **fields})


def until(check: Callable[[], Any], seconds: float = 20) -> Any:
    """The first true answer of `check`."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
    return found


def processes(wanted: Callable[[int], bool]) -> list[int]:
    return [int(e.name) for e in os.scandir("/proc") if e.name.isdigit() and wanted(int(e.name))]


def environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""  # it ended meanwhile


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def kill(pids: list[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def make_paths(directory: Path) -> dict[str, str]:
    """For each kind of node that can be had here, its PATH."""
    found = {}
    for kind in ("dash", "busybox", "bash"):
        program = shutil.which(kind)
        if program is None:
            continue
        links = directory / kind
        links.mkdir()
        for name in BUSYBOX_APPLETS if kind == "busybox" else ("sh",):
            (links / name).symlink_to(program)
        found[kind] = str(links) if kind == "busybox" else f"{links}:/usr/bin:/bin"
    return found


def make_node(kind: str, paths: Mapping[str, str], directory: Path) -> Node:
    if kind not in paths:
        pytest.skip(f"no {kind} here")
    home = directory / "ho me"
    home.mkdir(parents=True)
    return Node(shell=kind, home=home, path=paths[kind])


def check_clean(node: Node) -> None:
    """End what is left, and fail if anything was."""
    try:
        until(lambda: not node.living(), 3)
    finally:
        kill(node.living())
