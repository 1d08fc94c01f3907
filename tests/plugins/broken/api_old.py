"""outcome:
kind = "cloud"
name = "api-old"
state = "incompatible"
problem = "built for plugin API 0.9, this sky offers 1."
remedy = "pip install --upgrade sky-plugin-api-old"
"""


class Plugin:
    api = (0, 9)
