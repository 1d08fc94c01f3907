"""What the tests of the task share: the loaders with everything around them fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sky.task.load import load_task_text
from sky.task.model import Task
from sky.task.overrides import Overrides
from sky.task.problems import TaskFileError

Load = Callable[..., Task]


@pytest.fixture
def load() -> Load:
    """`load_task_text` with keyword arguments as options, away from this process's environment."""

    def call(text: str | bytes, *, environ: Any = None, allow_later: bool = False, **options: Any) -> Task:
        return load_task_text(
            text,
            "task.yaml",
            Overrides(**options),
            environ=environ or {},
            base_dir="/base",
            allow_later=allow_later,
        )

    return call


@pytest.fixture
def refusal(load: Load) -> Callable[..., list[str]]:
    """The lines of the `TaskFileError` that loading raises."""

    def call(text: str | bytes, **options: Any) -> list[str]:
        with pytest.raises(TaskFileError) as caught:
            load(text, **options)
        return str(caught.value).splitlines()

    return call
