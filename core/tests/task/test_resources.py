"""Resources: every form of every field, and what the alternatives become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sky.task.model import Autostop, GitSource, Task
from sky.types import Accelerator, Quantity, Request

Load = Callable[..., Task]
Refusal = Callable[..., list[str]]


def one(task: Task) -> Request:
    (request,) = task.resources
    return request


@pytest.mark.parametrize(
    ("infra", "expected"),
    [
        ("aws", ("aws", None, None)),
        ("AWS/us-east-1", ("aws", "us-east-1", None)),
        ("aws/us-east-1/us-east-1a", ("aws", "us-east-1", "us-east-1a")),
        ("aws/*/us-east-1a", ("aws", None, "us-east-1a")),
        ('"*/us-east-1"', (None, "us-east-1", None)),
        ("k8s/arn:aws:eks:us-east-1:1:cluster/dev", ("k8s", "arn:aws:eks:us-east-1:1:cluster", "dev")),
        ("k8s/a/b/c", ("k8s", "a", "b/c")),
    ],
)
def test_infra(load: Load, infra: str, expected: Any) -> None:
    request = one(load(f"resources: {{infra: {infra}}}"))
    assert (request.cloud, request.region, request.zone) == expected


@pytest.mark.parametrize("infra", ["aws/", "/us-east-1", "aws//us-east-1a"])
def test_infra_with_an_empty_part(refusal: Refusal, infra: str) -> None:
    assert "has an empty part" in refusal(f"resources: {{infra: {infra}}}")[0]


def test_infra_or_its_older_form(load: Load, refusal: Refusal) -> None:
    assert load("resources: {cloud: AWS, region: r, zone: z}") == load("resources: {infra: aws/r/z}")
    assert refusal("resources: {infra: aws, region: r}") == [
        "task.yaml:1:12: resources: set infra, or cloud, region and zone, not both"
    ]


@pytest.mark.parametrize(
    "form", ["V100", "V100:1", "V100:1.0", "{V100: 1}", '{V100: "1"}', "{V100}", "[V100:1]", "[{V100: 1}]"]
)
def test_one_accelerator_in_every_form(load: Load, form: str) -> None:
    task = load(f"resources: {{accelerators: {form}}}")
    assert one(task).accelerator == Accelerator("V100", 1)
    assert not task.ordered


@pytest.mark.parametrize(
    ("form", "ordered"),
    [
        ("[T4:1, L4:2]", True),
        ("[{T4: 1}, {L4: 2}]", True),
        ("{T4: 1, L4: 2}", False),
        ("{T4, L4:2}", False),
        ("'[T4, L4:2]'", True),
    ],
)
def test_several_accelerators_are_alternatives(load: Load, form: str, ordered: bool) -> None:
    task = load(f"resources: {{infra: aws, accelerators: {form}}}")
    assert [str(request.accelerator) for request in task.resources] == ["T4:1", "L4:2"]
    assert {request.cloud for request in task.resources} == {"aws"}
    assert task.ordered is ordered


def test_the_other_fields(load: Load) -> None:
    request = one(
        load(
            """
            resources:
              cpus: 4+
              memory: 2x
              instance_type: m5.large
              use_spot: yes
              disk_size: 256
              disk_tier: High
              image_id: docker:ubuntu:22.04
              ports: [8080, "9000-9010", 8080]
              max_hourly_cost: 1.5
            """
        )
    )
    assert request.cpus == Quantity(4, "at_least")
    assert request.memory == Quantity(2, "per_cpu")
    assert request.instance_type == "m5.large"
    assert request.use_spot is True
    assert (request.disk_size_gb, request.disk_tier) == (256, "high")
    assert request.image_id == "docker:ubuntu:22.04"
    assert request.ports == ("8080", "9000-9010")
    assert request.max_price_usd_per_hour == 1.5


@pytest.mark.parametrize(
    ("form", "ports"),
    [("8080", ("8080",)), ('"8080"', ("8080",)), ("8000-8010", ("8000-8010",)), ("[1]", ("1",))],
)
def test_ports(load: Load, form: str, ports: tuple[str, ...]) -> None:
    assert one(load(f"resources: {{ports: {form}}}")).ports == ports


@pytest.mark.parametrize(
    "field",
    [
        "ports: 0",
        "ports: 70000",
        "ports: 9-8",
        "ports: {a: 1}",
        "use_spot: maybe",
        "disk_tier: huge",
        "image_id: 'docker:'",
        "image_id: {us-east-1: ami-1}",
        "cpus: [4]",
        "accelerators: [[T4]]",
        "max_hourly_cost: 0",
        "region: [a]",
        "any_of: {a: 1}",
        "any_of: [x]",
    ],
)
def test_values_that_mean_nothing(refusal: Refusal, field: str) -> None:
    (line,) = refusal(f"resources:\n  {field}\n")
    assert line.startswith("task.yaml:2:")
    assert f": resources.{field.split(':')[0]}" in line


@pytest.mark.parametrize(("kind", "ordered"), [("any_of", False), ("ordered", True)])
def test_the_fields_of_an_alternative_replace_those_of_resources(
    load: Load, kind: str, ordered: bool
) -> None:
    task = load(
        f"""
        resources:
          cpus: 4
          accelerators: T4:1
          infra: aws/r/z
          {kind}:
            - {{accelerators: [H100:8, A100:8]}}
            - {{infra: k8s, cpus: 8}}
            - {{accelerators: null}}
            -
        """
    )
    seen = [
        (str(request.accelerator), request.cloud, request.region, request.cpus and request.cpus.value)
        for request in task.resources
    ]
    assert seen == [
        ("H100:8", "aws", "r", 4),
        ("A100:8", "aws", "r", 4),
        ("T4:1", "k8s", None, 8),
        ("None", "aws", "r", 4),
        ("T4:1", "aws", "r", 4),
    ]
    assert task.ordered is ordered


def test_alternatives_that_cannot_be_told_apart_or_are_too_many(load: Load, refusal: Refusal) -> None:
    assert len(load("resources: {any_of: [{cpus: 4}, {cpus: '4'}]}").resources) == 1
    many = ", ".join(f"{{cpus: {number}}}" for number in range(1, 300))
    assert "more than 256 alternatives" in refusal(f"resources: {{any_of: [{many}]}}")[0]


def test_what_an_alternative_cannot_hold(refusal: Refusal) -> None:
    text = "resources:\n  any_of: [{any_of: [{cpus: 1}]}, {autostop: 5}]\n  ordered: [{cpus: 2}]"
    lines = refusal(text)
    assert [line.split(": ", 2)[1] for line in lines] == [
        "resources",
        "resources.any_of[0].any_of",
        "resources.any_of[1].autostop",
    ]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("true", Autostop(idle_minutes=5)),
        ("10", Autostop(idle_minutes=10)),
        ("2h", Autostop(idle_minutes=120)),
        (
            "{idle_minutes: 7, down: true, wait_for: none}",
            Autostop(idle_minutes=7, down=True, wait_for="none"),
        ),
        ("{hook: echo, hook_timeout: 9}", Autostop(idle_minutes=5, hook="echo", hook_timeout_seconds=9)),
        ("false", None),
        ("-1", None),
        ("", None),
    ],
)
def test_autostop_is_read_and_what_enables_it_is_refused_for_now(
    load: Load, refusal: Refusal, form: str, expected: Any
) -> None:
    text = f"resources:\n  autostop: {form}\n"
    assert load(text, allow_later=True).autostop == expected
    if expected is None:
        assert load(text).autostop is None
    else:
        assert refusal(text) == [
            "task.yaml:2:3: resources.autostop: not supported: it comes in a later version"
        ]


def test_several_nodes(load: Load) -> None:
    task = load("num_nodes: 2\nresources: {any_of: [{cpus: 1}, {cpus: 2}]}")
    assert task.num_nodes == 2 and [request.num_nodes for request in task.resources] == [2, 2]


def test_a_repository_as_workdir(load: Load, refusal: Refusal) -> None:
    task = load("workdir: {url: 'https://x/y.git', ref: main}")
    assert task.git == GitSource("https://x/y.git", "main") and task.workdir is None
    assert load("workdir: {url: git@host:y.git}").git == GitSource("git@host:y.git")
    text = "envs: {WHO: me, REF: v1}\nworkdir: {url: 'https://x/$WHO', ref: '${REF}'}"
    assert load(text).git == GitSource("https://x/me", "v1")
    assert refusal("envs: {A: ''}\nworkdir: {url: $A}")[0].endswith(
        "is empty once its variables are replaced"
    )
    assert refusal("workdir: {ref: x}") == ["task.yaml:1:1: workdir: the url of the repository is missing"]
