"""outcome:
kind = "cloud"
name = "local"
state = "duplicate"
problem = "sky-plugin-taken-name"
remedy = "uninstall"
"""

raise AssertionError("what takes the name of another plugin is not imported")
