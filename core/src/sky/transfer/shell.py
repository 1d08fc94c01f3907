"""Files as plain records, for a host that has neither rsync nor tar."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import ProgramMissing, TransferFailed
from sky.transfer.apply import quote, staged_numbers_script
from sky.transfer.listing import Entry
from sky.transfer.plan import Plan
from sky.transfer.staging import Staging

if TYPE_CHECKING:
    from sky.transfer.copy import Source

REMOTE = """cd "$1" || exit 96
command -v cat >/dev/null 2>&1 || exit 127
send() {
    [ -e "$1" ] || { echo -; return; }
    size=$(stat -L -c %s "$1") && [ -r "$1" ] || { echo -; echo "$1: Permission denied" >&2; return; }
    echo "$size"
    if [ -n "$head" ]; then head -c "$size" "$1"; else cat "$1"; fi
    echo ok
}
head=$(command -v head)
script=$(cat)
eval "$script"
echo end"""


def produce(source: Source, staging: bytes) -> Iterator[bytes]:
    """For each file a line with its length, then its content; the script comes last, announced by `end`."""
    plan = source.plan
    staged: dict[bytes, tuple[int, Entry]] = {}
    for path in plan.files:
        opened = source.open(path)
        if opened is not None:
            staged[path] = len(staged), opened.entry
            yield b"%d\n" % opened.entry.size
            yield from source.content(path, opened)
    plan.without((*source.vanished, *source.torn))
    script = staged_numbers_script(plan, staging, staged)
    yield b"end\n%d\n" % len(script) + script


def request(names: Mapping[bytes, bytes]) -> bytes:
    """The script that sends the files in this order."""
    return b"".join(b"send %s\n" % quote(b"./" + name) for name in names)


def consume(stream: BinaryIO, names: Mapping[bytes, bytes], staging: Staging, plan: Plan) -> None:
    """Stage the records in the order of the request."""
    for path in names.values():
        line = stream.readline(32)
        if line == b"-\n":
            continue
        if not line.rstrip().isdigit():
            raise TransferFailed(f"{os.fsdecode(path)}: what came from the host isn't what was asked for")
        entry = plan.source[path]
        staging.add(path, stream, int(line), entry.mode, entry.mtime)
        if stream.readline(4) != b"ok\n":
            raise TransferFailed(
                f"{os.fsdecode(path)}: it changed while it was read",
                remedy="transfer again when nothing writes to it",
            )
    if stream.readline(8) != b"end\n":
        raise TransferFailed("what came from the host ends too early")


def judge(code: int, outcome: Exception | None, errors: Sequence[str]) -> None:
    """Raise `TransferFailed` unless all that still exists came whole."""
    if code == 127:
        raise ProgramMissing("cat")
    serious = [line for line in errors if ": No such file or directory" not in line]
    if serious:
        raise TransferFailed(serious[0])
    if outcome is not None:
        raise outcome
    if code != 0:
        raise TransferFailed(f"exit code {code} on the host")
