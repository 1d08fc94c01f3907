"""Mistakes in the user's input: collected, so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sky.errors import UsageError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. Holds no value of a variable or a secret."""

    field: str
    """`resources.cpus`, or the option, `--cpus`; empty for the text as a whole."""
    line: int
    """From 1; 0 when it isn't in the file."""
    column: int
    message: str
    suggestion: str = ""
    """What to do, to be read after the message and a semicolon."""

    def render(self, filename: str) -> str:
        """One line: `task.yaml:7:3: resources.acelerators: unknown field; did you mean 'accelerators'?`."""
        place = f"{filename}:{self.line}:{self.column}" if self.line else ""
        if not self.line and not self.field.startswith("--"):
            place = filename
        text = f"{self.message}; {self.suggestion}" if self.suggestion else self.message
        return ": ".join(part for part in (place, self.field, text) if part)


class TaskFileError(UsageError):
    """A task that can't be used: every mistake found, in the order of the file."""

    def __init__(self, filename: str, problems: Iterable[Problem]) -> None:
        self.filename = filename
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.render(filename) for problem in self.problems))


class Problems:
    """Collects problems while a task is read, and knows where each field is in the file."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self._found: dict[Problem, None] = {}
        self._places: dict[str, tuple[int, int]] = {}

    def locate(self, field: str, line: int, column: int) -> None:
        """Remember where `field` is, for problems that are found when the text is no longer at hand."""
        self._places[field] = (line, column)

    def add(
        self, field: str, message: str, suggestion: str = "", *, at: tuple[int, int] | None = None
    ) -> None:
        """Record a mistake, at `at` or where `field` was located."""
        line, column = at or self._places.get(field, (0, 0))
        self._found[Problem(field, line, column, message, suggestion)] = None

    def add_error(self, field: str, error: UsageError, *, at: tuple[int, int] | None = None) -> None:
        """Record what a parser raised."""
        self.add(field, error.message, error.remedy, at=at)

    @property
    def many(self) -> bool:
        """So many that nobody reads on: hints, which take time to find, can be left out."""
        return len(self._found) >= 100

    def raise_if_any(self) -> None:
        """Raise `TaskFileError` when anything was recorded."""
        if self._found:
            raise TaskFileError(self.filename, sorted(self._found, key=lambda p: (p.line, p.column)))


def shown(text: str, limit: int = 60) -> str:
    """`text` quoted for a message: on one line, of bounded length."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def named(name: str) -> str:
    """A name from the user's input as part of a field's path: itself, or quoted if it's odd."""
    return name if name.isprintable() and 0 < len(name) <= 80 else shown(name)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest right name as a suggestion, or an empty string. Empty when nothing is near."""
    import difflib

    near = difflib.get_close_matches(word[:80].lower(), list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""
