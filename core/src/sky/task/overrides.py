"""What the command line says about a task: options over a file, or a whole task as a command.

Imports no YAML. Options are text as typed; which field each replaces, and how it's read, is in
`sky.task.fields`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sky.errors import UsageError
from sky.task.fields import FIELDS
from sky.task.model import Task
from sky.task.problems import Problems
from sky.task.resources import place_of
from sky.task.scalars import PARSERS, check_text, parse_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Options of one command; None and () are not given. Named as the options are, repeatable ones in plural.

    For fields of `resources` the word `none` takes back what the file says. They apply to every alternative.
    `repr` shows no values of variables.
    """

    name: str | None = None
    workdir: str | None = None
    git_url: str | None = None
    git_ref: str | None = None
    num_nodes: str | int | None = None
    infra: str | None = None
    """Replaces cloud, region and zone together."""
    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    gpus: str | None = None
    """Replaces accelerators: `H100:8`, `{T4:1, L4:1}` for any, `[T4:1, L4:1]` in that order."""
    cpus: str | None = None
    memory: str | None = None
    instance_type: str | None = None
    use_spot: bool | None = None
    disk_size: str | int | None = None
    disk_tier: str | None = None
    image_id: str | None = None
    ports: tuple[str, ...] = ()
    """Replace the file's ports."""
    labels: tuple[str, ...] = ()
    """`NAME=VALUE`, added to the file's labels."""
    max_hourly_cost: str | float | None = None
    autostop: str | int | None = None
    env: tuple[str, ...] = field(default=(), repr=False)
    """`NAME=VALUE`, or `NAME` for the caller's own value. Wins over `env_files`, which wins over the file."""
    env_files: tuple[str, ...] = ()
    """Paths of files that `sky.task.dotenv` describes."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    secret_files: tuple[str, ...] = ()


def option_values(overrides: Overrides, problems: Problems) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given, as `sky.task.read` would read it: by field of the task, and by field of `resources`."""
    task: dict[str, Any] = {}
    resources: dict[str, Any] = {}
    for row in FIELDS.values():
        given = getattr(overrides, row.attribute) if row.option else None
        if given is None or given == ():
            continue
        inside = row.path.startswith("resources.")
        try:
            value = _read_option(row.kind, given, can_clear=inside)
        except UsageError as error:
            problems.add_error(row.option, error)
            continue
        if inside:
            resources[row.path.removeprefix("resources.")] = value
        else:
            task[row.path] = value
    try:
        resources = place_of(resources)
    except UsageError as error:
        problems.add_error("--infra", error)
    return task, resources


def _read_option(kind: str, given: Any, *, can_clear: bool) -> Any:
    if isinstance(given, bool):
        return given
    texts = [check_text(str(text)) for text in (given if isinstance(given, tuple) else (given,))]
    if can_clear and [text.strip().lower() for text in texts] == ["none"]:
        return None
    if kind == "ports":
        return tuple(dict.fromkeys(parse_port(part) for text in texts for part in text.split(",")))
    if kind == "labels":
        pairs = [text.partition("=") for text in texts]
        if not all(name and equals for name, equals, _ in pairs):
            raise UsageError("a label is NAME=VALUE")
        return {name: value for name, _, value in pairs}
    return PARSERS[kind](texts[-1])


def inline_task(
    argv: Sequence[str],
    overrides: Overrides | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    base_dir: str | None = None,
    allow_later: bool = False,
) -> Task:
    """A task that runs `argv`, without a file. Raises `TaskFileError` with everything that is wrong.

    Several arguments are data: the job's program gets exactly these, whatever is in them. One argument alone
    is a line for the shell, as in `sky exec dev 'echo $HOME | wc'`; if nothing in it is special to a shell,
    the two are the same. No arguments: nothing is run. `environ` is the caller's (by default the process's).
    """
    from sky.task.build import build_task

    problems = Problems("")
    values: dict[str, Any] = {}
    try:
        values["run"] = _script([check_text(argument) for argument in argv])
    except UsageError as error:
        problems.add("command", error.message)
    return build_task(
        values,
        overrides or Overrides(),
        problems,
        environ=environ,
        base_dir=base_dir,
        allow_later=allow_later,
    )


def _script(argv: Sequence[str]) -> str | None:
    if len(argv) == 1 and not argv[0].strip():
        raise UsageError("the command is empty")
    if len(argv) <= 1:
        return argv[0] if argv else None
    import shlex

    return shlex.join(argv)
