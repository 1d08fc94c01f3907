"""The same question to several places at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from sky.api import Context, Event, TimedOut, ask_each
from sky.testing.lab import context_maker


def test_after_two_seconds_it_is_said_once_whom_it_waits_for(tmp_path: Path) -> None:
    said = threading.Event()
    events: list[Event] = []

    class Events(list[Event]):
        def append(self, event: Event) -> None:
            events.append(event)
            said.set()

    def ask(ctx: Context, place: str) -> str:
        if place != "quick":
            assert said.wait(20), "nothing is said"
        return place

    started = time.monotonic()
    ctx = context_maker({}, tmp_path)(30, events=Events())
    assert ask_each(ctx, ["stuck", "quick", "slow"], ask, 30) == ["stuck", "quick", "slow"]
    assert 2 <= time.monotonic() - started < 10
    (event,) = events
    assert event.kind == "phase" and event.message.startswith("waiting for stuck, slow, 2")
    assert event.message.endswith(" seconds more at most")


def test_who_answers_soon_is_not_spoken_of(tmp_path: Path) -> None:
    events: list[Event] = []
    ctx = context_maker({}, tmp_path)(30, events=events)
    assert ask_each(ctx, ["a", "b"], lambda inner, place: place, 30) == ["a", "b"]
    assert events == []


def test_a_late_one_is_named(tmp_path: Path) -> None:
    over = threading.Event()
    ctx = context_maker({}, tmp_path)(30)
    try:
        (answer,) = ask_each(ctx, ["stuck"], lambda inner, place: over.wait(20), 0.2)
    finally:
        over.set()
    assert isinstance(answer, TimedOut) and answer.message == "stuck: no answer within 0.2 s"
