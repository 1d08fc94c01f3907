"""What the installed `sky` imports: the command line, without the garbage collector in its way.

What imports allocate lives as long as the process; looking through it again and again while they run
costs some 5 ms of every command. A session that goes on turns the collector on again.
"""

import gc
import os
import signal
import sys

gc.disable()

# Until there is something to give back, Ctrl-C ends us at once and without a word, as it does any program.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# An output that the caller has closed: what is said there is lost, and what was asked for is done all the same.
for _number, _name in enumerate(("stdin", "stdout", "stderr")):
    if getattr(sys, _name) is None:
        _mode = "r" if _number == 0 else "w"
        setattr(sys, _name, open(os.open(os.devnull, os.O_RDWR), _mode))  # noqa: SIM115

from sky.cli.main import entry  # noqa: E402

__all__ = ["entry"]
