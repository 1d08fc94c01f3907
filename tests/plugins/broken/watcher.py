"""outcome:
kind = "observer"
name = "watcher"
state = "ready"
problem = ""
remedy = ""
"""

import json
import os

from sky.api import hookimpl


class Plugin:
    """Writes each hook call to a file, if the test names one."""

    api = (1, 0)

    @hookimpl
    def sky_event(self, event):
        file = os.environ.get("SKY_TEST_EVENTS")
        if file and event.kind == "hook":
            with open(file, "a") as out:
                out.write(
                    json.dumps([event.data["plugin"], event.data["hook"], event.data["outcome"]]) + "\n"
                )
