"""outcome:
kind = "cloud"
name = "no-api"
state = "invalid"
problem = "declares no `api = (1, 1)`"
remedy = "upgrade sky-plugin-no-api"
"""


class Plugin:
    pass
