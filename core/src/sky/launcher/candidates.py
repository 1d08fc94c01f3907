"""Where could this task run, and what would it cost: every enabled cloud asked at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from sky.errors import (
    ConnectionLost,
    CredentialsError,
    LoginExpired,
    NothingFeasible,
    NotPermitted,
    SkyError,
    TimedOut,
    Unreachable,
    UsageError,
)
from sky.fanout import fan_out
from sky.launcher import refusals
from sky.types import CloudInfo, Feasibility, Offer, Rejection, Request

if TYPE_CHECKING:
    from sky.registry.plugins import Plugin
    from sky.session import Session
    from sky.task.model import Task

FEASIBLE_SECONDS = 5.0
"""How long a cloud may take to answer, unless `--wait` says otherwise."""

_NEEDS = (
    ("spot", lambda r: r.use_spot, "use_spot"),
    ("ports", lambda r: bool(r.ports), "ports"),
    ("multi_node", lambda r: r.num_nodes > 1, "num_nodes"),
    ("image", lambda r: r.image_id is not None, "image_id"),
    ("disk", lambda r: r.disk_size_gb is not None or r.disk_tier is not None, "disk_size"),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One offer, and the alternative of the task that it answers."""

    offer: Offer
    request: Request

    @property
    def price_usd_per_hour(self) -> float:
        """For all nodes together."""
        return self.offer.price_usd_per_hour * self.request.num_nodes


class Failure(NamedTuple):
    """A cloud that failed to answer, or was late."""

    cloud: str
    why: str
    kind: str
    """`SkyError.kind` of what it failed with."""


_COULD_NOT_ASK = {
    error.kind: error
    for error in (
        CredentialsError,
        LoginExpired,
        NotPermitted,
        Unreachable,
        ConnectionLost,
        TimedOut,
        UsageError,
    )
}


