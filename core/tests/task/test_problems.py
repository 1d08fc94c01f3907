"""Every mistake of a file is reported at once, where it is, with the nearest right name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sky.errors import UsageError
from sky.task.fields import FIELDS, Field
from sky.task.load import load_task_file, load_task_text
from sky.task.model import Task
from sky.task.problems import Problem, TaskFileError

Load = Callable[..., Task]
Refusal = Callable[..., list[str]]

WRONG = """\
nme: x
num_nodes: 0
resources:
  acelerators: H100
  cpus: many
  any_of:
    - {cpu: 3}
    - memory: lots
envs: {A-B: 1, F: }
envs: {}
service: {replicas: 2}
"""


def test_every_mistake_is_there(refusal: Refusal) -> None:
    assert refusal(WRONG, gpus="x:y", env=("G",)) == [
        "--gpus: 'y' is not a number of accelerators greater than zero; write it as in x:8",
        "--env: G is not set in your environment; give a value: G=VALUE",
        "task.yaml:1:1: nme: unknown field; did you mean 'name'?",
        "task.yaml:2:12: num_nodes: '0' is not a whole number of 1 or more",
        "task.yaml:4:3: resources.acelerators: unknown field; did you mean 'accelerators'?",
        "task.yaml:5:9: resources.cpus: 'many' is not a number of vCPUs; write 4, or 4+ for at least 4",
        "task.yaml:7:8: resources.any_of[0].cpu: unknown field; did you mean 'cpus'?",
        "task.yaml:8:15: resources.any_of[1].memory: 'lots' is not an amount of memory; "
        "write GiB: 16, 16+ for at least 16, 4x for 4 for each vCPU; or a unit: 512MB",
        "task.yaml:9:8: envs: 'A-B' can't be the name of a variable; "
        "it may have letters, digits and _, and begins with no digit; use A_B",
        "task.yaml:9:16: envs.F: needs a value; give it by --env F=VALUE",
        "task.yaml:10:1: 'envs' is here twice; first in line 9",
        "task.yaml:11:1: service: not supported: "
        "it belongs to services and pools, which this version doesn't have",
    ]


def test_the_error_carries_the_problems() -> None:
    with pytest.raises(UsageError) as caught:
        load_task_text("resources:\n  cpus: x\n", "dir/t.yml", base_dir="/")
    error = caught.value
    assert isinstance(error, TaskFileError)
    assert error.exit_code == 2
    assert error.problems == (
        Problem("resources.cpus", 2, 9, "'x' is not a number of vCPUs", "write 4, or 4+ for at least 4"),
    )
    assert str(error).startswith("dir/t.yml:2:9: resources.cpus: ")


@pytest.mark.parametrize(
    "row", [row for row in FIELDS.values() if row.kind == "any"], ids=lambda row: row.path
)
@pytest.mark.parametrize("allow_later", [False, True])
def test_what_skypilot_knows_and_sky_does_not_is_refused_by_name(
    load: Load, refusal: Refusal, row: Field, allow_later: bool
) -> None:
    *section, name = row.path.split(".")
    text = f"{section[0]}:\n  {name}: 1\n" if section else f"{name}: 1\n"
    (line,) = refusal(text, allow_later=allow_later)
    assert line.endswith(f": {row.path}: not supported: it {row.reason}")
    assert load(text.replace(": 1", ":")) == load(""), "an empty one asks for nothing"


@pytest.mark.parametrize("key", ["''", "'a\nb'", "x" * 500, "'\u202e'"])
def test_odd_names_stay_on_one_line(refusal: Refusal, key: str) -> None:
    (line,) = refusal(f"? {key}\n: 1\n")
    assert "unknown field" in line and line.isprintable() and len(line) < 150


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "task.yaml"
    file.write_text("run: echo\n")
    assert load_task_file(file).run == "echo"
    for path, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(TaskFileError) as caught:
            load_task_file(path)
        assert str(caught.value) == f"{path}: can't be read: {why}"
    with pytest.raises(TaskFileError, match="larger than"):
        load_task_file("/dev/zero")


def test_relative_paths_start_from_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "t.yaml").write_text("workdir: .\n")
    monkeypatch.chdir(tmp_path)
    task = load_task_file("sub/t.yaml")
    assert (task.workdir, task.base_dir) == (".", str(tmp_path))


def test_a_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(TaskFileError, match="the current directory is gone"):
        load_task_text("run: x")
