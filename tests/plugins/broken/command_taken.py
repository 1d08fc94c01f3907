"""outcome:
kind = "command"
name = "status"
state = "duplicate"
problem = "'status' is a command of Sky itself, which is used"
remedy = "uninstall or upgrade sky-plugin-command-taken"
"""

raise AssertionError("the command of Sky itself is used, and this is not imported")
