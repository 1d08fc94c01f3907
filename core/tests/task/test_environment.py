"""Variables and secrets: names, precedence, files of them, and values that must never be shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sky.errors import UsageError
from sky.task.dotenv import parse_dotenv, read_dotenv
from sky.task.environment import escape, substitute
from sky.task.model import Task
from sky.task.save import task_to_yaml

Load = Callable[..., Task]
Refusal = Callable[..., list[str]]

SECRET = "hunter2abc"


# --- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["MY-VAR", "1A", "a b", "é", "''"])
@pytest.mark.parametrize("section", ["envs", "secrets"])
def test_a_name_that_no_shell_can_have_is_refused(refusal: Refusal, section: str, name: str) -> None:
    (line,) = refusal(f"{section}:\n  {name}: {SECRET}\n")
    assert line.startswith(f"task.yaml:2:3: {section}: ") and "can't be the name of a variable" in line
    assert SECRET not in line


def test_a_name_with_a_hyphen_is_told_what_to_be(refusal: Refusal) -> None:
    (line,) = refusal("envs: {MY-VAR: 1}")
    assert line == (
        "task.yaml:1:8: envs: 'MY-VAR' can't be the name of a variable; "
        "it may have letters, digits and _, and begins with no digit; use MY_VAR"
    )
    (line,) = refusal("", env=("MY-VAR=1",))
    assert line.startswith("--env: 'MY-VAR' can't be the name of a variable") and line.endswith("use MY_VAR")


def test_names_that_are_set_by_sky_are_refused(refusal: Refusal) -> None:
    for options in ({"text": "envs: {SKYPILOT_NODE_RANK: 1}"}, {"text": "", "env": ("SKYPILOT_X=1",)}):
        assert "SKYPILOT_* is set by Sky itself" in refusal(**options)[0]


def test_a_list_of_maps_is_a_map(load: Load, refusal: Refusal) -> None:
    assert load("envs: [{A: 010}, {B: }]", env=("B=2",)).envs == {"A": "010", "B": "2"}
    (line,) = refusal(f"secrets: [{SECRET}]")
    assert "must be a map of NAME: VALUE" in line and SECRET not in line


# --- who wins ----------------------------------------------------------------------------------------


def test_later_sources_win(load: Load, tmp_path: Path) -> None:
    first, second = tmp_path / "1.env", tmp_path / "2.env"
    first.write_text("B=file1\nC=file1\nD=file1\n")
    second.write_text("C=file2\nD=file2\n")
    task = load(
        "envs: {A: task, B: task, C: task, D: task, E: task}",
        env_files=(str(first), str(second)),
        env=("D=option", "E=option1", "E=option2", "F"),
        environ={"F": "caller", "A": "caller"},
    )
    assert task.envs == {
        "A": "task",
        "B": "file1",
        "C": "file2",
        "D": "option",
        "E": "option2",
        "F": "caller",
    }


def test_secrets_have_the_same_order(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "s.env"
    file.write_text("B=file\nC=file\n")
    task = load(
        "secrets: {A: task, B: , C: task}",
        secret_files=(str(file),),
        secrets=("C=option", "D"),
        environ={"D": "x"},
    )
    assert task.secrets == {"A": "task", "B": "file", "C": "option", "D": "x"}


def test_a_value_is_everything_after_the_first_equals_sign(load: Load) -> None:
    assert load("", env=("A==b=\n c ", "B=")).envs == {"A": "=b=\n c ", "B": ""}


def test_what_the_caller_does_not_have(refusal: Refusal) -> None:
    assert refusal("", env=("A",)) == ["--env: A is not set in your environment; give a value: A=VALUE"]


@pytest.mark.parametrize(
    "options",
    [
        {"text": f"envs: {{A: {SECRET}}}\nsecrets: {{A: {SECRET}}}"},
        {"text": f"secrets: {{A: {SECRET}}}", "env": (f"A={SECRET}",)},
        {"text": "secrets: {A: }", "env": (f"A={SECRET}",)},
        {"text": f"envs: {{A: {SECRET}}}", "secrets": (f"A={SECRET}",)},
    ],
)
def test_a_name_is_a_variable_or_a_secret(refusal: Refusal, options: dict[str, Any]) -> None:
    lines = refusal(**options)
    assert any("envs.A: is a secret too" in line for line in lines)
    assert SECRET not in "".join(lines)


# --- what is never shown -----------------------------------------------------------------------------


def test_no_value_is_in_what_is_printed_or_saved(load: Load) -> None:
    task = load(f"secrets: {{A: {SECRET}}}\nrun: echo", secrets=(f"B={SECRET}",))
    assert task.secrets == {"A": SECRET, "B": SECRET}
    shown = [repr(task), str(task), task_to_yaml(task), repr(task.to_dict())]
    assert SECRET not in "".join(shown)
    assert task_to_yaml(task, show_secrets=True).count(SECRET) == 2


def test_a_token_that_is_a_variable_is_not_in_what_is_printed(load: Load) -> None:
    assert SECRET not in repr(load("", env=(f"X_TOKEN={SECRET}",)))


@pytest.mark.parametrize(
    "options",
    [
        {"text": f"secrets: {SECRET}"},
        {"text": f"secrets: {{A: [{SECRET}]}}"},
        {"text": f"secrets:\n  A: *{SECRET}"},
        {"text": f"secrets:\n  A: !{SECRET} x"},
        {"text": f"secrets:\n  A: !{SECRET}!x x"},
        {"text": f"secrets:\n  A: @{SECRET}"},
        {"text": f"secrets:\n  A: '{SECRET}"},
        {"text": f"secrets:\n  A: {SECRET}\n B: x"},
        {"text": f'secrets:\n  A: "{SECRET}\\0"'},
        {"text": "", "secrets": (f"{SECRET}-x",)},
        {"text": "", "secrets": (f"A={SECRET}\0",)},
        {"text": "", "secrets": (f"A={SECRET}\udcff",)},
        {"text": "", "env": (f"A-B={SECRET}",)},
    ],
)
def test_no_value_is_in_a_message(refusal: Refusal, options: dict[str, Any]) -> None:
    assert SECRET not in "\n".join(refusal(**options))


def test_options_show_no_values() -> None:
    from sky.task.overrides import Overrides

    assert SECRET not in repr(Overrides(env=(f"A={SECRET}",), secrets=(f"B={SECRET}",)))


# --- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# c\n\n  # c\nA=1\n", {"A": "1"}),
        ("export A=1\nexport\tB = 2 \n", {"A": "1", "B": "2"}),
        ("A=b c # d\nB=b#c\nC=# d\nD=\n", {"A": "b c", "B": "b#c", "C": "", "D": ""}),
        ("A='x $Y \\n # z' # c\n", {"A": "x $Y \\n # z"}),
        ('A="x\\n\\t\\"\\$\\`\\\\ \\z $Y"\n', {"A": 'x\n\t"$`\\ \\z $Y'}),
        ("A='one\ntwo'\nB=3", {"A": "one\ntwo", "B": "3"}),
        ('A="one\ntwo"\nB=3', {"A": "one\ntwo", "B": "3"}),
        ("A=1\r\nB='2'\r\n", {"A": "1", "B": "2"}),
        ("A=it's\nB=a=b\nA=2\n", {"A": "2", "B": "a=b"}),
        ("A=$HOME ${X}\n", {"A": "$HOME ${X}"}),
    ],
)
def test_a_file_of_variables(text: str, expected: Any) -> None:
    assert parse_dotenv(text, "x.env") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"A=1\n{SECRET}\n", "x.env:2: not an assignment"),
        (f"A=1\n\nB='{SECRET}\n", "x.env:3: the value of B has no closing quote"),
        (f'A="{SECRET}" {SECRET}\n', "x.env:1: text follows the closing quote of A"),
        (f"A-B={SECRET}\n", "x.env:1: 'A-B' can't be the name of a variable"),
        (f"A={SECRET}\0\n", "x.env:1: has a NUL character, which no program can be given"),
    ],
)
def test_a_file_that_is_not_understood(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_dotenv(text, "x.env")
    assert caught.value.message == message
    assert SECRET not in str(caught.value)


def test_files_that_cannot_be_read(refusal: Refusal, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"A=1\nB=\xff\n")
    lines = refusal("", env_files=(str(tmp_path / "none"), str(tmp_path), str(binary), "a\0b"))
    assert lines[:3] == [
        f"--env-file: {tmp_path}/none can't be read: No such file or directory",
        f"--env-file: {tmp_path} can't be read: Is a directory",
        f"--env-file: {binary}:2: not UTF-8 text",
    ]
    assert len(lines) == 4


def test_a_mark_at_the_start_of_a_file_is_not_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "x.env"
    file.write_bytes(b"\xef\xbb\xbfA=1\r\n")
    assert read_dotenv(str(file)) == {"A": "1"}


# --- paths -------------------------------------------------------------------------------------------


def test_variables_are_put_into_workdir_and_file_mounts_only(load: Load) -> None:
    task = load(
        """
        envs: {A: one, B: $A, EMPTY: ""}
        secrets: {S: hidden}
        workdir: $A/${B}/$S/$UNKNOWN/$$A/$1
        file_mounts: {"/data/$A": "~/${A}x$EMPTY"}
        run: echo $A
        resources: {labels: {l: $A}}
        """,
        env=("A=two",),
        environ={"UNKNOWN": "no"},
    )
    assert task.workdir == "two/$A/$S/$UNKNOWN/$A/$1"
    assert task.file_mounts == {"/data/two": "~/twox"}
    assert (task.run, task.resources[0].labels, task.envs["B"]) == ("echo $A", {"l": "$A"}, "$A")


def test_paths_that_variables_make_useless(refusal: Refusal) -> None:
    lines = refusal(
        "envs: {A: '', B: /x}\nworkdir: $A\nfile_mounts:\n  $A: y\n  $B: y\n  /x: z\n",
    )
    assert [line.split(": ", 1)[0] for line in lines] == ["task.yaml:2:1", "task.yaml:4:3", "task.yaml:6:3"]


def test_an_escaped_path_reads_back() -> None:
    for text in ("$A", "$$A", "${A}$", "a b/$HOME/*/it's"):
        assert substitute(escape(text), {"A": "x", "HOME": "y"}) == text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("$B/x", "'s3://' is not supported: it comes in a later version"),
        ("s3://bucket/x", "'s3://' is not supported: it comes in a later version"),
        ("{name: x, store: s3}", "storage is not supported: it comes in a later version"),
        ("", "needs a path on the nodes and a local path"),
        ("[x]", "must be text, not a list"),
    ],
)
def test_mounts_that_are_no_local_paths(refusal: Refusal, source: str, message: str) -> None:
    assert (
        refusal(f"file_mounts:\n  /data: {source}\n", env=("B=s3://b",))[0]
        == f"task.yaml:2:3: file_mounts./data: {message}"
    )
