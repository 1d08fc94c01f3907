"""Clusters and clouds: what there is, giving it back, and reaching its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sky.client.common import silent
from sky.errors import SkyError, UsageError
from sky.state.clusters import Cluster, State
from sky.types import CredentialStatus, Host, TransferResult

if TYPE_CHECKING:
    from sky.launcher.lifecycle import Downed
    from sky.session import Session


def status(
    names: Sequence[str] = (),
    *,
    session: Session | None = None,
    refresh: bool = False,
    rebuild: bool = False,
    everyone: bool = False,
) -> list[Cluster]:
    """The clusters known here, newest first; `refresh` asks their clouds, `rebuild` finds unknown ones by tags."""
    with State() as state:
        if rebuild or refresh:
            from sky.launcher import lifecycle

            session = session or silent()
            if rebuild:
                for added in lifecycle.rebuild(session, state, everyone):
                    session.phase(f"found {added!r}")
        clusters = [state.require(name) for name in names] if names else state.all()
        if refresh:
            lifecycle.refresh(session, state, clusters)  # type: ignore[arg-type]
            clusters = [found for cluster in clusters if (found := state.get(cluster.name)) is not None]
        return clusters


def down(
    names: Sequence[str] = (), *, session: Session | None = None, every: bool = False, purge: bool = False
) -> list[Downed]:
    """Give clusters back and forget them. Absent ones are success for the cloud, and an error by name here."""
    from sky.launcher import lifecycle

    session = session or silent()
    with State() as state:
        clusters = state.all() if every else [state.require(name) for name in names]
        return lifecycle.down(session, state, clusters, purge)


def check(
    names: Sequence[str] = (), *, session: Session | None = None, seconds: float = 20.0
) -> dict[str, CredentialStatus]:
    """Whether each cloud can be used, all asked at once; a broken or late one is a status as well."""
    from sky.fanout import fan_out

    session = session or silent()
    registry = session.registry
    wanted = [registry.canonical("cloud", name) for name in names] or list(registry.names("cloud"))

    def ask(name: str) -> CredentialStatus:
        plugin = session.registry.cloud(name)
        ctx = session.context(plugin, seconds)
        result: CredentialStatus = plugin.call("sky_check_credentials", ctx=ctx)
        return result

    for name in wanted:
        if not any(entry.name == name for entry in registry.entries("cloud")):
            registry.cloud(name)  # raises, with what is installed
    found = {}
    for name, answer in fan_out({n: (lambda n=n: ask(n)) for n in wanted}, seconds).items():  # type: ignore[misc]
        if answer.value is not None:
            found[name] = answer.value
        elif isinstance(answer.error, SkyError):
            found[name] = CredentialStatus(ok=False, reason=answer.error.message, remedy=answer.error.remedy)
        else:
            found[name] = CredentialStatus(ok=False, reason=f"no answer within {seconds:g} s")
    return found


def host_of(state: State, cluster_name: str, node: int = 0) -> Host:
    """A node of a cluster by its rank. Raises `UsageError` if there is no such node."""
    from sky.launcher import jobs

    hosts = jobs.place_of(state.require(cluster_name)).hosts
    if not 0 <= node < len(hosts):
        from sky.wording import counted

        nodes = counted(len(hosts), "node")
        raise UsageError(f"cluster {cluster_name!r} has {nodes}, numbered from 0: there is no {node}")
    return hosts[node]


def shell(
    cluster_name: str, command: Sequence[str] = (), *, session: Session | None = None, node: int = 0
) -> int:
    """An interactive shell, or a command, on a node, on the caller's terminal; its exit code."""
    from sky.errors import NotSupported
    from sky.types import Command

    session = session or silent()
    with State() as state:
        host = host_of(state, cluster_name, node)
    runner = session.registry.runner(host.transport)
    if not runner.has("sky_shell"):
        raise NotSupported(f"{host.transport} gives no shell", remedy=f"sky exec {cluster_name} -- COMMAND")
    # As any ssh does: one word is a line for the shell there, several are a program and its arguments.
    words = ("sh", "-c", *command) if len(command) == 1 else tuple(command)
    argv = Command(argv=words) if words else None
    code: int = runner.call("sky_shell", ctx=session.context(runner), host=host, command=argv)
    return code


def rsync(
    source: str,
    target: str,
    *,
    session: Session | None = None,
    delete: bool = False,
    node: int | None = None,
) -> TransferResult:
    """Sync files up or down: one of the two is `CLUSTER:PATH`, the other a local path. Blocks.

    Up goes to every node, or to `node`; down comes from rank 0, or from `node`. The result is of all nodes together.
    """
    from sky.launcher import files
    from sky.types import Transfer

    session = session or silent()
    if not source or not target:
        raise UsageError("an empty path", remedy="'.' is the current directory; quote what may be empty")
    with State() as state:
        up, down_ = _remote(state, target), _remote(state, source)
        if up is None and down_ is None:
            for text in (source, target):
                name, colon, _ = text.partition(":")
                if colon and "/" not in name and not Path(text).exists():
                    state.require(name)  # raises, with the nearest name
        if (up is None) == (down_ is None):
            raise UsageError(
                "one side must be CLUSTER:PATH, the other a local path", remedy="sky rsync ./data dev:data"
            )
        cluster, path = up or down_ or ("", "")
        hosts = _hosts(state, cluster, node if up else node or 0)
    local = str(Path(source if up else target).expanduser().absolute())
    if not up and (target.endswith("/") or Path(local).is_dir()):
        local += "/"  # a file lands inside; a directory becomes it all the same
    if up and not Path(local).exists():
        raise UsageError(f"there is no {source}", remedy="the source is a local path here")
    transfer = (
        Transfer(direction="up", source=local, target=path, delete=delete)
        if up
        else Transfer(direction="down", source=path, target=local, delete=delete)
    )
    done = files.everywhere(session, hosts, [transfer])
    return TransferResult(
        files_sent=sum(result.files_sent for result in done),
        bytes_sent=sum(result.bytes_sent for result in done),
        method=", ".join(dict.fromkeys(result.method for result in done)),
    )


def _hosts(state: State, cluster_name: str, node: int | None) -> tuple[Host, ...]:
    """One node of a cluster, or all. Raises `UsageError` if there is no such node."""
    if node is not None:
        return (host_of(state, cluster_name, node),)
    from sky.launcher import jobs

    return jobs.place_of(state.require(cluster_name)).hosts


def _remote(state: State, text: str) -> tuple[str, str] | None:
    """(cluster, path) if `text` names a cluster we know; a relative path is below the home directory."""
    name, colon, path = text.partition(":")
    if not colon or "/" in name or state.get(name) is None:
        return None
    if path.endswith("/."):
        path = path[:-1]
    return name, path if path.startswith(("/", "~")) else f"~/{path}"
