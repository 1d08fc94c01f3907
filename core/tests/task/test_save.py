"""A task that is saved and loaded is the same task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sky.task.load import load_task_text
from sky.task.model import Autostop, GitSource, Task
from sky.task.save import task_to_yaml
from sky.types import Accelerator, Quantity, Request

Load = Callable[..., Task]
Refusal = Callable[..., list[str]]

from_text = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12
)
odd = st.sampled_from(
    ["yes", "010", "1e3", "12:30", "True", "1.10", "null", "~", "<<", "=", "- a", "# x", "*a",
     "&a", "!x", "a: b", "$A",
     "$$", " x ", "\n", "a\n b\n", " a\n\nb", "a\r\nb", "\tx\n", "é\n漢", "\x85\n", "\u2028\n",
     "\ufeff", "{", "'", '"', "%x",
     "---", "...", "---\nx", "?", "a\n", "\x7f", "\x1b[0m\n"]
)  # fmt: skip
texts = from_text | odd
filled = texts.filter(str.strip)
lines = (
    st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not name.startswith("SKYPILOT_")
)
amounts = st.floats(1e-6, 1e12) | st.integers(1, 10**9).map(float)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(-1e17, 1e17).filter(lambda x: x == 0 or abs(x) > 1e-3)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of the strategy, or None."""
    return st.none() | strategy


@st.composite
def tasks(draw: Any) -> Task:
    config = draw(st.dictionaries(texts, values, max_size=3))
    num_nodes = draw(st.integers(1, 4))
    requests = st.builds(
        Request,
        num_nodes=st.just(num_nodes),
        cloud=maybe(lines.map(str.lower)),
        region=maybe(lines),
        zone=maybe(lines),
        instance_type=maybe(lines),
        cpus=maybe(st.builds(Quantity, amounts, st.sampled_from(["exact", "at_least"]))),
        memory=maybe(st.builds(Quantity, amounts, st.sampled_from(["exact", "at_least", "per_cpu"]))),
        accelerator=maybe(st.builds(Accelerator, st.sampled_from(["H100", "a100_3g.20gb"]), amounts)),
        use_spot=st.booleans(),
        disk_size_gb=maybe(st.integers(1, 10**9)),
        disk_tier=maybe(st.sampled_from(["low", "best"])),
        image_id=maybe(lines.map(lambda name: f"docker:{name}")),
        ports=st.lists(st.sampled_from(["80", "8000-8010"]), unique=True).map(tuple),
        labels=st.dictionaries(texts, texts | st.just(""), max_size=3),
        max_price_usd_per_hour=maybe(amounts),
        config=st.just(config),
    )
    envs = draw(st.dictionaries(names, texts | st.just(""), max_size=3))
    return Task(
        name=draw(maybe(lines)),
        **draw(
            st.sampled_from([{"git": GitSource("https://a:b$c@x", "r$r")}, {"workdir": draw(maybe(filled))}])
        ),
        num_nodes=num_nodes,
        resources=tuple({repr(r): r for r in draw(st.lists(requests, min_size=1, max_size=3))}.values()),
        ordered=draw(st.booleans()),
        envs=envs,
        secrets=draw(st.dictionaries(names.filter(lambda name: name not in envs), texts, max_size=2)),
        file_mounts=draw(st.dictionaries(texts, texts.filter(lambda text: "://" not in text), max_size=2)),
        setup=draw(maybe(filled)),
        run=draw(maybe(filled)),
        config=config,
        autostop=draw(
            maybe(
                st.builds(
                    Autostop,
                    idle_minutes=st.integers(0, 999),
                    down=st.booleans(),
                    wait_for=maybe(st.just("jobs")),
                    hook=maybe(filled),
                    hook_timeout_seconds=maybe(st.integers(1, 99)),
                )
            )
        ),
        base_dir="/base",
    )


@settings(max_examples=100, deadline=None)
@given(tasks())
def test_every_task_reads_back(task: Task) -> None:
    saved = task_to_yaml(task, show_secrets=True)
    assert load_task_text(saved, base_dir="/base", allow_later=True) == task


def test_what_was_typed_survives_saving(load: Load) -> None:
    task = load(
        'envs: {A: yes, B: 010, C: 1e3, D: 12:30, E: "True", F: "null", G: 1.10}\n'
        "resources: {labels: {A: yes, B: 010, E: 'True'}}\nrun: |\n  echo\n"
    )
    again = load(task_to_yaml(task))
    assert again == task
    assert again.envs["B"] == "010" and again.resources[0].labels["E"] == "True"


def test_another_reader_of_yaml_sees_the_same_text(load: Load) -> None:
    yaml = pytest.importorskip("yaml")
    task = load('envs: {A: yes, B: 010, C: 1e3, D: 12:30, E: "True", F: "null", G: 1.10, H: 2001-01-01}')
    assert yaml.safe_load(task_to_yaml(task))["envs"] == task.envs


def test_a_script_is_saved_as_a_block(load: Load) -> None:
    assert "run: |\n  echo a\n    echo b\n" in task_to_yaml(load("run: |\n  echo a\n    echo b\n"))


def test_secrets_must_be_given_again(load: Load, refusal: Refusal) -> None:
    saved = task_to_yaml(load("secrets: {A: hidden}"))
    assert "secrets.A: needs a value; give it by --secret A=VALUE" in refusal(saved)[0]
    assert load(saved, secrets=("A=hidden",)).secrets == {"A": "hidden"}


def test_no_password_of_a_repository_is_shown(load: Load) -> None:
    for url, shown in (
        ("https://me:pa@ss@host/x.git?token=t", "https://***@host/x.git?***"),
        ("https://token@host/x", "https://***@host/x"),
        ("ssh://git:secret@host/x", "ssh://git:***@host/x"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("git@host:x.git", "git@host:x.git"),
        ("/a?b/c", "/a?b/c"),
    ):
        task = load(f"workdir: {{url: '{url}', ref: main}}")
        assert task.git and task.git.url == url and task.git.shown_url == shown
        assert shown in task_to_yaml(task)
        if "***" in shown:
            assert url not in task_to_yaml(task) + repr(task) + str(task.to_dict())
