"""outcome:
kind = "cloud"
name = "fails-import"
state = "error"
problem = "ModuleNotFoundError: No module named 'sdk_that_is_not_installed'"
remedy = "pip install --force-reinstall sky-plugin-fails-import"
"""

import sdk_that_is_not_installed  # noqa: F401


class Plugin:
    api = (1, 0)
