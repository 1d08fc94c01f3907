"""What was typed is what the job sees, however the file was saved."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sky.task.model import Task

Load = Callable[..., Task]
Refusal = Callable[..., list[str]]

TYPED = (
    'envs: {A: yes, B: 010, C: 1e3, D: 12:30, E: "True", G: 1.10, H: "", I: 0x1F, J: 2001-01-01, K: 1_000}'
)
AS_TYPED = {
    "A": "yes",
    "B": "010",
    "C": "1e3",
    "D": "12:30",
    "E": "True",
    "G": "1.10",
    "H": "",
    "I": "0x1F",
    "J": "2001-01-01",
    "K": "1_000",
}


def test_scalars_of_envs_reach_the_job_as_typed(load: Load) -> None:
    assert load(TYPED).envs == AS_TYPED


def test_scalars_of_labels_reach_the_cloud_as_typed(load: Load) -> None:
    text = "resources:\n  labels: {A: yes, B: 010, C: 1e3, D: 12:30, E: 'True', G: 1.10}"
    expected = {"A": "yes", "B": "010", "C": "1e3", "D": "12:30", "E": "True", "G": "1.10"}
    assert load(text).resources[0].labels == expected


@pytest.mark.parametrize("null", ["null", "", "~", "NULL"])
def test_an_empty_env_must_be_given(load: Load, refusal: Refusal, null: str) -> None:
    text = f"envs:\n  F: {null}\n"
    assert refusal(text) == ["task.yaml:2:3: envs.F: needs a value; give it by --env F=VALUE"]
    assert load(text, env=("F=x",)).envs == {"F": "x"}


def test_an_empty_label_is_an_error(refusal: Refusal) -> None:
    assert refusal("resources:\n  labels: {F: null}") == [
        'task.yaml:2:12: resources.labels.F: has no value; write "" for an empty one'
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: a\nname: b\n", "task.yaml:2:1"),
        ("envs:\n  A: 1\n  B: 2\n  A: 1\n", "task.yaml:4:3"),
        ("envs: [{A: 1}, {A: 2}]", "task.yaml:1:17"),
        ("config: {a: {b: 1, b: 2}}", "task.yaml:1:20"),
    ],
)
def test_a_key_that_is_there_twice_is_an_error(refusal: Refusal, text: str, place: str) -> None:
    (line,) = refusal(text)
    assert line.startswith(place) and "is here twice" in line


RUN = "name: x\nrun: |\n  if true; then\n    echo 'a  b'\n  fi\n"


@pytest.mark.parametrize(
    "data",
    [
        RUN.encode(),
        RUN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + RUN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + RUN.encode(),
    ],
    ids=["lf", "crlf", "mark and crlf", "mark and lf"],
)
def test_line_ends_and_a_mark_at_the_start_change_nothing(load: Load, data: bytes) -> None:
    task = load(data)
    assert task.name == "x"
    assert task.run is not None and "\r" not in task.run
    done = subprocess.run(["sh", "-c", task.run], capture_output=True, check=True)
    assert done.stdout == b"a  b\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"name: \xff\xfe\n", "task.yaml:1:1: not UTF-8 text; save the file as UTF-8"),
        (b"name: a\nrun: \xe9t\xe9\n", "task.yaml:2:1: not UTF-8 text; save the file as UTF-8"),
        (
            "name: a\nresources:\n\tcpus: 4\n",
            "task.yaml:3:1: a tab is used for indentation; YAML wants spaces",
        ),
        (
            "name: a\n---\nname: b\n",
            "task.yaml:2:1: a second document begins here; a task file is one document",
        ),
        ("name: é\nrun: é\x07\n", "task.yaml:2:7: holds a character that YAML doesn't allow"),
        ("a: &a [*a]\n", "task.yaml:1:8: an alias refers to the value that it is part of"),
        ("run: *job", "task.yaml:1:6: an alias refers to no anchor above it; quote text that begins with *"),
        (
            "run: !!python/name:os.system x",
            "task.yaml:1:6: a tag that Sky doesn't know; only !!str may be used",
        ),
        ("[a]: b", "task.yaml:1:1: the name of a field is a list; it must be text"),
        ("config:\n  <<: 3", "task.yaml:2:3: << merges maps, and this isn't one"),
        ("- a", "task.yaml:1:1: must be a map of fields, not a list"),
        ('run: "a\\0b"', "task.yaml:1:6: has a NUL character, which no program can be given"),
    ],
)
def test_text_that_is_no_task_is_refused_with_its_place(refusal: Refusal, text: str, expected: Any) -> None:
    assert refusal(text)[0] == expected


def test_a_syntax_error_has_a_place_and_shows_no_text(refusal: Refusal) -> None:
    (line,) = refusal('secrets:\n  A: "hunter2\nrun: x\n')
    assert line.startswith("task.yaml:") and "not valid YAML" in line
    assert "hunter2" not in line


def test_deep_nesting_is_refused(refusal: Refusal) -> None:
    assert "levels deep" in refusal("config: " + "[" * 200 + "]" * 200)[0]
    assert "nest" in refusal("config: " + "[" * 100_000)[0]


def test_aliases_that_multiply_are_refused(refusal: Refusal) -> None:
    lines = ["config:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert "more values than a task file can hold" in refusal("\n".join(lines))[0]


def test_anchors_aliases_and_merge_keys(load: Load) -> None:
    task = load(
        """
        envs: &common {A: 010, B: two}
        config:
          one: &one {x: 1, y: 2}
          two: {<<: *one, y: 3}
          three: {<<: [{z: 9, x: 8}, *one]}
        secrets: {}
        run: &r echo
        setup: *r
        resources:
          labels: *common
        """
    )
    assert task.resources[0].labels == {"A": "010", "B": "two"}
    assert task.config["two"] == {"x": 1, "y": 3}
    assert task.config["three"] == {"z": 9, "x": 8, "y": 2}
    assert task.setup == task.run == "echo"


def test_config_gets_the_types_that_json_has(load: Load) -> None:
    task = load('config: {a: {b: true, c: 1, d: 1.5, e: null, f: yes, g: 010, h: "1", i: [2, x], j: 1e999}}')
    assert task.config["a"] == {
        "b": True,
        "c": 1,
        "d": 1.5,
        "e": None,
        "f": "yes",
        "g": "010",
        "h": "1",
        "i": [2, "x"],
        "j": "1e999",
    }
    assert task.resources[0].config == task.config


def test_a_value_of_several_lines_is_kept(load: Load) -> None:
    assert load("envs:\n  A: |\n    one\n     two\n").envs == {"A": "one\n two\n"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "resources:\n  # only comments\nenvs:\nrun:\n"])
def test_what_is_empty_is_as_if_it_were_not_there(load: Load, text: str) -> None:
    task = load(text)
    assert (task.envs, task.run, len(task.resources)) == ({}, None, 1)
    assert task == load("")


def test_an_empty_zone_is_no_zone(load: Load) -> None:
    task = load(
        'resources: {cloud: aws, region: us-east-1, zone: "", cpus: "", labels: , ports: [], any_of: }'
    )
    assert task == load("resources: {infra: aws/us-east-1}")
