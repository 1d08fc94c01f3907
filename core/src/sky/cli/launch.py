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
    from sky.session import Session
    from sky.task.model import Task

_EXPLAIN = click.option("--explain-time", is_flag=True, help="Print where the time went.")
_DETACH = click.option("-d", "--detach-run", "detach", is_flag=True, help="Return when the job is submitted.")
_DRYRUN_SHOWN = 10


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
        return _dryrun(
            ses, client.plan(wanted, session=ses, wait_seconds=wait_seconds), wanted, cluster, form
        )

    def confirm(found: Candidates, name: str) -> bool:
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
            error=None,
        )
    elif done.state is None and done.job_id:
        output.note(f"job {done.job_id} is submitted; its log: sky logs {done.cluster} {done.job_id}")
    elif done.state is None:
        output.note(f"cluster {done.cluster!r} is up")
    elif done.state != "SUCCEEDED":
        output.note(f"{output.red('job ' + done.job_id)} {done.state}, exit code {code}")
    times.report()
    return code


def exit_code(done: Launched) -> int:
    """The job's own; 123 for a cancelled one, 122 where it isn't known; 0 if it wasn't waited for."""
    from sky.types import JobState

    if done.exit_code is not None:
        return done.exit_code
    return {JobState.CANCELLED: 123, JobState.UNKNOWN: 122}.get(done.state, 0) if done.state else 0


def candidate_table(found: Candidates) -> str:
    """The rows in the order in which they would be tried, the first one marked, then why others are absent."""
    from sky.launcher.candidates import explain

    rows = []
    for number, candidate in enumerate(found.rows[:_DRYRUN_SHOWN]):
        offer = candidate.offer
        place = "/".join(part for part in (offer.region, offer.zone) if part)
        rows.append(
            [
                "→" if number == 0 else "",
                offer.cloud,
                place or "-",
                offer.instance_type or "-",
                f"{offer.vcpus:g}",
                f"{offer.memory_gib:g}",
                str(offer.accelerator or "-"),
                f"${candidate.price_usd_per_hour:.2f}" + (" spot" if offer.spot else ""),
                offer.note,
            ]
        )
    head = ["", "CLOUD", "REGION", "INSTANCE", "VCPUS", "MEM(GIB)", "ACCELERATORS", "$/H", ""]
    lines = [output.table(head, rows)] if rows else []
    if len(found.rows) > _DRYRUN_SHOWN:
        lines.append(f"and {len(found.rows) - _DRYRUN_SHOWN} more")
    for failure in found.failures:
        lines.append(output.dim(f"  {failure.cloud}: {failure.why}"))
    for rejection in found.rejections:
        near = f" (would do: {', '.join(rejection.near_misses)})" if rejection.near_misses else ""
        lines.append(output.dim(f"  {explain(rejection)}{near}"))
    return "\n".join(lines)


def _dryrun(ses: Session, found: Candidates, task: Task, cluster: str | None, form: str) -> int:
    from dataclasses import asdict

    from sky import client

    asked = client.preview(task, found.rows[0], cluster, session=ses) if found.rows else ""
    if form == "json":
        output.document(
            "plan",
            candidates=[{**asdict(c.offer), "total_usd_per_hour": c.price_usd_per_hour} for c in found.rows],
            rejections=[asdict(rejection) for rejection in found.rejections],
            failures=[{"cloud": f.cloud, "reason": f.why, "kind": f.kind} for f in found.failures],
            request=asked,
            task=_without_values(task),
        )
    elif found.rows:
        output.line(candidate_table(found))
        if asked:
            output.line(f"\n{found.rows[0].offer.cloud} would be asked for:\n{asked}")
    found.require()
    return 0


def _without_values(task: Task) -> dict[str, Any]:
    """The task as data; of variables the names alone, since tokens are given as plain ones, too."""
    shown = task.to_dict()
    return {**shown, "envs": dict.fromkeys(task.envs)} if task.envs else shown


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
