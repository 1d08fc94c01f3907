"""Hosts of clusters that were published to the user's ssh config: they are found even without any pool.

`names.py` writes a file for each cluster; its line `# sky: {"id": …, "name": …, "cloud": …, "hosts": […]}` is
what is read here. The machines of other clouds hold no leases, and aren't asked.
"""

from __future__ import annotations

import json
from pathlib import Path

from sky.api import Context, Event, Place
from sky_ssh.about import CLOUD
from sky_ssh.lease import Node

MARK = "# sky: "


def directory() -> Path:
    """Below the home of $HOME: it survives the loss of Sky's own state."""
    return Path("~/.ssh/sky").expanduser()


def line(place: Place) -> str:
    """What a cluster's file says of its hosts. No secrets."""
    allocation = place.allocation
    hosts = [{"name": host.name, "address": dict(host.address)} for host in place.hosts]
    if allocation.spec.get("hosts") and allocation.cloud == CLOUD:
        hosts = json.loads(allocation.spec["hosts"])  # where their leases are, too
    told = {
        "id": allocation.id,
        "name": allocation.cluster_name,
        "cloud": allocation.cloud,
        "hosts": hosts,
    }
    return MARK + json.dumps(told)


def nodes(ctx: Context) -> list[Node]:
    """The hosts of every such file. A file that can't be read is a `warning` event."""
    found: list[Node] = []
    for path in sorted(directory().glob("*.conf")):
        try:
            for text in path.read_text("utf-8").splitlines():
                if text.startswith(MARK):
                    told = json.loads(text.removeprefix(MARK))
                    found += [Node(**host) for host in told["hosts"] if told["cloud"] == CLOUD]
        except FileNotFoundError:
            continue  # withdrawn meanwhile
        except (OSError, ValueError, KeyError, TypeError) as error:
            ctx.emit(Event(kind="warning", message=f"{path} can't be read, its hosts aren't asked: {error}"))
    return found
