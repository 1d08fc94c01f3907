"""Asking every allowed context, live and at once, whether it could run a request."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

from sky.api import (
    Context,
    Feasibility,
    NotPermitted,
    Offer,
    Rejection,
    Request,
    SkyError,
    TimedOut,
    ask_each,
    limited,
)
from sky_kubernetes import api_client, feasibility, kubeconfig, parallel
from sky_kubernetes.rejections import CLOUD
from sky_kubernetes.settings import allowed_contexts, load_kubeconfig, settings

_FEASIBLE_SECONDS = 5.0
_PODS_SHARE = 0.8
"""Of the time there is. A cluster may have more pods than can be listed in time; then its nodes alone must do."""
_CACHED = "0"
"""The resource version that lets the API server answer from memory: a moment old, and many times faster."""
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def feasible(ctx: Context, request: Request) -> Feasibility:
    """Offers and rejections of every allowed context; one that gives no answer in time is a rejection."""
    refusals = feasibility.refuse(request)
    if refusals:
        return Feasibility(rejections=tuple(refusals))
    names: Sequence[str] = allowed_contexts(ctx, load_kubeconfig(ctx))
    if request.region is not None:
        if request.region not in names:
            reason = "isn't an allowed context (kubernetes.allowed_contexts; by default the current one)"
            return Feasibility(rejections=(_context_rejection(request.region, "context", reason, names),))
        names = (request.region,)
    found = ask_each(ctx, names, functools.partial(_survey, request), _FEASIBLE_SECONDS, kubeconfig.called)
    answers = dict(zip(names, found, strict=True))
    offers: list[Offer] = []
    rejections: list[Rejection] = []
    for name, answer in answers.items():
        if isinstance(answer, SkyError):
            reason = "; ".join(filter(None, (answer.message, answer.remedy)))
            rejections.append(_context_rejection(name, answer.kind, reason))
        else:
            offers += answer.offers
            rejections += answer.rejections
    if not names:
        rejections.append(_context_rejection(CLOUD, "context", "no context is allowed"))
    offers.sort(key=lambda offer: offer.price_usd_per_hour)
    return Feasibility(offers=tuple(offers), rejections=tuple(rejections))


def _survey(request: Request, ctx: Context, name: str) -> Feasibility:
    ref = load_kubeconfig(ctx).context(name)
    nodes, pods = parallel.together(
        functools.partial(_nodes, ctx, name), functools.partial(_all_pods, ctx, name)
    )
    return feasibility.answer(settings(ctx, ref), request, nodes, pods)


def _nodes(ctx: Context, name: str) -> list[dict[str, Any]] | None:
    with api_client.connect(ctx, name) as api:
        try:
            return list(api.list_all("/api/v1/nodes", resourceVersion=_CACHED)["items"])
        except NotPermitted:
            return None


def _all_pods(ctx: Context, name: str) -> list[dict[str, Any]] | None:
    """Pods of all namespaces that may hold something; None if that may not be known, or not in time."""
    assert ctx.deadline is not None
    seconds = _PODS_SHARE * (ctx.deadline - time.monotonic())
    with api_client.connect(limited(ctx, seconds), name) as api:
        try:
            query = {"resourceVersion": _CACHED, "fieldSelector": _UNFINISHED}
            return list(api.list_all("/api/v1/pods", **query)["items"])
        except (NotPermitted, TimedOut):
            return None


def _context_rejection(subject: str, rule: str, reason: str, near: Sequence[str] = ()) -> Rejection:
    return Rejection(cloud=CLOUD, subject=subject, rule=rule, reason=reason, near_misses=tuple(near))
