"""What the installed `sky` imports: the command line, without the garbage collector in its way.

What imports allocate lives as long as the process; looking through it again and again while they run
costs some 5 ms of every command. A session that goes on turns the collector on again.
"""

import gc

gc.disable()

from sky.cli.main import entry  # noqa: E402

__all__ = ["entry"]
