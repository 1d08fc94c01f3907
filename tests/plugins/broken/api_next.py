"""outcome:
kind = "cloud"
name = "api-next"
state = "incompatible"
problem = "built for plugin API 2.0, this sky offers 1."
remedy = "pip install --upgrade sky-core"
"""


class Plugin:
    api = (2, 0)
