"""Sky: launch a task on the cheapest place that can run it.

As a library: `sky.launch(sky.load_task("task.yaml"), "dev")`, `sky.status()`, …; see `sky.client`. Names
are imported on first use, so that `import sky` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sky import errors
    from sky.client import (
        cancel,
        check,
        down,
        launch,
        logs,
        plan,
        queue,
        rsync,
        shell,
        status,
        sync_down_logs,
    )
    from sky.client import exec_ as exec
    from sky.session import Session
    from sky.task.load import load_task_file as load_task
    from sky.task.model import Task

__version__ = "0.2.0"

_CLIENT = (
    "cancel",
    "check",
    "down",
    "launch",
    "logs",
    "plan",
    "queue",
    "rsync",
    "shell",
    "status",
    "sync_down_logs",
)
_WHERE = {**dict.fromkeys(_CLIENT, "sky.client"), "Session": "sky.session", "Task": "sky.task.model"}
_RENAMED = {"exec": ("sky.client", "exec_"), "load_task": ("sky.task.load", "load_task_file")}

__all__ = [
    "Session",
    "Task",
    "cancel",
    "check",
    "down",
    "errors",
    "exec",
    "launch",
    "load_task",
    "logs",
    "plan",
    "queue",
    "rsync",
    "shell",
    "status",
    "sync_down_logs",
]


def __getattr__(name: str) -> object:
    import importlib

    if name == "errors":
        return importlib.import_module("sky.errors")
    module, attribute = _RENAMED.get(name) or (_WHERE.get(name), name)
    if module is None:
        raise AttributeError(f"module 'sky' has no attribute {name!r}")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
