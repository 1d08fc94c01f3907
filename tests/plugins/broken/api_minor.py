"""outcome:
kind = "cloud"
name = "api-minor"
state = "incompatible"
problem = "built for plugin API 1.99, this sky offers 1."
remedy = "pip install --upgrade sky-core"
"""


class Plugin:
    api = (1, 99)
