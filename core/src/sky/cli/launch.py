"""`sky launch` and `sky exec`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from sky.cli import output
from sky.cli.options import CONFIG, OUTPUT, YES, ask, cluster_names, session, task_from, task_options

if TYPE_CHECKING:
    from sky.client import Launched
    from sky.launcher.candidates import Candidates
    from sky.node.engine import Stream

_EXPLAIN = click.option("--explain-time", is_flag=True, help="Print where the time went.")
_DETACH = click.option("-d", "--detach-run", "detach", is_flag=True, help="Return when the job is submitted.")


@click.command()
@click.argument("task", nargs=-1, metavar="[TASK.yaml | [--] COMMAND...]")
@click.option(
    "-c",
    "--cluster",
    help="Name of the cluster; an existing one is used again.",
    shell_complete=cluster_names,
)
@click.option("--dryrun", is_flag=True, help="Print what would be asked of the cloud; create nothing.")
@click.option("--no-setup", is_flag=True, help="Skip setup.")
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    help="Seconds to wait for a slow cloud's answer (5).",
)
@click.option("--down", "down_after", is_flag=True, help="Not supported yet.")
@_DETACH
@YES
@OUTPUT
@CONFIG
@_EXPLAIN
@task_options
def launch(
    task: tuple[str, ...],
    cluster: str | None,
    dryrun: bool,
    no_setup: bool,
    wait_seconds: float | None,
    down_after: bool,
    detach: bool,
    yes: bool,
    form: str,
    config: tuple[str, ...],
    explain_time: bool,
    **values: Any,
) -> int:
    """Get the cheapest place that can run a task, sync files, run setup and the job, show its log.

    \b
    sky launch train.yaml
    sky launch -c dev --gpus H100:8 -- python train.py --lr 3e-4
    """
    from sky import client
    from sky.errors import NotSupported, UsageError

    if down_after:
        raise NotSupported("--down is not supported yet", remedy="sky down NAME gives a cluster back")
    times = _Times(explain_time)
    ses = session(config, form)
    wanted = task_from(task, values)
    times.mark("read the task")
    if dryrun:
        from sky.cli.plan import dry_run

        return dry_run(
            ses, client.plan(wanted, session=ses, wait_seconds=wait_seconds), wanted, cluster, form
        )

    def confirm(found: Candidates, name: str) -> bool:
        from sky.cli.plan import candidate_table

        times.mark("candidates")
        output.note(candidate_table(found))
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                f"launching {name!r} needs a yes, and there is no terminal to ask on", remedy="add -y"
            )
        return ask(f"Launch a new cluster {name!r}?")

    done = client.launch(
        wanted,
        cluster,
        session=ses,
        confirm=confirm,
        detach=detach,
        no_setup=no_setup,
        wait_seconds=wait_seconds,
        out=times.watch(output.data_stream()),
        on_state=_narrate(times),
    )
    return _finish("launch", done, form, times)


@click.command("exec")
@click.argument("cluster", shell_complete=cluster_names)
@click.argument("task", nargs=-1, metavar="[TASK.yaml | [--] COMMAND...]")
@_DETACH
@OUTPUT
@CONFIG
@_EXPLAIN
@task_options
def exec_(
    cluster: str,
    task: tuple[str, ...],
    detach: bool,
    form: str,
    config: tuple[str, ...],
    explain_time: bool,
    **values: Any,
) -> int:
    """Run a job on a cluster that is up: no setup, and of the files only the workdir.

    \b
    sky exec dev -- nvidia-smi
    sky exec dev 'echo $HOME | wc -c'
    sky exec dev train.yaml -d
    """
    from sky import client

    times = _Times(explain_time)
    ses = session(config, form)
    wanted = task_from(task, values)
    times.mark("read the task")
    done = client.exec_(
        wanted,
        cluster,
        session=ses,
        detach=detach,
        out=times.watch(output.data_stream()),
        on_state=_narrate(times),
    )
    return _finish("exec", done, form, times)


def _narrate(times: _Times) -> Any:
    told: list[str] = []

    def on_state(stream: Stream) -> None:
        if not told:
            times.mark("connect and submit")
            output.note(output.dim(f"· job {stream.job_id}"))
        elif stream.state == "PENDING":
            output.note(output.dim(f"· job {stream.job_id} waits for its turn"))
        told.append(stream.state)

    return on_state


def _finish(kind: str, done: Launched, form: str, times: _Times) -> int:
    times.mark("the job")
    code = exit_code(done)
    if form == "json":
        output.document(
            kind,
            cluster=done.cluster,
            job=done.job_id or None,
            state=done.state,
            exit_code=done.exit_code,
            reason=done.reason,
            error=None,
        )
    elif done.state is None and done.job_id:
        output.note(f"job {done.job_id} is submitted; its log: sky logs {done.cluster} {done.job_id}")
    elif done.state is None:
        output.note(f"cluster {done.cluster!r} is up")
    elif done.state != "SUCCEEDED":
        output.note(ending(done))
    times.report()
    return code


def ending(done: Launched) -> str:
    """How a job that didn't succeed ended, as a line."""
    why = f": {done.reason}" if done.reason else ""
    return f"{output.red('job ' + done.job_id)} {done.state}, exit code {exit_code(done)}{why}"


def exit_code(done: Launched) -> int:
    """The job's own; 123 for a cancelled one, 122 where it isn't known; 0 if it wasn't waited for."""
    from sky.types import JobState

    if done.exit_code is not None:
        return done.exit_code
    return {JobState.CANCELLED: 123, JobState.UNKNOWN: 122}.get(done.state, 0) if done.state else 0


class _Times:
    """Where the time of a command went, for --explain-time; costs nothing when that isn't asked for."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        if wanted:
            from sky.cli.timing import Timing

            self._timing = Timing()

    def mark(self, what: str) -> None:
        if self._wanted:
            self._timing.mark(what)

    def watch(self, stream: Any) -> Any:
        return self._timing.watch(stream) if self._wanted else stream

    def report(self) -> None:
        if self._wanted:
            output.note(self._timing.report())
