"""`sky down`, `sky check`, `sky ssh` and `sky rsync`."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from sky.cli import output
from sky.cli.options import CONFIG, OUTPUT, YES, ask, cluster_names, session


@click.command()
@click.argument("clusters", nargs=-1, shell_complete=cluster_names)
@click.option("-a", "--all", "every", is_flag=True, help="Every cluster.")
@click.option(
    "-p", "--purge", is_flag=True, help="Forget it even if its cloud can't be reached: it may go on costing."
)
@YES
@OUTPUT
@CONFIG
def down(
    clusters: tuple[str, ...], every: bool, purge: bool, yes: bool, form: str, config: tuple[str, ...]
) -> int:
    """Give clusters back: everything on them is lost."""
    from sky import client
    from sky.errors import UsageError

    ses = session(config, form)
    if clusters and every:
        raise UsageError("--all and a name at once: which is meant?", remedy="sky down NAME, or --all")
    if not clusters and not every:
        raise UsageError("which cluster?", remedy="sky down NAME, or --all")
    names = [c.name for c in client.status(() if every else clusters)]
    if names and not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "giving clusters back needs a yes, and there is no terminal to ask on", remedy="add -y"
            )
        if not ask(f"Give back {', '.join(names)}?"):
            return 123
    done = client.down(names, session=ses, purge=purge)
    failed = [result for result in done if result.error is not None]
    if form == "json":
        output.document("down", clusters={d.name: d.error.message if d.error else "gone" for d in done})
    else:
        for result in done:
            if result.error is None:
                output.line(f"{result.name}: gone")
            else:
                output.note(f"{output.red(result.name + ':')} {result.error}")
    return failed[0].error.exit_code if failed and failed[0].error else 0


@click.command()
@click.argument("clouds", nargs=-1)
@click.option("-v", "--verbose", is_flag=True, help="More about each.")
@OUTPUT
@CONFIG
def check(clouds: tuple[str, ...], verbose: bool, form: str, config: tuple[str, ...]) -> int:
    """Ask every cloud whether it can be used; exit 0 if at least one can (if one is named: if it can)."""
    from sky import client

    ses = session(config, form)
    found = client.check([name.split("/")[0] for name in clouds], session=ses)
    if form == "json":
        output.document("check", clouds={name: asdict(status) for name, status in found.items()})
    else:
        for name, status in found.items():
            output.line(f"{name}: {'ready' if status.ok else 'not usable: ' + status.reason}")
            if status.remedy and not status.ok:
                output.line(f"  {status.remedy}")
            for detail in status.details if verbose or not status.ok or clouds else ():
                output.line(f"  {detail}")
    good = [status.ok for status in found.values()]
    return 0 if (all(good) if clouds else any(good)) else 121


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("cluster", shell_complete=cluster_names)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--node", type=int, default=0, help="Its rank; 0 is the first.")
@CONFIG
def ssh(cluster: str, command: tuple[str, ...], node: int, config: tuple[str, ...]) -> int:
    """Open a shell on a node, or run a command there on this terminal: one word is a line for its shell."""
    from sky import client

    return client.shell(cluster, command, session=session(config), node=node)


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--delete", is_flag=True, help="Remove what the source doesn't have.")
@click.option("--node", type=int, help="Only this one, by its rank; 0 is the first.")
@OUTPUT
@CONFIG
def rsync(
    source: str, target: str, delete: bool, node: int | None, form: str, config: tuple[str, ...]
) -> None:
    """Sync SOURCE to TARGET; one of them is CLUSTER:PATH. With --delete they become equal.

    Files go up to every node, and come down from the first.

    \b
    sky rsync ./data dev:data
    sky rsync dev:sky_workdir/out ./out
    """
    from sky import client
    from sky.wording import counted

    result = client.rsync(source, target, session=session(config, form), delete=delete, node=node)
    if form == "json":
        output.document("rsync", **asdict(result))
    else:
        files, size = counted(result.files_sent, "file"), counted(result.bytes_sent, "byte")
        output.note(f"{files}, {size} ({result.method})")
