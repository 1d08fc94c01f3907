"""One large file to a host without rsync: what came before a connection was lost stays, and isn't sent again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sky.transfer import codes
from sky.transfer.apply import staged_numbers_script
from sky.transfer.pipes import Head, Produced
from sky.transfer.plan import Plan
from sky.types import Command, Host

if TYPE_CHECKING:
    from sky.transfer import Run
    from sky.transfer.copy import Source

LARGE_BYTES = 64 << 20
"""From here on a file is worth two more round trips."""
BLOCK = 65536
PROGRAMS = frozenset({"dd", "stat"})


def is_large(plan: Plan) -> bool:
    """Whether it is one such file and nothing else."""
    return len(plan.files) == 1 and not plan.make and plan.source[plan.files[0]].size >= LARGE_BYTES


def send_large(run: Run, host: Host, source: Source, root: str) -> None:
    """Send the one file of `source.plan` in four `run`s. Blocks. Raises as `transfer_over`."""
    (path,) = source.plan.files
    opened = source.open(path)
    if opened is None:
        source.plan.without([path])
        return
    identity = b"%s\0%d\0%d" % (path, opened.entry.size, opened.entry.mtime)
    staging = f"{source.route.stale_prefix}-{hashlib.sha256(identity).hexdigest()[:12]}"
    script = Path(__file__).with_name("scripts").joinpath("large.sh").read_text()

    def step(name: str, *more: str, stdin: BinaryIO | None = None) -> list[str]:
        said, errors = Head(), Head()
        command = Command(argv=("sh", "-c", script, "sky", name, root, staging, *more))
        code = run(source.ctx, host, command, stdin, said.as_file(), errors.as_file())
        if code != 0:
            raise codes.failure(root, staging, "dd", code, errors.lines)
        return said.lines

    with opened.file:
        there = next((int(line) for line in step("has") if line.isdigit()), 0)
        blocks = min(there, opened.entry.size) // BLOCK
        opened.file.seek(blocks * BLOCK)
        content = Produced(source.content(path, opened, blocks * BLOCK)).as_file()
        step("take", source.route.stale_prefix, str(blocks), str(opened.entry.size), stdin=content)
    if source.torn:
        step("drop")
        source.plan.without([path])
        return
    entry = source.plan.root
    attributes = (f"{entry.mode:05o}", str(entry.mtime)) if entry else ("", "")
    names = staged_numbers_script(source.plan, f"./{staging}".encode(), {path: (0, opened.entry)})
    step("apply", *attributes, stdin=Produced(iter([names])).as_file())
