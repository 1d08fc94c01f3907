"""Sky as a library: what each command does, as a function. The command line calls these and shows the rest.

Every function blocks and raises `sky.errors`. A `Session` carries configuration, messages and
cancellation; without one, a function makes its own, silent one. Each is imported on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sky.client.clusters import check, down, host_of, rsync, shell, status
    from sky.client.common import Launched
    from sky.client.jobs import cancel, logs, queue, sync_down_logs
    from sky.client.launching import exec_, launch, plan, preview

_MODULES = {
    "clusters": ("check", "down", "host_of", "rsync", "shell", "status"),
    "common": ("Launched",),
    "jobs": ("cancel", "logs", "queue", "sync_down_logs"),
    "launching": ("exec_", "launch", "plan", "preview"),
}

__all__ = [
    "Launched",
    "cancel",
    "check",
    "down",
    "exec_",
    "host_of",
    "launch",
    "logs",
    "plan",
    "preview",
    "queue",
    "rsync",
    "shell",
    "status",
    "sync_down_logs",
]


def __getattr__(name: str) -> object:
    import importlib

    for module, members in _MODULES.items():
        if name in members:
            return getattr(importlib.import_module(f"sky.client.{module}"), name)
    raise AttributeError(f"module 'sky.client' has no attribute {name!r}")
