"""outcome:
kind = "runner"
name = "wrong-signature"
state = "invalid"
problem = "timeout"
remedy = "upgrade sky-plugin-wrong-signature"
"""

from sky.api import hookimpl


class Plugin:
    api = (1, 0)

    @hookimpl
    def sky_run(self, ctx, host, command, stdin, stdout, stderr, timeout):
        return 0

    @hookimpl
    def sky_rsync(self, ctx, host, transfer):
        return None
