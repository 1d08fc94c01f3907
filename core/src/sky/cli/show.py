"""`sky status` and `sky queue`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from sky.cli import output
from sky.cli.options import CONFIG, OUTPUT, cluster_names, session

if TYPE_CHECKING:
    from sky.state.clusters import Cluster
    from sky.types import JobStatus


@click.command()
@click.argument("clusters", nargs=-1, shell_complete=cluster_names)
@click.option("-r", "--refresh", is_flag=True, help="Ask the clouds.")
@click.option("--rebuild", is_flag=True, help="Find clusters that aren't known here, by their tags.")
@click.option("-u", "--all-users", is_flag=True, help="With --rebuild: also those of others.")
@click.option("-v", "--verbose", is_flag=True, help="Hosts and ids as well.")
@click.option("--ip", is_flag=True, help="Print the address of the first node, nothing else.")
@OUTPUT
@CONFIG
def status(
    clusters: tuple[str, ...],
    refresh: bool,
    rebuild: bool,
    all_users: bool,
    verbose: bool,
    ip: bool,
    form: str,
    config: tuple[str, ...],
) -> int:
    """List clusters as last known, newest first; exit 122 if a cloud was to be asked and could not be."""
    from sky import client

    ses = session(config, form) if refresh or rebuild else None
    if ses is None:
        output.claim_stdout(form == "json")
    found = client.status(clusters, session=ses, refresh=refresh, rebuild=rebuild, everyone=all_users)
    not_asked = ses.not_asked if ses is not None else {}
    if form == "json":
        output.document("status", clusters=[_as_data(cluster) for cluster in found], not_asked=not_asked)
    elif ip:
        for cluster in found:
            output.line(cluster.hosts[0].internal_ip if cluster.hosts else "-")
    elif not found:
        output.note("no clusters; sky launch makes one")
    else:
        _status_table(found, verbose)
    return 122 if not_asked else 0


def _status_table(found: list[Cluster], verbose: bool) -> None:
    head = ["NAME", "STATUS", "PLACE", "RESOURCES", "$/H", "AGE", "LAST USE"]
    output.line(output.table(head, [_row(cluster) for cluster in found]))
    for cluster in found:
        if cluster.reason:
            output.line(f"{cluster.name}: {cluster.reason}")
        if verbose:
            output.line(f"{cluster.name}: id {cluster.id}, made by {cluster.identity or 'unknown'}")
            for host in cluster.hosts:
                output.line(f"  node {host.rank}: {host.name} {host.internal_ip}")


def _row(cluster: Cluster) -> list[str]:
    offer = cluster.offer
    what = f"{cluster.num_nodes}x {offer.instance_type or offer.accelerator or ''}".strip() if offer else "-"
    place = "/".join(p for p in (cluster.cloud, offer.region if offer else "") if p)
    price = f"${offer.price_usd_per_hour * cluster.num_nodes:.2f}" if offer else "-"
    return [
        cluster.name,
        cluster.status,
        place,
        what,
        price,
        output.age(time.time() - cluster.created_at),
        cluster.last_use or "-",
    ]


def _as_data(cluster: Cluster) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "name": cluster.name,
        "id": cluster.id,
        "status": cluster.status,
        "reason": cluster.reason,
        "cloud": cluster.cloud,
        "num_nodes": cluster.num_nodes,
        "offer": asdict(cluster.offer) if cluster.offer else None,
        "hosts": [asdict(host) for host in cluster.hosts],
        "created_at": cluster.created_at,
        "last_use": cluster.last_use,
    }


@click.command()
@click.argument("clusters", nargs=-1, shell_complete=cluster_names)
@click.option("-s", "--skip-finished", is_flag=True, help="Only jobs that wait or run.")
@OUTPUT
@CONFIG
def queue(clusters: tuple[str, ...], skip_finished: bool, form: str, config: tuple[str, ...]) -> int:
    """List the jobs of clusters (by default of all that are up), oldest first, as the places tell."""
    from sky import client
    from sky.errors import SkyError
    from sky.state.clusters import ClusterStatus

    ses = session(config, form)
    names = clusters or [c.name for c in client.status() if c.status is ClusterStatus.UP]
    answers: dict[str, list[JobStatus]] = {}
    failed: SkyError | None = None
    errors: dict[str, str] = {}
    for name in names:
        try:
            jobs = client.queue(name, session=ses)
        except SkyError as error:
            if len(names) == 1:
                raise
            output.note(f"{name}: {error}")
            failed = error
            errors[name] = error.message
            continue
        answers[name] = [job for job in jobs if not (skip_finished and job.state.final)]
    if form == "json":
        output.document(
            "queue",
            clusters={name: [_job(job) for job in jobs] for name, jobs in answers.items()},
            errors=errors,
        )
    else:
        rows = [_job_row(name, job) for name, jobs in answers.items() for job in jobs]
        head = ["CLUSTER", "ID", "NAME", "STATE", "CODE", "SUBMITTED", "RAN", "NODES", "DEVICES"]
        output.line(output.table(head, rows) if rows else "no jobs")
        for name, jobs in answers.items():
            for job in jobs:
                if job.reason and job.state != "SUCCEEDED":
                    output.line(f"{name} {job.id}: {job.reason}")
    return failed.exit_code if failed else 0


def _job_row(cluster: str, job: JobStatus) -> list[str]:
    now = time.time()
    ran = "-"
    if job.started_at is not None:
        ran = output.age((job.ended_at or now) - job.started_at)
    return [
        cluster,
        job.id,
        job.name or "-",
        job.state,
        "-" if job.exit_code is None else str(job.exit_code),
        "-" if job.submitted_at is None else output.age(now - job.submitted_at) + " ago",
        ran,
        str(job.num_nodes),
        job.accelerators or "-",
    ]


def _job(job: JobStatus) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "exit_code": job.exit_code,
        "reason": job.reason,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "num_nodes": job.num_nodes,
        "devices": job.accelerators,
    }
