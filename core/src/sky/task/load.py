"""Task files: `load_task_file` and `load_task_text`. Everything wrong with a file is reported at once.

Only `Task` or `TaskFileError` comes out, whatever goes in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sky.task.build import build_task
from sky.task.model import Task
from sky.task.overrides import Overrides
from sky.task.problems import Problems

MAX_BYTES = 4 * 2**20


def load_task_file(
    path: str | os.PathLike[str],
    overrides: Overrides | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    base_dir: str | None = None,
    allow_later: bool = False,
) -> Task:
    """The task of a file, with options over it. Blocks on files; may be repeated. Raises `TaskFileError`.

    A leading `~` of `path` is the user's home. The rest is as for `load_task_text`.
    """
    filename = os.fspath(path)
    problems = Problems(filename)
    data = b""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        problems.add("", f"can't be read: {getattr(error, 'strerror', None) or error}")
        problems.raise_if_any()
    return load_task_text(
        data, filename, overrides, environ=environ, base_dir=base_dir, allow_later=allow_later
    )


def load_task_text(
    text: str | bytes,
    filename: str = "task.yaml",
    overrides: Overrides | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    base_dir: str | None = None,
    allow_later: bool = False,
) -> Task:
    """The task that `text` describes, with options over it. Raises `TaskFileError`.

    `filename` is for messages. `environ` is the caller's (by default the process's), for options that take a
    value from there; `base_dir` is what relative paths start from (by default the current directory).
    `allow_later` also accepts what this version can read but not run.
    """
    from sky.task.nodes import parse
    from sky.task.read import read_task

    problems = Problems(filename)
    root = parse(_decoded(text, problems), problems)
    if root is None:
        # What follows would only complain of what couldn't be read.
        problems.raise_if_any()
    values = read_task(root, problems)
    return build_task(
        values,
        overrides or Overrides(),
        problems,
        environ=environ,
        base_dir=base_dir,
        allow_later=allow_later,
    )


def _decoded(text: str | bytes, problems: Problems) -> str:
    try:
        data = text.encode() if isinstance(text, str) else text
        decoded = data.decode("utf-8-sig")
    except UnicodeError as error:
        position = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = text[:position].count(b"\n") + 1 if isinstance(text, bytes) else 1
        problems.add("", "not UTF-8 text", "save the file as UTF-8", at=(line, 1))
        problems.raise_if_any()
        raise
    if len(data) > MAX_BYTES:
        problems.add("", f"larger than {MAX_BYTES} bytes", at=(1, 1))
        problems.raise_if_any()
    return decoded
