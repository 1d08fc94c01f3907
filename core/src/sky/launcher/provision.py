"""Getting a cluster: the row first, then each call between an intent and its outcome, then the next offer.

Whatever ends this process, the row or the tags say what may exist; a repeat of the launch adopts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sky.errors import (
    Cancelled,
    CredentialsError,
    NothingFeasible,
    ProvisioningFailed,
    SkyError,
    TimedOut,
    Unreachable,
    UsageError,
)
from sky.launcher import names, reach
from sky.launcher.candidates import Candidate
from sky.state.clusters import Cluster, ClusterStatus, State
from sky.types import (
    Accelerator,
    Allocation,
    Host,
    InstanceState,
    InstanceStatus,
    LaunchSpec,
    Request,
)
from sky.wording import counted

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session
    from sky.task.model import Task

PROVISION_SECONDS = 900.0
"""The deadline of creating one cluster, unless the cloud's own configuration is shorter."""
CALL_SECONDS = 60.0


def create(
    session: Session, state: State, name: str, task: Task, candidates: Sequence[Candidate], use: str
) -> Cluster:
    """Create cluster `name` from the first candidate that can be had. Blocks.

    What was begun for a candidate that failed is given back before the next is tried, and when the user
    cancels. Raises the last error, with those of the earlier candidates in its message.
    """
    failed: list[str] = []
    skipped: set[tuple[str, str | None, str | None]] = set()
    last: SkyError | None = None
    for candidate in candidates:
        offer = candidate.offer
        if any(_covers(scope, candidate) for scope in skipped):
            continue
        if last is not None:
            session.warn(f"{failed[-1]}; trying the next")
        spec = new_spec(name, task, candidate)
        state.add(name, spec.cluster_id, offer.cloud, _stored(spec), _identity(session, offer.cloud), use)
        try:
            return bring_up(session, state, spec, task.config)
        except (NothingFeasible, CredentialsError, Unreachable, ProvisioningFailed, TimedOut) as error:
            give_back_after(session, state, name, error)
            failed.append(f"{offer.cloud} {offer.region}: {error.message}")
            last = error
            if isinstance(error, ProvisioningFailed) and not error.retryable:
                break  # an image that can't be pulled can't be pulled elsewhere either
            if error.scope:
                zone = offer.zone if error.scope == "zone" else None
                region = offer.region if error.scope in ("zone", "region") else None
                skipped.add((offer.cloud, region, zone))
        except BaseException as error:
            give_back_after(session, state, name, error)
            raise
    assert last is not None, "there is a candidate"
    if len(failed) > 1:
        raise NothingFeasible("no candidate could be had: " + "; ".join(failed), remedy=last.remedy)
    raise last


def resume(session: Session, state: State, cluster: Cluster, task: Task | None) -> Cluster:
    """Finish a creation that was cut short: the same id, so that nothing is made twice. Blocks."""
    session.phase(f"taking up the launch of {cluster.name!r} that was cut short")
    offer = cluster.offer
    if offer is None:
        raise UsageError(
            f"cluster {cluster.name!r} has no record of its offer", remedy=f"sky down {cluster.name}"
        )
    spec = LaunchSpec(
        cluster_id=cluster.id,
        cluster_name=cluster.name,
        user=names.user(),
        num_nodes=cluster.num_nodes,
        offer=offer,
        request=request_from(cluster.spec["request"]),
        tags=names.tags(cluster.id, cluster.name, cluster.spec),
    )
    return bring_up(session, state, spec, task.config if task else {})


def _identity(session: Session, cloud_name: str) -> str:
    """Who creates it, for the record; a cloud that can't tell delays nothing and refuses later by itself."""
    cloud = session.registry.cloud(cloud_name)
    if not cloud.has("sky_identity"):
        return ""
    try:
        return str(cloud.call("sky_identity", ctx=session.context(cloud, CALL_SECONDS)) or "")
    except (CredentialsError, Unreachable):
        return ""


def bring_up(session: Session, state: State, spec: LaunchSpec, task_config: Any) -> Cluster:
    """Create, wait, and learn the hosts; the row is UP afterwards. Blocks; may be repeated."""
    name, key = spec.cluster_name, spec.cluster_id
    cloud = session.registry.cloud(spec.offer.cloud)

    def context(seconds: float = CALL_SECONDS) -> Any:
        return session.context(cloud, seconds, task_config)

    if cloud.has("sky_bootstrap"):
        with state.intent(name, key, "bootstrap"):
            cloud.call("sky_bootstrap", ctx=context(), spec=spec)
    session.cancel.check()
    session.phase(f"creating {name!r} on {spec.offer.cloud} {spec.offer.region}".rstrip())
    with state.intent(name, key, "run_instances", spec.offer.instance_type):
        allocation: Allocation = cloud.call("sky_run_instances", ctx=context(), spec=spec)
        state.update(name, allocation=allocation)
    session.phase(f"waiting for {counted(spec.num_nodes, 'node')}")
    with state.intent(name, key, "wait_instances"):
        cloud.call("sky_wait_instances", ctx=context(PROVISION_SECONDS), allocation=allocation)
    hosts: tuple[Host, ...] = tuple(cloud.call("sky_cluster_hosts", ctx=context(), allocation=allocation))
    state.update(name, hosts=hosts, status=ClusterStatus.UP, reason="")
    cluster = state.require(name)
    reach.publish(session, cluster)
    return cluster


