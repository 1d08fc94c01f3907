"""Hosts of clusters that were published to the user's ssh config: they are found even without any pool.

`names.py` writes them: a file for each cluster, with a line `# sky: {"id": …, "hosts": [{"name": …,
"address": {…}}, …]}`.
"""

from __future__ import annotations

import json
from pathlib import Path

from sky.api import Context, Event
from sky_ssh.lease import Node

MARK = "# sky: "


def directory() -> Path:
    """Below the home of $HOME: it survives the loss of Sky's own state."""
    return Path("~/.ssh/sky").expanduser()


def nodes(ctx: Context) -> list[Node]:
    """The hosts of every such file. A file that can't be read is a `warning` event."""
    found: list[Node] = []
    for path in sorted(directory().glob("*.conf")):
        try:
            for line in path.read_text("utf-8").splitlines():
                if line.startswith(MARK):
                    told = json.loads(line.removeprefix(MARK))
                    found += [Node(host["name"], host["address"]) for host in told["hosts"]]
        except FileNotFoundError:
            continue  # withdrawn meanwhile
        except (OSError, ValueError, KeyError, TypeError) as error:
            ctx.emit(Event(kind="warning", message=f"{path} can't be read, its hosts aren't asked: {error}"))
    return found
