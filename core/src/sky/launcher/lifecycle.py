"""What exists, asked of the clouds: refresh, rebuild from tags, and giving clusters back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sky.errors import CredentialsError, SkyError
from sky.fanout import fan_out
from sky.launcher import names, provision, reach
from sky.state.clusters import Cluster, ClusterStatus, State, locked
from sky.types import Allocation, InstanceState

if TYPE_CHECKING:
    from sky.session import Session

ASK_SECONDS = 20.0


def refresh(session: Session, state: State, clusters: list[Cluster]) -> None:
    """Ask every cloud about its clusters, all at once, and note what they say. Blocks.

    A cloud that can't be asked changes nothing and is a warning: what isn't known to be gone may cost
    money. What ended by itself, and has nothing to lose any more, is removed from the cloud.
    """
    calls = {cluster.name: _asker(session, cluster) for cluster in clusters}
    answers = fan_out(calls, ASK_SECONDS)
    session.cancel.check()
    for cluster in clusters:
        answer = answers[cluster.name]
        if answer.value is None:
            why = "no answer" if answer.late else getattr(answer.error, "message", str(answer.error))
            session.not_asked[cluster.name] = why
            session.warn(f"{cluster.name}: {cluster.cloud} can't be asked: {why}")
            continue
        status, reason, exists = answer.value
        if status is ClusterStatus.INIT and cluster.status is ClusterStatus.UP and cluster.hosts:
            status = ClusterStatus.UP  # a node of it can't be seen now: the others go on
        if not exists and cluster.status is ClusterStatus.INIT and cluster.allocation is None:
            reason = "its launch was cut short before anything was created"
        state.update(
            cluster.name, status=status, reason=reason or cluster.reason * (status is ClusterStatus.FAILED)
        )
        if status is ClusterStatus.ENDED and exists:
            _remove_ended(session, cluster)


def _asker(session: Session, cluster: Cluster) -> Callable[[], tuple[ClusterStatus, str, bool]]:
    return lambda: provision.status_of(session, cluster)


def _remove_ended(session: Session, cluster: Cluster) -> None:
    """What ended costs nothing, and is only in the way; the row stays, with the reason, until `down`."""
    cloud = session.registry.cloud(cluster.cloud)
    allocation = cluster.allocation or provision.unconfirmed(cluster)
    try:
        cloud.call("sky_terminate_instances", ctx=session.context(cloud, ASK_SECONDS), allocation=allocation)
    except SkyError as error:
        session.warn(f"{cluster.name}: what is left of it can't be removed: {error.message}")


def rebuild(session: Session, state: State, everyone: bool) -> list[str]:
    """Find clusters by their tags in every enabled cloud and write rows for those unknown. Blocks.

    Returns the names added. Names that are taken by another cluster get the id's random part appended.
    """
    wanted = {} if everyone else {names.TAG_USER: names.user()}
    known = {cluster.id for cluster in state.all()}
    calls = {name: _lister(session, name, wanted) for name in session.registry.names("cloud")}
    added = []
    for cloud_name, answer in fan_out(calls, ASK_SECONDS).items():
        if answer.value is None:
            why = "no answer" if answer.late else getattr(answer.error, "message", str(answer.error))
            # without any login there is no cloud to ask, which is how most are installed
            if type(answer.error) is not CredentialsError:
                session.not_asked[cloud_name] = why
            session.warn(f"{cloud_name} can't be asked: {why}")
            continue
        for allocation in answer.value:
            if allocation.id not in known and not _over(session, allocation):
                added.append(_adopt(session, state, allocation))
    return added


def _lister(session: Session, name: str, tags: dict[str, str]) -> Callable[[], list[Allocation]]:
    def ask() -> list[Allocation]:
        cloud = session.registry.cloud(name)
        return list(cloud.call("sky_list_clusters", ctx=session.context(cloud, ASK_SECONDS), tags=tags))

    return ask


def _over(session: Session, allocation: Allocation) -> bool:
    """Whether it has ended, or is on its way out: nothing to find again. Ours is removed from the cloud."""
    cloud = session.registry.cloud(allocation.cloud)
    ctx = session.context(cloud, ASK_SECONDS)
    try:
        nodes = cloud.call("sky_query_instances", ctx=ctx, allocation=allocation)
        if any(node.state is not InstanceState.ENDED for node in nodes):
            return False
        if allocation.tags.get(names.TAG_USER) == names.user():
            cloud.call("sky_terminate_instances", ctx=ctx, allocation=allocation)
    except SkyError:
        return False  # it's taken in, and `_adopt` says what is wrong with it
    return True


def _adopt(session: Session, state: State, allocation: Allocation) -> str:
    name = allocation.cluster_name
    if state.get(name) is not None:
        name = f"{name}-{allocation.id[-4:]}"
    spec = json.loads(allocation.tags.get(names.TAG_SPEC, "{}")) or {"num_nodes": allocation.num_nodes}
    state.add(name, allocation.id, allocation.cloud, spec, "", "found by its tags")
    state.update(name, allocation=allocation)
    cluster = state.require(name)
    cloud = session.registry.cloud(allocation.cloud)
    try:
        ctx = session.context(cloud, ASK_SECONDS)
        state.update(name, hosts=tuple(cloud.call("sky_cluster_hosts", ctx=ctx, allocation=allocation)))
        status, reason, _ = provision.status_of(session, state.require(name))
        state.update(name, status=status, reason=reason)
        reach.publish(session, state.require(name))
    except SkyError as error:
        state.update(name, reason=error.message)
        session.warn(f"{cluster.name}: found, but its hosts can't be told: {error.message}")
    return name


@dataclass(frozen=True, slots=True)
class Downed:
    """What became of one cluster that was to be given back."""

    name: str
    error: SkyError | None = None


def down(session: Session, state: State, clusters: list[Cluster], purge: bool) -> list[Downed]:
    """Give clusters back, all at once. Blocks. With `purge`, forget also what can't be reached."""

    def one(name: str) -> None:
        with State() as own, locked(name, session.cancel, _teller(session, name)):
            cluster = own.get(name)
            if cluster is None:
                return
            try:
                provision.terminate(session, own, cluster)
            except SkyError as error:
                if not purge:
                    raise
                session.warn(f"{name}: forgotten, though it may still exist and cost money: {error.message}")
                own.remove(name)

    calls = {cluster.name: (lambda name=cluster.name: one(name)) for cluster in clusters}
    result = []
    for name, answer in fan_out(calls, provision.PROVISION_SECONDS).items():
        error = answer.error
        if answer.late:
            error = SkyError(f"{name}: not done in time; it may still exist", remedy=f"sky down {name}")
        if error is not None and not isinstance(error, SkyError):
            raise error
        result.append(Downed(name, error))
    return result


def _teller(session: Session, name: str) -> Callable[[str], None]:
    return lambda holder: session.phase(f"waiting for {holder}, which holds {name!r}")