@dataclass(frozen=True, slots=True)
class Candidates:
    """What all clouds said: the chosen first, the others in the order in which they would be tried."""

    rows: tuple[Candidate, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    failures: tuple[Failure, ...] = field(default=())

    def require(self) -> Candidate:
        """The first. Raises `NothingFeasible` with the nearest thing that would do; of several reasons, a line each.

        Where nobody could be asked at all, what kept the first from answering is raised instead. A place
        below a cloud that couldn't be asked is a rejection whose rule is the kind of the error.
        """
        if self.rows:
            return self.rows[0]
        kinds = [failure.kind for failure in self.failures] + [r.rule for r in self.rejections]
        if kinds and all(kind in _COULD_NOT_ASK for kind in kinds):
            told = refusals.reasons(self.failures, self.rejections)
            raise _COULD_NOT_ASK[kinds[0]]("\n".join(told))
        if not kinds:
            raise NothingFeasible(
                "nothing can run this task: no cloud is enabled", remedy="sky check says what is enabled"
            )
        near = refusals.would_do(self.rejections)
        raise NothingFeasible(
            refusals.message("nothing can run this task", self.failures, self.rejections),
            remedy=f"would do: {near}" if near else "sky check says what is enabled",
        )


def find(session: Session, task: Task, seconds: float = FEASIBLE_SECONDS) -> Candidates:
    """Ask every cloud that the task allows. Blocks for at most about `seconds`. Raises `UsageError`."""
    requests = tuple(replace(request, cloud=_canonical(session, request.cloud)) for request in task.resources)
    answers = fan_out(
        {
            name: lambda name=name: _ask(session, name, requests, task, seconds)  # type: ignore[misc]
            for name in _clouds(session, requests)
        },
        seconds,
    )
    session.cancel.check()
    rows: list[tuple[tuple[object, ...], Candidate]] = []
    rejections: list[Rejection] = []
    failures: list[Failure] = []
    for name, answer in answers.items():
        if answer.late:
            late = f"no answer within {seconds:g} s (--wait waits longer)"
            failures.append(Failure(name, late, TimedOut.kind))
        elif answer.error is not None:
            kind = getattr(answer.error, "kind", SkyError.kind)
            failures.append(Failure(name, _why(answer.error), kind))
        elif answer.value is not None:
            info, replies = answer.value
            for number, (request, reply) in enumerate(replies):
                rejections += reply.rejections
                for place, offer in enumerate(reply.offers):
                    candidate = Candidate(offer, request)
                    reluctant = info.last_resort and request.cloud is None
                    order = (number,) if task.ordered else ()
                    rows.append(((reluctant, *order, candidate.price_usd_per_hour, name, place), candidate))
    rows.sort(key=lambda row: row[0])
    return Candidates(tuple(row for _, row in rows), tuple(rejections), tuple(failures))


def _why(error: BaseException) -> str:
    if isinstance(error, SkyError):
        return error.message + (f" ({error.remedy})" if error.remedy else "")
    return f"{type(error).__name__}: {error}"


def _canonical(session: Session, name: str | None) -> str | None:
    if name is None:
        return None
    return session.registry.canonical("cloud", name.lower())


def _clouds(session: Session, requests: Iterable[Request]) -> list[str]:
    """Names to ask. A cloud that the task names must exist; one that's broken shows as a failure."""
    enabled = session.registry.names("cloud")
    allowed = session.config.get("allowed_clouds")
    if allowed is not None:
        enabled = tuple(name for name in enabled if name in {_canonical(session, str(a)) for a in allowed})
    wanted = {request.cloud for request in requests}
    if None in wanted:
        return list(enabled)
    named = sorted(name for name in wanted if name is not None)
    if len(named) == 1:
        session.registry.cloud(named[0])  # raises what is wrong with it: there is no other to ask
    if len(named) == 1 and named[0] not in enabled:
        raise UsageError(f"cloud {named[0]!r} is not in allowed_clouds of the configuration")
    return named


def _ask(
    session: Session, name: str, requests: tuple[Request, ...], task: Task, seconds: float
) -> tuple[CloudInfo, list[tuple[Request, Feasibility]]]:
    plugin = session.registry.cloud(name)
    info: CloudInfo = plugin.call("sky_cloud_info")
    context = session.context(plugin, seconds, task.config)
    replies = []
    for request in requests:
        if request.cloud not in (None, name):
            continue
        request = _at_levels(request, info)
        refused = _lacking(name, info, request)
        reply = Feasibility(rejections=refused) if refused else _feasible(plugin, context, request)
        replies.append((request, _within_price(reply, request)))
    return info, replies


def _at_levels(request: Request, info: CloudInfo) -> Request:
    """A cloud with one level below it takes all that was typed after its name: names may hold slashes."""
    if len(info.levels) == 1 and request.region and request.zone:
        return replace(request, region=f"{request.region}/{request.zone}", zone=None)
    return request


def _feasible(plugin: Plugin, context: object, request: Request) -> Feasibility:
    reply: Feasibility = plugin.call("sky_feasible", ctx=context, request=request)
    return reply


def _lacking(name: str, info: CloudInfo, request: Request) -> tuple[Rejection, ...]:
    return tuple(
        Rejection(
            cloud=name,
            subject=name,
            rule="capability",
            reason=f"{info.title} has no {capability.replace('_', ' ')} ({fieldname} asks for it)",
        )
        for capability, wanted, fieldname in _NEEDS
        if wanted(request) and capability not in info.capabilities
    )


def _within_price(reply: Feasibility, request: Request) -> Feasibility:
    limit = request.max_price_usd_per_hour
    if limit is None:
        return reply
    kept = tuple(o for o in reply.offers if o.price_usd_per_hour * request.num_nodes <= limit)
    over = tuple(
        Rejection(
            cloud=offer.cloud,
            subject=offer.instance_type or offer.region,
            rule="price",
            reason=f"costs ${offer.price_usd_per_hour * request.num_nodes:g} an hour, over max_hourly_cost",
            near_misses=(f"max_hourly_cost: {offer.price_usd_per_hour * request.num_nodes:g}",),
        )
        for offer in reply.offers
        if offer not in kept
    )
    return Feasibility(offers=kept, rejections=reply.rejections + over)
