"""outcome:
kind = "command"
name = "fall-over"
state = "error"
problem = "ZeroDivisionError"
remedy = "sky plugins disable fall-over"
"""

1 / 0  # noqa: B018
