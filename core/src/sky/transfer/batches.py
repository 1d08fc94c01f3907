"""A large plan in several, each whole in itself: what a lost connection undoes is one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sky.transfer.plan import Plan, parent_of

BATCH_BYTES = 64 << 20
"""Of file content. A file that is larger is one of its own; a round trip is small beside it."""


def batches(plan: Plan, limit_bytes: int = BATCH_BYTES) -> Iterator[Plan]:
    """Plans to carry out one after the other; the first does all that isn't content. Equal to `plan` together.

    A plan for a target that could not be listed is not split: its repeat would send all again.
    """
    groups = list(_groups(plan, limit_bytes)) if plan.trusted else [plan.files]
    if groups[0] or not replace(plan, files=[]).empty:
        yield replace(plan, files=groups[0])
    for files in groups[1:]:
        around = {above for path in files for above in _above(path)}
        locked = {path for path in around if plan.source[path].mode & 0o700 != 0o700}
        touched = {parent for path in files if (parent := parent_of(path))} | locked
        yield Plan(
            plan.source,
            unlock=sorted(locked),
            files=files,
            directories=sorted(touched, key=lambda path: (-path.count(b"/"), path)),
            root=plan.root,
        )


def _groups(plan: Plan, limit_bytes: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for path in plan.files:
        more = plan.source[path].size
        if size + more > limit_bytes:
            yield group
            group, size = [], 0
        group.append(path)
        size += more
    yield group


def _above(path: bytes) -> Sequence[bytes]:
    found = []
    while path := parent_of(path):
        found.append(path)
    return found
