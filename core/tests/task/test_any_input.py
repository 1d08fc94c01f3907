"""Whatever goes in, a task or a `TaskFileError` comes out."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sky.errors import UsageError
from sky.task.dotenv import parse_dotenv
from sky.task.fields import FIELDS
from sky.task.load import load_task_text
from sky.task.model import Task
from sky.task.overrides import Overrides
from sky.task.problems import TaskFileError

words = st.sampled_from(
    [
        *{part for path in FIELDS for part in path.split(".")},
        "<<",
        "",
        "T4:1",
        "8",
        "4+",
        "yes",
        "~",
        "aws/r",
        "$A",
        "s3://x",
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | words
structures = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)
resources = st.fixed_dictionaries({"resources": st.dictionaries(words, structures, max_size=6)})
fragments = st.lists(
    st.sampled_from(
        [b"a: ", b"run: |\n", b"\n", b"  ", b"\t", b"- ", b"&a ", b"*a ", b"<<: ", b"[", b"]",
         b"{", b"}", b"'", b'"', b"!!int ",
         b"? ", b": ", b"---\n", b"...\n", b"%YAML 1.1\n", b"\xef\xbb\xbf", b"\xff", b"\0",
         b"\r\n", b"resources: ", b"envs:\n", b"#"]
    )
).map(b"".join)  # fmt: skip


def outcome(text: str | bytes, overrides: Overrides | None = None) -> None:
    try:
        task = load_task_text(text, overrides=overrides, environ={}, base_dir="/")
    except TaskFileError as error:
        assert error.problems and str(error)
    else:
        assert isinstance(task, Task) and task.resources


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | fragments)
@example(b"\xff\xfea\0:\0")
@example(b"a: " + b"[" * 5000)
def test_any_bytes(data: bytes) -> None:
    outcome(data)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(), max_size=100))
@example("\ud800")
def test_any_text(text: str) -> None:
    outcome(text)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(words, structures, max_size=6) | structures | resources)
def test_any_structure(structure: object) -> None:
    outcome(json.dumps(structure))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_options(data: st.DataObject) -> None:
    import dataclasses

    text = st.text(st.characters(), max_size=6) | words
    given_options: Any = {
        field.name: data.draw(
            st.lists(text, max_size=2).map(tuple) if field.default == () else st.none() | text
        )
        for field in dataclasses.fields(Overrides)
        if field.name != "use_spot"
    }
    outcome("resources: {any_of: [{cpus: 4}, {infra: aws}]}", Overrides(**given_options))


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("A=' \"\\\n\r#$ex-\0"), max_size=40))
def test_any_file_of_variables(text: str) -> None:
    try:
        values = parse_dotenv(text, "x.env")
    except UsageError:
        return
    assert all(isinstance(value, str) for value in values.values())
