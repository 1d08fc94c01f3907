"""Waiting for pods to run: by a watch, saying why it still waits, and giving up as soon as it is certain."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sky.api import (
    Allocation,
    CancelToken,
    Context,
    Event,
    InstanceState,
    NoCapacity,
    NotPermitted,
    ProvisioningFailed,
    SkyError,
    TimedOut,
    counted,
)
from sky_kubernetes import api_client, labels, pinned
from sky_kubernetes.pod_access import rank_of
from sky_kubernetes.settings import settings_of
from sky_kubernetes.status import NO_SCHEDULER_YET, Verdict, judge, one_line

_TROUBLE_SECONDS = 15.0
"""How long what may pass by itself (a registry's hiccup, a secret not made yet) is given."""
_PULL_FAILURES = 2
_EVENTS_AFTER_SECONDS = 1.0
_TICK_SECONDS = 0.5
# Said by the pod's own status as well, or no news.
_KNOWN_EVENTS = frozenset(
    ("Scheduled", "Pulled", "Created", "Started", "FailedScheduling", "Failed", "BackOff", "Killing")
)


def wait_instances(ctx: Context, allocation: Allocation) -> None:
    """Return when every pod's main container runs. See `sky_wait_instances`."""
    with pinned.connected(ctx, allocation) as api:
        timeout = settings_of(ctx, allocation.spec["context"]).provision_timeout_seconds
        path = f"/api/v1/namespaces/{allocation.spec['namespace']}/pods"
        selector = labels.own_selector(allocation.id)
        listing = api.list_all(path, labelSelector=selector)
        wait = _Wait(ctx, allocation, timeout)
        for pod in listing["items"]:
            wait.see(pod)
        wait.check_all_there()
        if wait.done:
            return
        version = listing["metadata"]["resourceVersion"]
        with _Feed(api) as feed:
            feed.follow("pod", path, labelSelector=selector, resourceVersion=version)
            _until_done(wait, feed, path.replace("/pods", "/events"))


def _until_done(wait: _Wait, feed: _Feed, events_path: str) -> None:
    events_at = time.monotonic() + _EVENTS_AFTER_SECONDS
    following_events = False
    while not wait.done:
        for source, event in feed.news(_TICK_SECONDS):
            if source == "event":
                wait.hear(event["object"])
            elif event["type"] == "DELETED":
                raise ProvisioningFailed(
                    f"pod {event['object']['metadata']['name']} was deleted as it started"
                )
            else:
                wait.see(event["object"])
        wait.check_time()
        # Most pods run within a second, and then nobody pays for a second watch.
        if not following_events and time.monotonic() >= events_at:
            feed.follow("event", events_path, optional=True, fieldSelector="involvedObject.kind=Pod")
            following_events = True


@dataclass
class _Trouble:
    """What one pod is held up by, since when (monotonic seconds), and how often its image failed."""

    verdict: Verdict
    since: float
    failures: int = 0
    first_reason: str = ""


class _Wait:
    """What is known of the pods waited for; judges each change and each passing second."""

    def __init__(self, ctx: Context, allocation: Allocation, provision_timeout: float | None) -> None:
        self._ctx = ctx
        self._allocation = allocation
        self._provision_timeout = provision_timeout
        self._pods: dict[int, Mapping[str, Any]] = {}
        self._running: set[int] = set()
        self._troubles: dict[str, _Trouble] = {}
        self._said: dict[str, str] = {}
        self._heard: dict[str, dict[str, str]] = {}  # by pod, then by the event's reason; the newest last

    @property
    def done(self) -> bool:
        return len(self._running) >= self._allocation.num_nodes

    def check_all_there(self) -> None:
        """Raise if a pod that must have been created isn't there."""
        missing = self._allocation.num_nodes - len(self._pods)
        if missing > 0:
            raise ProvisioningFailed(
                f"{missing} of {counted(self._allocation.num_nodes, 'pod')} of {self._allocation.cluster_name!r} "
                "aren't there any more",
                remedy="somebody deleted them; launch again",
                retryable=True,
            )

    def see(self, pod: Mapping[str, Any]) -> None:
        """A pod as it is now. Raises when it is certain that it won't run."""
        rank, name, verdict = rank_of(pod), pod["metadata"]["name"], judge(pod)
        self._pods[rank] = pod
        if verdict.state is InstanceState.RUNNING:
            self._running.add(rank)
            self._troubles.pop(name, None)
            return
        self._running.discard(rank)
        self._note(name, verdict)
        self._say(name, verdict.reason)
        if verdict.hopeless:
            raise self._failed(name, verdict.reason)

    def hear(self, event: Mapping[str, Any]) -> None:
        """An event of the namespace: said if it is of one of our pods, each reason once a pod."""
        about = event.get("involvedObject") or {}
        ours = any(pod["metadata"]["uid"] == about.get("uid") for pod in self._pods.values())
        reason = str(event.get("reason"))
        if not ours or reason in _KNOWN_EVENTS:
            return
        heard, text = self._heard.setdefault(about["name"], {}), one_line(f"{reason}: {event.get('message')}")
        if heard.pop(reason, None) is None:
            self._emit(about["name"], text)
        heard[reason] = text

    def check_time(self) -> None:
        """Raise if cancelled, late, or held up for longer than that kind of trouble is given."""
        self._ctx.cancel.check()
        now = time.monotonic()
        for name, trouble in self._troubles.items():
            cause, waited = trouble.verdict.cause, now - trouble.since
            if cause == "unschedulable" and self._provision_timeout is not None:
                if waited >= self._provision_timeout:
                    raise self._no_room(name, trouble.verdict.reason, waited)
            elif (cause == "image" and trouble.failures >= _PULL_FAILURES) or (
                cause in ("image", "config") and waited >= _TROUBLE_SECONDS
            ):
                raise self._failed(name, trouble.first_reason)
        if self._ctx.deadline is not None and now >= self._ctx.deadline:
            raise TimedOut(f"waiting for {self._last_words()}")

    def _note(self, name: str, verdict: Verdict) -> None:
        known = self._troubles.get(name)
        if not verdict.cause:
            self._troubles.pop(name, None)
            return
        if known is None or known.verdict.cause != verdict.cause:
            known = _Trouble(verdict, time.monotonic(), first_reason=verdict.reason)
            known.failures = int(verdict.reason.startswith("ErrImagePull"))
        elif verdict.reason.startswith("ErrImagePull") and verdict.reason != known.verdict.reason:
            known.failures += 1
            known.first_reason = verdict.reason
        known.verdict = verdict
        self._troubles[name] = known

    def _say(self, name: str, reason: str) -> None:
        if reason and self._said.get(name) != reason:
            self._said[name] = reason
            self._emit(name, reason)

    def _emit(self, name: str, reason: str) -> None:
        self._ctx.emit(Event(kind="phase", message=f"{name}: {reason}", data={"pod": name, "reason": reason}))

    def _last_words(self) -> str:
        waiting = [pod["metadata"]["name"] for rank, pod in self._pods.items() if rank not in self._running]
        return "; ".join(f"{name}: {self._last_word(name)}" for name in waiting)

    def _last_word(self, name: str) -> str:
        newest = list(self._heard.get(name, {}).values())[-1:]
        return ", ".join([self._said.get(name, "no news of it"), *newest])

    def _failed(self, name: str, reason: str) -> ProvisioningFailed:
        return ProvisioningFailed(f"pod {name}: {reason}", remedy=self._describe(name), scope="region")

    def _no_room(self, name: str, reason: str, waited: float) -> NoCapacity:
        if reason == NO_SCHEDULER_YET:
            return NoCapacity(
                f"no scheduler has taken pod {name} within {waited:.0f} s",
                remedy="look at kubernetes.pod_config.spec.schedulerName, or whether the scheduler runs",
                scope="region",
            )
        return NoCapacity(
            f"no node took pod {name} within {waited:.0f} s: {reason}",
            remedy="ask for less, or set kubernetes.provision_timeout higher where nodes come on demand",
            scope="region",
        )

    def _describe(self, name: str) -> str:
        spec = self._allocation.spec
        return f"see more: kubectl --context {spec['context']} -n {spec['namespace']} describe pod {name}"


class _Feed:
    """Watches, each in a thread of its own, read as one stream of news."""

    def __init__(self, api: api_client.Api) -> None:
        self._api = api
        self._stop = CancelToken()
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def __enter__(self) -> _Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.cancel()

    def follow(self, source: str, path: str, *, optional: bool = False, **query: str) -> None:
        """Begin to watch. What it fails with is raised by `news`, or is the end of it if `optional`."""

        def run() -> None:
            try:
                with contextlib.suppress(NotPermitted) if optional else contextlib.nullcontext():
                    for event in self._api.watch(
                        path, deadline=self._api.ctx.deadline, cancel=self._stop, **query
                    ):
                        self._queue.put((source, event))
            except SkyError as error:
                self._queue.put(("error", error))

        threading.Thread(target=run, daemon=True).start()

    def news(self, seconds: float) -> Iterator[tuple[str, Any]]:
        """What has come, after waiting up to `seconds` for the first. Raises what a watch failed with."""
        with contextlib.suppress(queue.Empty):
            item = self._queue.get(timeout=seconds)
            while True:
                if item[0] == "error":
                    raise item[1]
                yield item
                item = self._queue.get_nowait()
