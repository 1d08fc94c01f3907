"""outcome:
kind = "runner"
name = "lacks-hooks"
state = "invalid"
problem = "lacks-hooks lacks sky_rsync"
remedy = "upgrade sky-plugin-lacks-hooks"
"""

from sky.api import hookimpl


class Plugin:
    api = (1, 0)

    @hookimpl
    def sky_run(self, ctx, host, command, stdin, stdout, stderr):
        return 0
