"""outcome:
kind = "cloud"
name = "raises-base"
state = "error"
problem = "Halt: no Exception at all"
remedy = "sky plugins disable raises-base"
"""


class Halt(BaseException):
    pass


class Plugin:
    api = (1, 0)

    def __init__(self) -> None:
        raise Halt("no Exception at all")
