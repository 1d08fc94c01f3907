"""outcome:
kind = "cloud"
name = "twin"
state = "duplicate"
problem = "is offered by sky-plugin-twin-one 1.0 and sky-plugin-twin-two 1.0"
remedy = "uninstall one of them"
"""

raise AssertionError("which of two is meant can't be told, so neither is imported")
