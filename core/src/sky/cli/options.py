"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sky.cli import output

if TYPE_CHECKING:
    from sky.session import Session
    from sky.task.model import Task

F = TypeVar("F", bound=Callable[..., Any])

OUTPUT = click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", help="How to print."
)
CONFIG = click.option(
    "--config", multiple=True, metavar="FILE|KEY=VALUE", help="Configuration over the files'."
)
YES = click.option("-y", "--yes", is_flag=True, help="Don't ask.")

_TASK_OPTIONS = [
    click.option("-n", "--name", help="The task's name."),
    click.option("--workdir", help="Local directory to sync to ~/sky_workdir."),
    click.option("--git-url", help="Repository to use as the workdir."),
    click.option("--git-ref", help="Branch, tag or commit of it."),
    click.option("--infra", help="Where: CLOUD[/REGION[/ZONE]]."),
    click.option("--cloud", hidden=True),
    click.option("--region", hidden=True),
    click.option("--zone", hidden=True),
    click.option("--num-nodes", metavar="N", help="How many nodes."),
    click.option("--gpus", metavar="NAME[:N]", help="Accelerators of each node: H100:8."),
    click.option("--cpus", metavar="N[+]", help="vCPUs of each node: 4, or 4+ for at least 4."),
    click.option("--memory", metavar="GIB[+|x]", help="Memory of each node: 16, 16+, or 4x for each vCPU."),
    click.option("-t", "--instance-type", help="The cloud's own name of a machine."),
    click.option("--use-spot/--no-use-spot", default=None, help="Machines that may be taken away."),
    click.option("--disk-size", metavar="GB", help="Size of the disk."),
    click.option("--disk-tier", help="Speed of the disk."),
    click.option("--image-id", help="Image: docker:NAME for a container."),
    click.option("--ports", multiple=True, help="Ports to open: 8080 or 8000-8010."),
    click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Label on what is created."),
    click.option("--max-hourly-cost", metavar="USD", help="Most that all nodes together may cost."),
    click.option(
        "-i", "--idle-minutes-to-autostop", "autostop", metavar="MINUTES", help="Not supported yet."
    ),
    click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Variable of the job."),
    click.option("--env-file", "env_files", multiple=True, metavar="FILE", help="File of variables."),
    click.option(
        "--secret", "secrets", multiple=True, metavar="NAME[=VALUE]", help="Variable that is never shown."
    ),
    click.option(
        "--secret-file", "secret_files", multiple=True, metavar="FILE", help="File of such variables."
    ),
]


def task_options(command: F) -> F:
    """Every option that says something about a task."""
    for option in reversed(_TASK_OPTIONS):
        command = option(command)
    return command


def task_from(words: tuple[str, ...], values: dict[str, Any]) -> Task:
    """A task from `TASK.yaml` or an inline command, and the options over it. Raises `TaskFileError`."""
    from sky.task.overrides import Overrides, inline_task

    overrides = Overrides(**values)
    if len(words) == 1 and _is_file(words[0]):
        from sky.task.load import load_task_file

        return load_task_file(words[0], overrides)
    return inline_task(words, overrides)


def _is_file(word: str) -> bool:
    """`train.yaml` is a task file, whether or not it's there; a command never ends like that."""
    if not word.endswith((".yaml", ".yml")):
        return word == "-"
    return not any(c.isspace() for c in word) or Path(word).is_file()


def session(config: tuple[str, ...], form: str = "table") -> Session:
    """The session of this command: messages on stderr, Ctrl-C and TERM as a cancel token.

    The first signal asks politely; the second ends the process as usual.
    """
    output.claim_stdout(form == "json")
    from sky.cancellation import CancelToken
    from sky.session import Session

    token = CancelToken()

    def on_signal(number: int, frame: object) -> None:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        token.cancel()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return Session(output.show, token, config)


def ask(question: str) -> bool:
    """A yes or no on the terminal; Ctrl-C is an answer, too: it ends the command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm(question, default=True, err=True)
    finally:
        signal.signal(signal.SIGINT, before)


def cluster_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For shell completion: the clusters known here."""
    from sky.state.clusters import State

    with State() as state:
        return [cluster.name for cluster in state.all() if cluster.name.startswith(incomplete)]
