"""`sky plugins`: works with every plugin broken."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sky.cli import output
from sky.cli.options import OUTPUT

if TYPE_CHECKING:
    from sky.registry.report import Row


@click.group()
def plugins() -> None:
    """List, show, enable and disable plugins."""


@plugins.command("list")
@click.option("--check", is_flag=True, help="Exit 1 unless every enabled plugin is ready.")
@click.option("--no-load", is_flag=True, help="Import nothing: only what the installed metadata says.")
@click.option("--json", "as_json", is_flag=True, help="Same as -o json.")
@OUTPUT
def list_(check: bool, no_load: bool, as_json: bool, form: str) -> int:
    """Every installed plugin, what state it is in, and what to do about it."""

    form = "json" if as_json else form
    output.claim_stdout(form == "json")
    rows = _rows(load=not no_load)
    if form == "json":
        output.document("plugins", plugins=[asdict(row) for row in rows])
    else:
        _table(rows)
    bad = [row for row in rows if row.state not in ("ready", "available", "disabled")]
    return 1 if check and bad else 0


def _rows(load: bool) -> list[Row]:
    from sky.cli import commands
    from sky.cli.main import COMMANDS
    from sky.registry import report

    return report.rows(load, COMMANDS, commands.load)


def _table(rows: list[Row]) -> None:
    head = ["NAME", "KIND", "VERSION", "DIST", "STATE", "LOAD", "HOOKS"]
    cells = [
        [
            row.name,
            row.kind,
            row.version,
            row.dist,
            row.state,
            "-" if row.import_ms is None else f"{row.import_ms:.0f} ms",
            str(len(row.hooks)) if row.hooks else "-",
        ]
        for row in rows
    ]
    lines = output.table(head, cells).split("\n")
    output.line(lines[0])
    for row, text in zip(rows, lines[1:], strict=True):
        output.line(text)
        if row.problem:
            output.line(f"  {row.name}: {row.problem}   fix: {row.remedy}")
    from sky.registry import index

    if index.skypilot_beside():
        output.line(
            "skypilot is installed in this environment as well: both own the command and the package `sky`."
        )
        output.line("  fix: pip uninstall skypilot, then pip install --force-reinstall sky-core")


@plugins.command()
@click.argument("name")
@OUTPUT
def show(name: str, form: str) -> int:
    """All there is to know of a plugin, its traceback included."""
    from sky.errors import UsageError

    output.claim_stdout(form == "json")
    rows = [row for row in _rows(load=True) if row.name == name]
    if not rows:
        raise UsageError(f"no plugin named {name!r}", remedy="sky plugins list")
    if form == "json":
        output.document("plugin", plugins=[asdict(row) for row in rows])
        return 0
    for row in rows:
        for key, value in asdict(row).items():
            if isinstance(value, (list, tuple)):
                value = " ".join(value)
            output.line(f"{key}: {value if value not in (None, '') else '-'}")
        output.line()
    return 0


@plugins.command()
@click.argument("name")
def enable(name: str) -> None:
    """Use a plugin again."""
    _set(name, off=False)


@plugins.command()
@click.argument("name")
def disable(name: str) -> None:
    """Never import a plugin, until it's enabled again."""
    _set(name, off=True)


def _set(name: str, off: bool) -> None:
    from sky.errors import UsageError
    from sky.registry import index, settings

    names = {entry.name for entry in index.entries()}
    if name not in names and not (not off and name in settings.disabled()):
        raise UsageError(f"no plugin named {name!r}", remedy="sky plugins list")
    settings.set_disabled(name, off)
    output.line(f"{name}: {'disabled' if off else 'enabled'}")
