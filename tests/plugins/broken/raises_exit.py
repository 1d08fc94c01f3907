"""outcome:
kind = "cloud"
name = "raises-exit"
state = "error"
problem = "SystemExit: 77"
remedy = "sky plugins disable raises-exit"
"""

import sys

sys.exit(77)


class Plugin:
    api = (1, 0)
