"""The client's side of docs/protocol.md: how a call is put together, and how its answers are read.

Nothing here does I/O; `engine.py` sends what this makes through a runner.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import quote, unquote

from sky.types import Command, Job, JobState, JobStatus

VERSION = 1
PARTS = ("facts", "processes", "queue", "gang", "link", "drive", "verbs")
"""The files that make up the script, in this order."""


@functools.cache
def _scripts() -> tuple[str, bytes, str]:
    """The bootstrap, the script without its comments and indentation, and the script's hash."""
    import hashlib

    here = Path(__file__).parent
    boot = _bare(here.joinpath("boot.sh").read_text(encoding="ascii"))
    node = "".join(_bare(here.joinpath(f"{part}.sh").read_text(encoding="ascii")) for part in PARTS).encode(
        "ascii"
    )
    return boot, node, hashlib.sha256(node).hexdigest()[:16]


def _bare(script: str) -> str:
    """Without whole-line comments and indentation: it crosses the network with every call."""
    lines = (line.strip() for line in script.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def call(work_dir: str, verb: str, *args: str, payload: bytes = b"") -> tuple[Command, io.BytesIO]:
    """The command that does `verb` on a node, and its stdin. One round trip, whatever the node has."""
    boot, node, digest = _scripts()
    argv = ("sh", "-c", boot, "sky", work_dir, digest, str(len(node)), verb, *args)
    return Command(argv=argv, stdin_mode="open"), io.BytesIO(node + payload)


@dataclass(frozen=True)
class Later:
    """Bytes of a known number that aren't known yet. `wait` blocks until they are; b"" when they never will be."""

    size: int
    wait: Callable[[], bytes]


class _Stdin:
    """What is known at once, then what is waited for and the end; without that, none: nothing is submitted then."""

    def __init__(self, known: io.BytesIO, later: Later, end: bytes) -> None:
        self._known, self._later, self._end = known, later, end
        self._waited = False

    def read1(self, size: int = -1) -> bytes:
        data = self._known.read(size)
        if not data and not self._waited:
            self._waited = True
            came = self._later.wait()
            self._known = io.BytesIO(came + self._end if came else b"")
            data = self._known.read(size)
        return data

    read = read1


def submit(
    work_dir: str, job: Job, env: Mapping[str, str], follow: bool, gang: bytes | Later | None = None
) -> tuple[Command, BinaryIO]:
    """Submit `job`; a repeat with the same token is the same job. No value of it is in an argument.

    `gang` (see `gang_file`) makes it one rank of a job of several nodes. It may come later: the host is reached,
    and has read all else, by then.
    """
    import math

    exports = env_script(env)
    setup, run = (None if text is None else script_bytes(text) for text in (job.setup, job.run))
    size = "-" if gang is None else str(gang.size if isinstance(gang, Later) else len(gang))
    known = exports + (setup or b"") + (run or b"")
    end = job.token.encode() + b"\n"
    command, stdin = call(
        work_dir,
        "submit",
        job.token,
        encode_name(job.name),
        str(math.ceil(job.accelerators_per_node)),
        str(job.place_accelerators_per_node),
        str(len(exports)),
        "-" if setup is None else str(len(setup)),
        "-" if run is None else str(len(run)),
        size,
        "1" if follow else "0",
        payload=known if isinstance(gang, Later) else known + (gang or b"") + end,
    )
    if isinstance(gang, Later):
        return command, cast("BinaryIO", _Stdin(stdin, gang, end))
    return command, stdin


def gang_file(rank: int, secret: str, names: Sequence[str], address: str = "-", port: str = "-") -> bytes:
    """What one rank knows of the others: how to prove itself, where rank 0 waits for it, and all names.

    Names are for messages, and cut down to what is harmless in a shell's word.
    """
    plain = [
        "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)[:60]
        for name in names
    ]
    return "\n".join([f"{rank} {len(names)} {secret}", f"{address} {port}", *plain, ""]).encode("ascii")


def script_bytes(text: str) -> bytes:
    """A user's block as the node's shell reads it: line ends are LF, and the last line has one."""
    text = text.replace("\r\n", "\n")
    return (text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape")


def env_script(env: Mapping[str, str]) -> bytes:
    """Assignments for a POSIX shell to read; any value but one with NUL comes out as it went in."""
    lines = (f"export {name}='{value.replace(chr(39), QUOTED_QUOTE)}'\n" for name, value in env.items())
    return "".join(lines).encode("utf-8", "surrogateescape")


QUOTED_QUOTE = "'\\''"


def encode_name(name: str) -> str:
    """A job's name as one word without white space."""
    return quote(name, safe="") or "-"


def decode_name(word: str) -> str:
    return "" if word == "-" else unquote(word)


class Control:
    """Splits a node's stderr into the protocol's own lines and anything else that was said there.

    A binary file for a runner to write to. `on_line` gets the words after `sky1`; other lines are kept in
    `other` (the last 4 KiB), for the error message when the call fails.
    """

    def __init__(self, on_line: Callable[[list[str]], None]) -> None:
        self._on_line = on_line
        self._rest = b""
        self.other = b""

    def write(self, data: bytes) -> int:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"sky%d " % VERSION):
                self._on_line(line.decode("utf-8", "replace").split(" ")[1:])
            else:
                self.other = (self.other + line + b"\n")[-4096:]
        return len(data)

    def flush(self) -> None:
        pass


def parse_list(output: bytes) -> list[tuple[JobStatus, str]]:
    """The answer to `list`: each job, and its directory on the node."""
    found = []
    for line in output.decode("utf-8", "replace").splitlines():
        number, state, code, submitted, started, ended, devices, name, nodes, reason, directory = line.split(
            "\t", 10
        )
        status = JobStatus(
            id=number,
            name=decode_name(name),
            state=JobState(state),
            exit_code=int(code) if code != "-" else None,
            submitted_at=_time(submitted),
            started_at=_time(started),
            ended_at=_time(ended),
            reason=reason,
            num_nodes=int(nodes),
            accelerators="" if devices == "-" else devices,
        )
        found.append((status, directory))
    return found


def _time(word: str) -> float | None:
    return None if word == "-" else float(word)
