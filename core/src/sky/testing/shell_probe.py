"""Run as a script: `sky_shell` of a plugin on the terminal of this process, whose exit code is the shell's."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from sky.api import Command, Host
from sky.registry.plugins import Registry
from sky.testing.lab import context_maker


def main(asked: str) -> int:
    given = json.loads(asked)
    with tempfile.TemporaryDirectory() as directory:
        code: int = (
            Registry()
            .runner(given["plugin"])
            .hook.sky_shell(
                ctx=context_maker(given["config"], Path(directory))(),
                host=Host(**given["host"]),
                command=Command(argv=tuple(given["argv"])),
            )
        )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
