"""What a pod object says of a node: its state and, in one line of Kubernetes' own words, why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sky.api import InstanceState
from sky_kubernetes.merge import MAIN_CONTAINER

Object = Mapping[str, Any]

Cause = Literal["", "unschedulable", "image", "config", "dead"]

_IMAGE_HOPELESS = frozenset(("InvalidImageName", "ErrImageNeverPull"))
_IMAGE = _IMAGE_HOPELESS | {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"}
_CONFIG = frozenset(("CreateContainerConfigError", "CreateContainerError"))
# What a registry says of itself or the network, rather than of the image: it may pass.
_HICCUPS = ("timeout", "timed out", "connection refused", "connection reset", "no such host", "eof",
            "temporary failure", "too many requests", "service unavailable", "bad gateway", "tls handshake",
            "deadline exceeded", "server misbehaving", "back-off")  # fmt: skip
_LINE = 400
NO_SCHEDULER_YET = "waiting for the scheduler"
"""The reason of a pod that has no node and of which no scheduler has said anything."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One pod, judged."""

    state: InstanceState
    reason: str = ""
    cause: Cause = ""
    """What kind of trouble it is, where it is one: `unschedulable` may pass, `image` and `config` may while
    `hopeless` is false, `dead` never."""
    hopeless: bool = False


def judge(pod: Object) -> Verdict:
    """The state of a pod's main container, which is the node; sidecars matter only until it has started."""
    status = pod.get("status") or {}
    main = _container(status.get("containerStatuses"))
    ended = (main.get("state") or {}).get("terminated")
    if status.get("phase") in ("Failed", "Succeeded") or ended:
        return _ended(status, ended)
    if pod["metadata"].get("deletionTimestamp"):
        return Verdict(InstanceState.ENDED, "the pod is being deleted", "dead", True)
    if "running" in (main.get("state") or {}):
        return Verdict(InstanceState.RUNNING)
    return _starting(pod, status)


def one_line(text: str) -> str:
    """Text on one line, cut where it gets too long for one."""
    line = " ".join(text.split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def ready(node: Object) -> tuple[bool, str]:
    """Whether a node answers its control plane, and if not since when and why."""
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            words = f"{condition.get('reason', '')} since {condition.get('lastTransitionTime', '')}"
            return condition["status"] == "True", words
    return False, "it never reported"


def _container(statuses: Iterable[Object] | None) -> Object:
    return next((s for s in statuses or () if s["name"] == MAIN_CONTAINER), {})


def _ended(status: Object, ended: Object | None) -> Verdict:
    if status.get("reason"):  # the pod's own: Evicted, DeadlineExceeded, NodeLost, Shutdown, …
        text = one_line(f"{status['reason']}: {status.get('message', '')}").rstrip(": ")
        return Verdict(InstanceState.FAILED, text, "dead", True)
    if ended is None:
        ended, name = _failed_container(status)
        if ended is None:
            return Verdict(InstanceState.ENDED, "the pod ended", "dead", True)
        return Verdict(InstanceState.FAILED, _death(ended, f"container {name!r}"), "dead", True)
    if ended.get("exitCode") == 0:
        # containerd calls a container OOMKilled if anything in it ever was, also when it ended well.
        oom = " (a process in it had been OOMKilled)" if ended.get("reason") == "OOMKilled" else ""
        return Verdict(InstanceState.ENDED, f"the pod ended by itself{oom}", "dead", True)
    return Verdict(InstanceState.FAILED, _death(ended, "the pod's main process"), "dead", True)


def _failed_container(status: Object) -> tuple[Object | None, str]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended and ended.get("exitCode") != 0:
                return ended, container["name"]
    return None, ""


def _death(ended: Object, who: str) -> str:
    reason = ended.get("reason") or "Error"
    if reason == "OOMKilled":
        return f"OOMKilled: {who} and its jobs took more memory than asked for"
    if reason == "Error":
        return one_line(f"{who} ended with code {ended.get('exitCode')}. {ended.get('message', '')}").rstrip(
            ". "
        )
    return one_line(f"{reason}: {who}: {ended.get('message') or ended.get('exitCode')}")


def _starting(pod: Object, status: Object) -> Verdict:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            reason, message = condition.get("reason") or "Unschedulable", condition.get("message", "")
            return Verdict(
                InstanceState.PENDING, one_line(f"{reason}: {message}").rstrip(": "), "unschedulable"
            )
    images = {
        c["name"]: c.get("image", "")
        for k in ("initContainers", "containers")
        for c in pod["spec"].get(k) or ()
    }
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            verdict = _waiting(waiting, container["name"], images.get(container["name"], ""))
            if verdict is not None:
                return verdict
    if not pod["spec"].get("nodeName"):
        return Verdict(InstanceState.PENDING, NO_SCHEDULER_YET, "unschedulable")
    return Verdict(InstanceState.PENDING, "starting its containers")


def _waiting(waiting: Object, name: str, image: str) -> Verdict | None:
    reason, message = waiting.get("reason") or "", waiting.get("message") or ""
    if reason in _IMAGE:
        hopeless = reason in _IMAGE_HOPELESS or (
            reason == "ErrImagePull" and not any(word in message.lower() for word in _HICCUPS)
        )
        text = one_line(f"{reason}: image {image!r}: {message}").rstrip(": ")
        failed = hopeless or reason == "ImagePullBackOff"
        return Verdict(InstanceState.FAILED if failed else InstanceState.PENDING, text, "image", hopeless)
    if reason in _CONFIG:
        text = one_line(f"{reason}: container {name!r}: {message}").rstrip(": ")
        return Verdict(InstanceState.PENDING, text, "config")
    if reason == "CrashLoopBackOff":
        return Verdict(
            InstanceState.FAILED, one_line(f"{reason}: container {name!r}: {message}"), "dead", True
        )
    return None
