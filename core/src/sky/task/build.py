"""The last step of reading, the same for files and commands: options over values, then the task."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from sky.errors import UsageError
from sky.task.environment import Sources, refuse_both, substitute
from sky.task.fields import FIELDS
from sky.task.model import GitSource, Task
from sky.task.overrides import Overrides, option_values
from sky.task.problems import Problems, named, shown
from sky.task.resources import alternatives

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def build_task(
    values: Mapping[str, Any],
    overrides: Overrides,
    problems: Problems,
    *,
    environ: Mapping[str, str] | None,
    base_dir: str | None,
    allow_later: bool,
) -> Task:
    """The task, or `TaskFileError` with all of `problems`. Blocks on files of variables only."""
    options, resource_options = option_values(overrides, problems)
    environ = os.environ if environ is None else environ
    envs, secrets = _variables(values, overrides, environ, problems)
    num_nodes = options.get("num_nodes") or values.get("num_nodes") or 1
    autostop = resource_options.get("autostop", (values.get("resources") or {}).get("autostop"))
    if not allow_later:
        _refuse_later(autostop, resource_options, problems)
    config = values.get("config") or {}
    resources, ordered = _resources(values, resource_options, num_nodes, config, problems)
    workdir, git = _workdir(values.get("workdir"), options, envs, problems)
    mounts = _mounts(values.get("file_mounts") or {}, envs, problems)
    directory = _base_dir(base_dir, problems)
    problems.raise_if_any()
    return Task(
        name=options.get("name") or values.get("name"),
        workdir=workdir,
        git=git,
        num_nodes=num_nodes,
        resources=resources,
        ordered=ordered,
        envs=envs,
        secrets=secrets,
        file_mounts=mounts,
        setup=values.get("setup"),
        run=values.get("run"),
        config=config,
        autostop=autostop,
        base_dir=directory,
    )


def _variables(
    values: Mapping[str, Any], overrides: Overrides, environ: Mapping[str, str], problems: Problems
) -> tuple[dict[str, str], dict[str, str]]:
    declared = values.get("envs") or {}, values.get("secrets") or {}
    envs = Sources("envs", declared[0], overrides.env_files, overrides.env, "--env").merged(environ, problems)
    secrets = Sources("secrets", declared[1], overrides.secret_files, overrides.secrets, "--secret").merged(
        environ, problems
    )
    refuse_both({**declared[0], **envs}, {**declared[1], **secrets}, problems)
    return envs, secrets


def _refuse_later(autostop: Any, options: Mapping[str, Any], problems: Problems) -> None:
    if autostop is not None:
        row = FIELDS["resources.autostop"]
        problems.add(row.option if "autostop" in options else row.path, row.refusal)


def _resources(
    values: Mapping[str, Any],
    options: Mapping[str, Any],
    num_nodes: int,
    config: Mapping[str, Any],
    problems: Problems,
) -> tuple[Any, bool]:
    try:
        return alternatives(values.get("resources") or {}, options, num_nodes, config)
    except UsageError as error:
        problems.add_error("resources", error)
        return (), False


def _workdir(
    read: str | GitSource | None, options: Mapping[str, Any], envs: Mapping[str, str], problems: Problems
) -> tuple[str | None, GitSource | None]:
    workdir, url, ref = options.get("workdir"), options.get("workdir.url"), options.get("workdir.ref")
    if workdir is not None:
        if url or ref:
            problems.add("--workdir", "can't be combined with --git-url and --git-ref")
        return workdir, None
    if url or ref:
        url = url or (substitute(read.url, envs) if isinstance(read, GitSource) else None)
        if url is None:
            problems.add("--git-ref", "needs --git-url")
            return None, None
        return None, GitSource(url, ref)
    if isinstance(read, GitSource):
        url, ref = substitute(read.url, envs), substitute(read.ref or "", envs)
        if not url.strip():
            problems.add("workdir.url", "is empty once its variables are replaced")
        return None, GitSource(url, ref.strip() or None)
    if read is None:
        return None, None
    workdir = substitute(read, envs)
    if not workdir.strip():
        problems.add("workdir", "is empty once its variables are replaced")
    return workdir, None


def _mounts(read: Mapping[str, str], envs: Mapping[str, str], problems: Problems) -> dict[str, str]:
    mounts: dict[str, str] = {}
    for written, source_written in read.items():
        target, source = substitute(written, envs), substitute(source_written, envs)
        label = f"file_mounts.{named(written)}"
        if not target or not source:
            problems.add(label, "is empty once its variables are replaced")
        elif target in mounts:
            problems.add(label, "has the target of another once its variables are replaced")
        elif uri := _URI.match(source):
            # The scheme alone: an address may hold a password.
            problems.add(label, f"{shown(uri[0])} is {FIELDS['file_mounts'].refusal}")
        mounts[target] = source
    return mounts


def _base_dir(given: str | None, problems: Problems) -> str:
    try:
        return os.path.abspath(given) if given is not None else os.getcwd()  # noqa: PTH100, PTH109 -- no pathlib
    except OSError:
        problems.add("", "the current directory is gone", "change to one that exists")
        return ""
