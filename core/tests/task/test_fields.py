"""The table, its page, and what it drives, agree."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from sky.task.fields import FIELDS, Field
from sky.task.overrides import Overrides
from sky.task.read import _Reader
from sky.task.scalars import PARSERS

PAGE = Path(__file__).parents[3] / "docs" / "task-fields.md"


def test_the_committed_page_is_what_the_table_says() -> None:
    done = subprocess.run([sys.executable, "-m", "sky.task.fields"], capture_output=True, check=True)
    assert PAGE.read_bytes() == done.stdout, "run: python -m sky.task.fields > docs/task-fields.md"


def test_every_field_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert [path for path in FIELDS if f"| `{path}` |" not in page] == []


@pytest.mark.parametrize("row", FIELDS.values(), ids=lambda row: row.path)
def test_every_kind_can_be_read(row: Field) -> None:
    assert row.kind == "any" or row.kind in PARSERS or hasattr(_Reader, f"_read_{row.kind}")
    assert row.reason or row.status == "supported"


def test_every_option_has_its_place() -> None:
    names = {field.name for field in dataclasses.fields(Overrides)}
    of_fields = {row.attribute for row in FIELDS.values() if row.option}
    assert names == of_fields | {"env", "env_files", "secrets", "secret_files"}


@pytest.mark.parametrize("module", ["model", "overrides", "build", "load"])
def test_imports_are_light(module: str) -> None:
    code = f"import sys, sky.task.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    heavy = {"yaml", "difflib", "json", "shlex", "importlib.metadata", "pluggy"}
    assert heavy.isdisjoint(done.stdout.split())


def test_a_command_needs_no_yaml() -> None:
    code = "import sys; from sky.task.overrides import *; inline_task(['a', 'b'], Overrides(gpus='T4')); "
    code += "print('yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"
