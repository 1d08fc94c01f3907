"""outcome:
kind = "observer"
name = "observer-raises"
state = "ready"
problem = ""
remedy = ""
"""

from sky.api import hookimpl


class Plugin:
    api = (1, 0)

    @hookimpl
    def sky_event(self, event):
        raise ValueError("the observer fell over")
