"""outcome:
kind = "runner"
name = "slow"
state = "slow"
problem = "importing it takes "
remedy = "tell the authors of sky-plugin-slow: SDKs are imported inside the hooks"
"""

import time

from sky.api import hookimpl

time.sleep(0.4)


class Plugin:
    api = (1, 0)

    @hookimpl
    def sky_run(self, ctx, host, command, stdin, stdout, stderr):
        return 0

    @hookimpl
    def sky_rsync(self, ctx, host, transfer):
        return None
