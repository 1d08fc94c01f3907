"""The plugins of `broken/`: one module each, whose docstring is the outcome that is required of it.

Each becomes a distribution `sky-plugin-NAME` of its own, with its entry point. Before anything else its
module notes its import in the file `$SKY_TEST_IMPORTS`.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent / "broken"
GROUPS = {"cloud": "clouds", "runner": "runners", "observer": "observers", "command": "commands"}

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{dist}"
version = "1.0"
[project.entry-points."sky.{group}"]
{name} = "{module}:Plugin"
[tool.hatch.build.targets.wheel]
include = ["{module}.py"]
"""
_NOTE = """\
import os as _os
with open(_os.environ.get("SKY_TEST_IMPORTS", _os.devnull), "a") as _file:
    _file.write(__name__ + "\\n")
"""


@dataclass(frozen=True)
class Outcome:
    """What `sky plugins list` must say of one of them."""

    module: str
    kind: str
    name: str
    state: str
    problem: str
    """Part of the problem; empty if there must be none."""
    remedy: str

    @property
    def dist(self) -> str:
        return f"sky-plugin-{self.module.replace('_', '-')}"


def _read(path: Path) -> Outcome:
    text = ast.get_docstring(ast.parse(path.read_text()), clean=True)
    assert text is not None and text.startswith("outcome:"), f"{path.name} says nothing of its outcome"
    return Outcome(module=path.stem, **tomllib.loads(text.removeprefix("outcome:")))


BROKEN = tuple(_read(path) for path in sorted(HERE.glob("*.py")))


def write_project(root: Path, outcome: Outcome, name: str | None = None) -> Path:
    """The source of one of them, ready to be built; `name` replaces that of its entry point."""
    project = root / outcome.module
    project.mkdir(exist_ok=True)
    (project / f"{outcome.module}.py").write_text(_NOTE + (HERE / f"{outcome.module}.py").read_text())
    (project / "pyproject.toml").write_text(
        _PYPROJECT.format(
            dist=outcome.dist, group=GROUPS[outcome.kind], name=name or outcome.name, module=outcome.module
        )
    )
    return project
