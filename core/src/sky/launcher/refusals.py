"""Why nothing can run a task, for people: a line for each reason, not for each of a thousand nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sky.wording import some

if TYPE_CHECKING:
    from sky.launcher.candidates import Failure
    from sky.types import Rejection

_LINES = 8


def message(what: str, failures: Iterable[Failure], rejections: Iterable[Rejection]) -> str:
    """`what: why`, or `what` and the reasons below it, one a line."""
    lines = reasons(failures, rejections)
    return f"{what}: {lines[0]}" if len(lines) == 1 else "\n".join([f"{what}:", *lines])


def reasons(failures: Iterable[Failure], rejections: Iterable[Rejection]) -> list[str]:
    """One line for each, those that share it named together; of too many, how many more there are."""
    groups: dict[tuple[str, str, str], dict[str, None]] = {}
    for failure in failures:
        groups.setdefault((failure.cloud, failure.kind, failure.why), {})[failure.cloud] = None
    for r in rejections:
        groups.setdefault((r.cloud, r.rule, r.reason), {})[r.subject] = None
    lines = [f"{_whose(cloud, list(subjects))}: {why}" for (cloud, _, why), subjects in groups.items()]
    left_out = sum(len(subjects) for subjects in list(groups.values())[_LINES:])
    return lines[:_LINES] + [f"and {left_out} more"] * bool(left_out)


def explain(rejection: Rejection) -> str:
    """One rejection in one line."""
    return f"{_whose(rejection.cloud, [rejection.subject])}: {rejection.reason}"


def would_do(rejections: Iterable[Rejection]) -> str:
    """What would have worked, as the user would write it; empty if nothing is known."""
    near = list(dict.fromkeys(miss for rejection in rejections for miss in rejection.near_misses))
    return ", ".join(near[:_LINES]) + ", …" * (len(near) > _LINES)


def _whose(cloud: str, subjects: Sequence[str]) -> str:
    named = some([subject for subject in subjects if subject != cloud])
    return f"{cloud}, {named}" if named else cloud
