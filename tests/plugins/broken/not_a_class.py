"""outcome:
kind = "cloud"
name = "not-a-class"
state = "invalid"
problem = "not_a_class:Plugin is not a class"
remedy = "upgrade sky-plugin-not-a-class"
"""


def Plugin():
    return object()
