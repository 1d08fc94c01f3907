"""`sky logs` and `sky cancel`."""

from __future__ import annotations

import click

from sky.cli import output
from sky.cli.options import CONFIG, OUTPUT, YES, cluster_names, session


@click.command()
@click.argument("cluster", shell_complete=cluster_names)
@click.argument("jobs", nargs=-1)
@click.option("--follow/--no-follow", default=True, help="Go on until the job ends (the default).")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N lines.")
@click.option("--rank", "-w", "--worker", type=click.IntRange(0), metavar="N", help="Only that node's log.")
@click.option("--status", "only_status", is_flag=True, help="Print the state, and exit as the job did.")
@click.option("-s", "--sync-down", is_flag=True, help="Copy the logs here instead: DIR/CLUSTER/ID/.")
@click.option("--target", default="sky_logs", metavar="DIR", help="Where --sync-down puts them.")
@OUTPUT
@CONFIG
def logs(
    cluster: str,
    jobs: tuple[str, ...],
    follow: bool,
    tail: int | None,
    rank: int | None,
    only_status: bool,
    sync_down: bool,
    target: str,
    form: str,
    config: tuple[str, ...],
) -> int:
    """Show the log of a job (the newest if none is named), and exit with the job's own code."""
    import os

    from sky import client
    from sky.cli.launch import ending, exit_code
    from sky.errors import UsageError

    ses = session(config, form)
    if sync_down and rank is not None:
        raise UsageError(
            "--sync-down copies every rank's log, each to a file of its own", remedy="leave out --rank"
        )
    if sync_down:
        paths = client.sync_down_logs(cluster, jobs, os.path.join(target, cluster), session=ses)  # noqa: PTH118
        if form == "json":
            output.document("logs", paths={job: str(path) for job, path in paths.items()})
        else:
            for path in paths.values():
                output.line(str(path))
        return 0
    if only_status:
        return _status(cluster, jobs, form, ses)
    if len(jobs) > 1:
        raise UsageError("one job at a time", remedy="--sync-down copies the logs of several")
    done = client.logs(
        cluster,
        jobs[0] if jobs else None,
        session=ses,
        follow=follow,
        tail=-1 if tail is None else tail,
        rank=rank,
        out=output.data_stream(),
    )
    if form == "json":
        output.document(
            "logs",
            cluster=cluster,
            job=done.job_id,
            state=done.state,
            exit_code=done.exit_code,
            reason=done.reason,
        )
    elif done.state is not None and done.state.final and done.state != "SUCCEEDED":
        output.note(ending(done))
    return exit_code(done)


def _status(cluster: str, jobs: tuple[str, ...], form: str, ses: object) -> int:
    from sky import client
    from sky.cli.launch import exit_code
    from sky.client import Launched
    from sky.errors import UsageError

    known = {job.id: job for job in client.queue(cluster, session=ses)}  # type: ignore[arg-type]
    wanted = jobs or tuple(known)[-1:]
    missing = [job for job in wanted if job not in known]
    if missing or not wanted:
        raise UsageError(
            f"cluster {cluster!r} has no job {', '.join(missing)}".rstrip(), remedy="sky queue lists its jobs"
        )
    code = 0
    for job in wanted:
        code = code or exit_code(
            Launched(cluster=cluster, job_id=job, state=known[job].state, exit_code=known[job].exit_code)
        )
        if form == "table":
            output.line(f"{job} {known[job].state}")
    if form == "json":
        output.document("logs", cluster=cluster, states={job: known[job].state for job in wanted})
    return code


@click.command()
@click.argument("cluster", shell_complete=cluster_names)
@click.argument("jobs", nargs=-1)
@click.option("-a", "--all", "every", is_flag=True, help="Every job of the cluster.")
@YES
@OUTPUT
@CONFIG
def cancel(
    cluster: str, jobs: tuple[str, ...], every: bool, yes: bool, form: str, config: tuple[str, ...]
) -> int:
    """End jobs (the newest if none is named) and everything they started."""
    from sky import client
    from sky.errors import UsageError

    ses = session(config, form)
    done = client.cancel(cluster, jobs, session=ses, every=every)
    unknown = [job for job, state in done if state == "unknown"]
    if form == "json":
        output.document("cancel", cluster=cluster, jobs=dict(done))
    else:
        for job, state in done:
            if job not in unknown:
                output.line(f"job {job}: {state}")
    if unknown:
        raise UsageError(
            f"cluster {cluster!r} has no job {', '.join(unknown)}", remedy="sky queue lists its jobs"
        )
    return 125 if any(state == "stuck" for _, state in done) else 0
