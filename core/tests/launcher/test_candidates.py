"""What is said when nothing can run a task."""

from __future__ import annotations

import pytest

from sky.errors import NothingFeasible, Unreachable
from sky.launcher.candidates import Candidates, Failure
from sky.types import Rejection


def rejection(subject: str, reason: str, rule: str = "cpus", *near: str) -> Rejection:
    return Rejection(cloud="ssh", subject=subject, rule=rule, reason=reason, near_misses=near)


def said(failures: tuple[Failure, ...], *rejections: Rejection) -> NothingFeasible:
    with pytest.raises(NothingFeasible) as caught:
        Candidates(failures=failures, rejections=rejections).require()
    return caught.value


def test_one_reason_is_on_the_line_of_what_is_wrong() -> None:
    error = said((), rejection("ssh", "has no spot", "capability"))
    assert error.message == "nothing can run this task: ssh: has no spot"


def test_each_reason_has_a_line_and_those_who_share_it_are_named_together() -> None:
    error = said(
        (Failure("cheap", "no answer within 5 s", "timed_out"),),
        rejection("lab/h1", "has 2 CPUs, not 8", "cpus", "cpus: 2"),
        rejection("lab/h2", "has 4 CPUs, not 8", "cpus", "cpus: 4"),
        rejection("lab/h3", "has 2 CPUs, not 8", "cpus", "cpus: 2"),
    )
    assert error.message.splitlines() == [
        "nothing can run this task:",
        "cheap: no answer within 5 s",
        "ssh, lab/h1, lab/h3: has 2 CPUs, not 8",
        "ssh, lab/h2: has 4 CPUs, not 8",
    ]
    assert error.remedy == "would do: cpus: 2, cpus: 4"


def test_of_many_only_the_first_are_said_and_how_many_more_there_are() -> None:
    error = said((), *(rejection(f"h{n}", f"has {n} CPUs", "cpus", f"cpus: {n}") for n in range(30)))
    lines = error.message.splitlines()
    assert (len(lines), lines[-1]) == (10, "and 22 more")
    assert error.remedy.endswith("cpus: 7, …")
    error = said((), *(rejection(f"h{n}", "is leased") for n in range(30)))
    assert error.message.endswith("ssh, h0, h1, h2, h3 and 26 more: is leased")


def test_where_nobody_could_be_asked_that_is_the_failure() -> None:
    failures = tuple(Failure(name, "no route", "unreachable") for name in ("a", "b"))
    with pytest.raises(Unreachable) as caught:
        Candidates(failures=failures).require()
    assert caught.value.message == "a: no route\nb: no route"
