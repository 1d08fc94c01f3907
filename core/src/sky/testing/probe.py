"""Run as a script (`probe.py KIND MODULE:CLASS`): loads one plugin in a fresh process and prints what that did.

Imports of the core are paid before the clock starts. It must not be imported with the kit: pytest would
already have brought half of what a plugin is measured for.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import time
from typing import Any

import sky.api  # noqa: F401 - see above
from sky import hookspecs  # noqa: F401

_SOCKET_OR_PROCESS = ("socket.connect", "socket.getaddrinfo", "socket.bind", "subprocess.Popen", "os.system")
_CODE = (".py", ".pyc", ".so")


def main(kind: str, value: str) -> dict[str, Any]:
    module, _, attribute = value.partition(":")
    before = set(sys.modules)
    started = time.perf_counter()
    plugin = getattr(importlib.import_module(module), attribute)()
    seconds = time.perf_counter() - started
    imported = sorted(set(sys.modules) - before)
    seen: list[str] = []

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event in _SOCKET_OR_PROCESS:
            seen.append(f"{event} {args[:2]!r}")
        elif event == "open" and isinstance(args[0], (str, bytes)):
            name = args[0] if isinstance(args[0], str) else args[0].decode("utf-8", "replace")
            # Modules that a hook imports for itself are read from files, too.
            if not name.endswith(_CODE) and "__pycache__" not in name:
                seen.append(f"open {name}")

    sys.addaudithook(watch)
    first, second = describe(plugin), describe(plugin)
    return {
        "import_seconds": seconds,
        "imported": imported,
        "io": list(seen),
        "described": first,
        "same_twice": first == second,
    }


def describe(plugin: object) -> dict[str, Any]:
    """What the hooks without a context say, as JSON can hold it."""
    said: dict[str, Any] = {}
    for hook in ("sky_cloud_info", "sky_config_schema"):
        if hasattr(plugin, hook):
            answer = getattr(plugin, hook)()
            said[hook] = dataclasses.asdict(answer) if dataclasses.is_dataclass(answer) else answer  # type: ignore[arg-type]
    return json.loads(json.dumps(said, default=sorted))  # type: ignore[no-any-return]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
