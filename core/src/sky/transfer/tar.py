"""Files as a tar stream: made here for the host's tar, or made there and read here."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import ProgramMissing, TransferFailed
from sky.transfer.apply import quote, staged_tree_script
from sky.transfer.listing import Entry
from sky.transfer.plan import Plan
from sky.transfer.staging import Staging

if TYPE_CHECKING:
    from sky.transfer.copy import Source

REMOTE = """cd "$1" || exit 96
command -v cat >/dev/null 2>&1 || exit 127
LC_ALL=C; export LC_ALL
code=0
script=$(cat)
eval "$script"
exit $code"""

HARMLESS = re.compile(
    r"changed as we read it|removed before we read it|: No such file or directory"
    r"|failure status due to previous|error exit delayed"
)
"""What tar says of a file that vanished or grew meanwhile; a file that shrank is not harmless."""


def produce(source: Source, staging: bytes) -> Iterator[bytes]:
    """New directories, links and files below `files/`, then the script, whose presence says that all came."""
    plan = source.plan
    for path in (b"", *plan.make):
        # The last modes are set in place: some would forbid to move the directory.
        yield _header(b"files/" + path, tarfile.DIRTYPE, Entry("d", 0o700, 0))
    for path in plan.links:
        yield _header(b"files/" + path, tarfile.SYMTYPE, plan.source[path])
    for path in plan.files:
        opened = source.open(path)
        if opened is not None:
            yield _header(b"files/" + path, tarfile.REGTYPE, opened.entry)
            yield from source.content(path, opened)
            yield bytes(-opened.entry.size % tarfile.BLOCKSIZE)
    plan.without((*source.vanished, *source.torn))
    script = staged_tree_script(plan, staging, source.torn)
    yield _header(b"apply", tarfile.REGTYPE, Entry("f", 0o600, 0, len(script)))
    yield script + bytes(-len(script) % tarfile.BLOCKSIZE) + bytes(2 * tarfile.BLOCKSIZE)


def _header(path: bytes, kind: bytes, entry: Entry) -> bytes:
    member = tarfile.TarInfo(os.fsdecode(path))
    member.type, member.mode, member.mtime, member.size = kind, entry.mode, entry.mtime, entry.size
    member.linkname = os.fsdecode(entry.link)
    # Busybox knows GNU's long names, and of the newer format's only that there is something to skip.
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def request(names: Mapping[bytes, bytes]) -> bytes:
    """The script that makes one archive after another of as many names as a command line holds."""
    lines, words, size = [], [b"tar -c -h -f -"], 0
    for name in names:
        words.append(quote(b"./" + name))
        size += len(words[-1])
        if size > 60_000:
            lines.append(b" ".join(words) + b" || code=$?")
            words, size = [b"tar -c -h -f -"], 0
    if len(words) > 1:
        lines.append(b" ".join(words) + b" || code=$?")
    return b"\n".join(lines) + b"\n"


def consume(stream: BinaryIO, names: Mapping[bytes, bytes], staging: Staging, plan: Plan) -> None:
    """Stage the files that were asked for, and nothing else, whatever the archive holds."""
    with tarfile.open(
        fileobj=stream, mode="r|", ignore_zeros=True, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for member in archive:
            # tarfile keeps all it has seen.
            archive.members = []  # type: ignore[attr-defined]
            path = names.get(os.fsencode(member.name).removeprefix(b"./"))
            if path is None or path in staging.files:
                continue
            # Not the archive's own attributes: Busybox makes an old time zero.
            attributes = plan.source[path].mode, plan.source[path].mtime
            if member.islnk():
                original = names.get(os.fsencode(member.linkname).removeprefix(b"./"), b"")
                if original in staging.files:
                    staging.add_copy(path, original, *attributes)
            elif member.isreg():
                content = archive.extractfile(member)
                assert content is not None
                try:
                    staging.add(path, content, member.size, *attributes)  # type: ignore[arg-type]
                except tarfile.ReadError as error:
                    raise TransferFailed(f"{os.fsdecode(path)}: it came only in part") from error


def judge(code: int, outcome: Exception | None, errors: Sequence[str]) -> None:
    """Raise `TransferFailed` unless all that still exists came whole."""
    if code == 127:
        raise ProgramMissing("tar")
    if code != 0:
        serious = [line for line in errors if not HARMLESS.search(line)]
        if isinstance(outcome, TransferFailed):
            raise TransferFailed(" ".join([outcome.message, *(f"({line})" for line in serious[:1])]))
        if serious or not errors:
            raise TransferFailed(serious[0] if serious else f"tar ended with {code} on the host")
    if isinstance(outcome, tarfile.TarError):
        raise TransferFailed(f"what came from the host is no tar archive: {outcome}") from outcome
    if outcome is not None:
        raise outcome
