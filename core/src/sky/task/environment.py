"""Variables and secrets: where they come from, which wins, and where they're put into paths.

Later wins: the file's `envs`, then `--env-file` in the order given, then `--env` in the order given. The same
for `secrets`, `--secret-file`, `--secret`. No message holds a value.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sky.errors import UsageError
from sky.task.problems import Problems, shown
from sky.task.scalars import check_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*))", re.ASCII)
RESERVED_PREFIX = "SKYPILOT_"


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that may set one kind of variable, weakest first."""

    field: str
    """`envs` or `secrets`."""
    declared: Mapping[str, str | None]
    """From the task file; None must be given by what follows."""
    files: Sequence[str]
    pairs: Sequence[str]
    """`NAME=VALUE`, or `NAME`: as in the caller's environment."""
    option: str
    """`--env` or `--secret`."""

    def merged(self, environ: Mapping[str, str], problems: Problems) -> dict[str, str]:
        """The variables; mistakes go to `problems`. Reads the files."""
        values: dict[str, str | None] = dict(self.declared)
        for path in self.files:
            values.update(self._from_file(path, problems))
        for pair in self.pairs:
            try:
                name, value = read_pair(pair, environ)
            except UsageError as error:
                problems.add_error(self.option, error)
            else:
                values[name] = value
        for name in [name for name, value in values.items() if value is None]:
            problems.add(f"{self.field}.{name}", "needs a value", f"give it by {self.option} {name}=VALUE")
        return {name: value for name, value in values.items() if value is not None}

    def _from_file(self, path: str, problems: Problems) -> dict[str, str]:
        from sky.task.dotenv import read_dotenv

        try:
            return read_dotenv(path)
        except UsageError as error:
            problems.add_error(f"{self.option}-file", error)
            return {}


def read_pair(pair: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """`NAME=VALUE`, or `NAME` for the caller's own value. Raises `UsageError`."""
    name, equals, value = pair.partition("=")
    if not equals and _NAME.fullmatch(name) is None:
        # Not quoted: a value that was given without its name may be a secret.
        raise UsageError("takes NAME=VALUE, or NAME for the value in your environment")
    check_name(name)
    if not equals:
        if name not in environ:
            raise UsageError(f"{name} is not set in your environment", remedy=f"give a value: {name}=VALUE")
        value = environ[name]
    try:
        return name, check_text(value)
    except UsageError as error:
        raise UsageError(f"the value of {name} {error.message}") from None


def check_name(name: str) -> str:
    """`name`, if it can name a variable of a job. Raises `UsageError`."""
    if name.startswith(RESERVED_PREFIX):
        raise UsageError(f"{shown(name)} can't be set: {RESERVED_PREFIX}* is set by Sky itself")
    if _NAME.fullmatch(name) is None:
        better = re.sub(r"[^A-Za-z0-9_]", "_", name[:60])
        hint = f"; use {better}" if _NAME.fullmatch(better) else ""
        raise UsageError(
            f"{shown(name)} can't be the name of a variable",
            remedy=f"it may have letters, digits and _, and begins with no digit{hint}",
        )
    return name


def refuse_both(envs: Iterable[str], secrets: Container[str], problems: Problems) -> None:
    """Record every name that is a variable and a secret: which is meant can't be told."""
    for name in envs:
        if name in secrets:
            problems.add(
                f"envs.{name}", "is a secret too", "keep it in envs (--env) or in secrets (--secret)"
            )


def substitute(text: str, envs: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` replaced from `envs`, once; unknown names stay, `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        return envs.get(match["braced"] or match["bare"], match[0])

    return _REFERENCE.sub(value, text)


def escape(text: str) -> str:
    """Text that `substitute` turns back into `text`, whatever the variables."""
    return text.replace("$", "$$")
