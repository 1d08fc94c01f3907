"""outcome:
kind = "runner"
name = "misspelt-hook"
state = "invalid"
problem = "sky_rsink"
remedy = "upgrade sky-plugin-misspelt-hook"
"""

from sky.api import hookimpl


class Plugin:
    api = (1, 0)

    @hookimpl
    def sky_run(self, ctx, host, command, stdin, stdout, stderr):
        return 0

    @hookimpl
    def sky_rsync(self, ctx, host, transfer):
        return None

    @hookimpl
    def sky_rsink(self, ctx):
        return None