def terminate(session: Session, state: State, cluster: Cluster) -> None:
    """Give everything of a cluster back, and forget it once the cloud has accepted that. Blocks; repeatable."""
    cloud = session.registry.cloud(cluster.cloud)
    allocation = cluster.allocation or unconfirmed(cluster)
    # Before the first call: whatever ends this process, nobody takes it for whole any more.
    now, begun = state.get(cluster.name), "giving it back was begun, and not finished"
    if now is not None and now.status is not ClusterStatus.FAILED:
        state.update(cluster.name, status=ClusterStatus.FAILED, reason=begun)
    with state.intent(cluster.name, cluster.id, "terminate_instances"):
        cloud.call("sky_terminate_instances", ctx=session.context(cloud, CALL_SECONDS), allocation=allocation)
    reach.withdraw(session, cluster, allocation)
    reach.disconnect(session, cluster)
    state.remove(cluster.name)


def unconfirmed(cluster: Cluster) -> Allocation:
    """What may exist of a cluster whose creation was cut short before its cloud had answered."""
    offer = cluster.offer
    return Allocation(
        id=cluster.id,
        cloud=cluster.cloud,
        cluster_name=cluster.name,
        tags=names.tags(cluster.id, cluster.name, cluster.spec),
        num_nodes=cluster.num_nodes,
        offer=offer,
        spec=offer.spec if offer else {},
    )


def give_back_after(session: Session, state: State, name: str, error: BaseException) -> None:
    """A creation failed or was cancelled: give back what it began. The row stays if that fails, too."""
    cluster = state.get(name)
    if cluster is None:
        return
    reason = error.message if isinstance(error, SkyError) else type(error).__name__
    state.update(name, status=ClusterStatus.FAILED, reason=f"launch: {reason}")
    if isinstance(error, Cancelled):
        session.phase(f"cancelled: giving back {name!r}")
    try:
        with session.uncancelled():
            terminate(session, state, cluster)
    except SkyError as second:
        session.warn(f"{name!r} could not be given back ({second.message}); when it can be: sky down {name}")


def status_of(session: Session, cluster: Cluster) -> tuple[ClusterStatus, str, bool]:
    """(status, reason, whether anything of it exists), asked of the cloud now. Blocks."""
    cloud: Plugin = session.registry.cloud(cluster.cloud)
    allocation = cluster.allocation or unconfirmed(cluster)
    found: Sequence[InstanceStatus] = cloud.call(
        "sky_query_instances", ctx=session.context(cloud, CALL_SECONDS), allocation=allocation
    )
    if not found:
        return ClusterStatus.ENDED, "nothing of it exists any more", False
    reasons = "; ".join(
        dict.fromkeys(s.reason for s in found if s.reason and s.state != InstanceState.RUNNING)
    )
    states = {status.state for status in found}
    if states == {InstanceState.RUNNING} and len(found) >= cluster.num_nodes:
        return (ClusterStatus.UP if cluster.hosts else ClusterStatus.INIT), "", True
    for state, status in (
        (InstanceState.FAILED, ClusterStatus.FAILED),
        (InstanceState.ENDED, ClusterStatus.ENDED),
        (InstanceState.STOPPED, ClusterStatus.STOPPED),
        (InstanceState.PENDING, ClusterStatus.INIT),
    ):
        if state in states:
            return status, reasons, True
    return ClusterStatus.FAILED, f"{len(found)} of {cluster.num_nodes} nodes exist", True


# --- what is stored of a request --------------------------------------------------------------------


def new_spec(name: str, task: Task, candidate: Candidate) -> LaunchSpec:
    """What a cloud would be asked for; each call has another cluster id."""
    key = names.cluster_id(name)
    spec = LaunchSpec(
        cluster_id=key,
        cluster_name=name,
        user=names.user(),
        num_nodes=task.num_nodes,
        offer=candidate.offer,
        request=candidate.request,
    )
    return replace(spec, tags=names.tags(key, name, _stored(spec)))


def _stored(spec: LaunchSpec) -> dict[str, Any]:
    request = asdict(replace(spec.request, config={}))
    return {"offer": asdict(spec.offer), "request": request, "num_nodes": spec.num_nodes}


def request_from(data: dict[str, Any]) -> Request:
    """A stored request; fields of a newer version are ignored."""
    from sky.types import Quantity

    values = {key: value for key, value in data.items() if key in Request.__dataclass_fields__}
    for key in ("cpus", "memory"):
        values[key] = Quantity(**values[key]) if values.get(key) else None
    values["accelerator"] = Accelerator(**values["accelerator"]) if values.get("accelerator") else None
    values["ports"] = tuple(values.get("ports", ()))
    return Request(**values)


def _covers(scope: tuple[str, str | None, str | None], candidate: Candidate) -> bool:
    place = candidate.offer.cloud, candidate.offer.region, candidate.offer.zone
    return all(wanted in (None, has) for wanted, has in zip(scope, place, strict=True))
