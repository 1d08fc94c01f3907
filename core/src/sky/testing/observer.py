"""What holds for observers: events are taken quickly and without complaint, policies answer with a task."""

from __future__ import annotations

import time
from typing import ClassVar

import pytest

from sky.api import Event, UsageError
from sky.registry.plugins import Plugin
from sky.task.model import Task
from sky.testing.lab import MakeContext
from sky.testing.plugin import PluginConformance

HOOK_DATA = {
    "plugin": "local",
    "kind": "runner",
    "hook": "sky_run",
    "started": 1.0,
    "ended": 2.0,
    "outcome": "returned",
}
EVENTS = (
    Event(kind="phase", message="waiting"),
    Event(kind="progress", message="", data={"bytes": 1, "files": 0}),
    Event(kind="warning", message="ünïcode\n\0"),
    Event(kind="hook", message="local.sky_run", data=HOOK_DATA),
    Event(kind="of a later version", message="?", data={"new": [None]}),
)


class ObserverConformance(PluginConformance):
    """The author sets `plugin`."""

    kind: ClassVar[str] = "observer"

    def test_events_are_taken_quickly_also_those_it_does_not_know(self, loaded: Plugin) -> None:
        if not loaded.has("sky_event"):
            pytest.skip("not offered: it doesn't listen")
        for event in EVENTS:
            loaded.hook.sky_event(event=event)  # what it imports for the first time is paid here
        started = time.monotonic()
        for event in EVENTS:
            loaded.hook.sky_event(event=event)
        assert time.monotonic() - started < 0.1 * len(EVENTS)

    def test_a_policy_answers_with_a_task_or_none_or_refuses(
        self, loaded: Plugin, ctx_factory: MakeContext
    ) -> None:
        if not loaded.has("sky_task_policy"):
            pytest.skip("not offered: it holds no policy")
        task = Task(name="kit", run="true", envs={"A": "1"})
        before = repr(task)
        try:
            answers = loaded.hook.sky_task_policy(ctx=ctx_factory(), task=task)
        except UsageError as refusal:
            assert refusal.message and refusal.remedy
            return
        assert all(isinstance(answer, Task) for answer in answers)
        assert repr(task) == before, "another task is returned; this one isn't changed"
