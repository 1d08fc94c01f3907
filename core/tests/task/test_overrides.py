"""Options over files, and commands without a file."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sky.task.model import Autostop, GitSource, Task
from sky.task.overrides import Overrides, inline_task
from sky.task.problems import TaskFileError

Load = Callable[..., Task]
Refusal = Callable[..., list[str]]

FILE = """
name: file
workdir: w
resources:
  cpus: 2
  labels: {a: file, b: file}
  ports: 80
  any_of:
    - {infra: aws/r/z, accelerators: T4:1}
    - {infra: gcp/r, accelerators: L4:1}
"""


def test_options_apply_to_every_alternative(load: Load) -> None:
    task = load(
        FILE,
        name="n",
        workdir="v",
        cpus="8+",
        memory="32",
        instance_type="m",
        use_spot=True,
        disk_size="100",
        disk_tier="best",
        image_id="docker:x",
        ports=("8080,8081", "9000-9001"),
        labels=("b=option", "c=option"),
        max_hourly_cost="2",
    )
    assert (task.name, task.workdir) == ("n", "v")
    assert [request.cloud for request in task.resources] == ["aws", "gcp"]
    for request in task.resources:
        assert (str(request.cpus), str(request.memory)) == ("8+", "32")
        assert (request.instance_type, request.use_spot, request.disk_size_gb) == ("m", True, 100)
        assert (request.disk_tier, request.image_id) == ("best", "docker:x")
        assert request.ports == ("8080", "8081", "9000-9001")
        assert request.labels == {"a": "file", "b": "option", "c": "option"}
        assert request.max_price_usd_per_hour == 2


def test_gpus_replace_accelerators(load: Load) -> None:
    task = load(FILE, gpus="H100:8")
    assert [(r.cloud, str(r.accelerator)) for r in task.resources] == [("aws", "H100:8"), ("gcp", "H100:8")]
    task = load("resources: {accelerators: T4}", gpus="[A100, H100:2]")
    assert [str(r.accelerator) for r in task.resources] == ["A100:1", "H100:2"]
    assert task.ordered


def test_infra_replaces_cloud_region_and_zone(load: Load) -> None:
    task = load(FILE, infra="k8s/ctx")
    assert {(r.cloud, r.region, r.zone) for r in task.resources} == {("k8s", "ctx", None)}
    assert load(FILE, region="q").resources[0].region == "q"


def test_none_takes_back_what_the_file_says(load: Load) -> None:
    task = load(
        FILE, cpus="none", gpus="None", infra="none", ports=("none",), labels=("none",), disk_tier="none"
    )
    (request,) = task.resources
    assert request == load("").resources[0]


def test_mistakes_name_the_option(refusal: Refusal) -> None:
    lines = refusal(
        "", num_nodes=0, cpus="x", ports=("1", "y"), labels=("z",), infra="a", region="r", name=""
    )
    assert [line.split(": ")[0] for line in lines] == [
        "--name",
        "--num-nodes",
        "--cpus",
        "--ports",
        "--label",
        "--infra",
    ]


def test_options_that_are_not_done_yet(load: Load, refusal: Refusal) -> None:
    options = {"autostop": "10m"}
    assert load("", allow_later=True, **options).autostop == Autostop(idle_minutes=10)
    assert [line.split(": ")[0] for line in refusal("", **options)] == ["--idle-minutes-to-autostop"]
    assert load("resources: {autostop: 5}", autostop="none") == load("")


def test_nodes_and_repository_by_option(load: Load) -> None:
    task = load("num_nodes: 3\nworkdir: {url: u0, ref: r0}", num_nodes=2, git_url="u", git_ref="r")
    assert (task.num_nodes, task.git) == (2, GitSource("u", "r"))
    assert load("workdir: {url: u0, ref: r0}", git_ref="r").git == GitSource("u0", "r")
    assert load("workdir: .", git_url="u").git == GitSource("u")


def test_an_option_is_not_substituted(load: Load) -> None:
    assert load("envs: {A: x}", workdir="$A").workdir == "$A"


# --- commands ----------------------------------------------------------------------------------------


def arguments_seen(argv: list[str]) -> str:
    """What a program started by the task's script is given."""
    task = inline_task(["python3", "-c", "import sys; print(sys.argv[1:])", *argv], environ={}, base_dir="/")
    done = subprocess.run(["sh", "-c", str(task.run)], capture_output=True, check=True, text=True)
    return str(done.stdout.strip())


def test_arguments_arrive_unchanged() -> None:
    argv = [
        "a  b",
        "$X",
        "`id`",
        "it's",
        '"',
        "\\",
        "*",
        "",
        "-n",
        "new\nline",
        "~",
        "ünï",
        "!x",
        "#",
        "a;b&&c|d",
    ]
    assert arguments_seen(argv) == repr(argv)


def test_a_program_in_an_argument_arrives_unchanged() -> None:
    task = inline_task(["python3", "-c", 'print("a  b", "$X")'])
    done = subprocess.run(
        ["sh", "-c", str(task.run)], capture_output=True, check=True, env={"X": "no", "PATH": "/usr/bin:/bin"}
    )
    assert done.stdout == b"a  b $X\n"


def test_one_argument_is_a_line_for_the_shell() -> None:
    task = inline_task(["echo $A | tr a-z A-Z"], Overrides(env=("A=x",)))
    assert task.run == "echo $A | tr a-z A-Z"
    done = subprocess.run(["sh", "-c", str(task.run)], capture_output=True, check=True, env=dict(task.envs))
    assert done.stdout == b"X\n"


def test_a_command_takes_the_same_options(load: Load) -> None:
    task = inline_task(["true"], Overrides(gpus="H100:8", secrets=("S=x",)), environ={}, base_dir="/base")
    assert task == load("run: 'true'\nresources: {accelerators: H100:8}\nsecrets: {S: x}")


def test_no_command_runs_nothing() -> None:
    assert inline_task([]).run is None


@pytest.mark.parametrize("argv", [["  "], ["a", "b\0"], ["a\udcff"]])
def test_commands_that_cannot_be(argv: list[str]) -> None:
    with pytest.raises(TaskFileError, match="command"):
        inline_task(argv)


def test_options_that_are_no_text_are_refused() -> None:
    for field in dataclasses.fields(Overrides):
        given: Any = ("\udcff=\udcff",) if isinstance(field.default, tuple) else "\udcff"
        if field.name != "use_spot":
            with pytest.raises(TaskFileError):
                options: Any = {field.name: given}
                inline_task(["true"], Overrides(**options))
