"""What became of a pod, asked once something has failed: gone, or only out of reach."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sky.api import ConnectionLost, Context, HostGone, SkyError
from sky_kubernetes.api_client import Api
from sky_kubernetes.api_errors import ApiNotFound

if TYPE_CHECKING:
    from sky_kubernetes.runner import Target

_ASK_SECONDS = 5.0
_SAID_CHARACTERS = 200
_COMMAND = re.compile(r"(: )?error executing command \[(.*\](?=, exit code \d+\s*$)|.*)", re.DOTALL)


def fate(ctx: Context, api: Api, target: Target, failure: SkyError, said: str) -> SkyError:
    """`HostGone` with its reason if the pod is no more or no longer runs, else `failure`, said better.

    One GET, at most 5 s, also after the deadline has passed. `said` is what the channel told, if anything.
    """
    ctx = dataclasses.replace(ctx, deadline=time.monotonic() + _ASK_SECONDS)
    try:
        with Api(ctx, api.ref) as asking:
            pod = asking.get(target.path)
    except ApiNotFound:
        return HostGone(f"pod {target.pod} is gone: it was deleted", remedy="launch the cluster again")
    except SkyError as error:
        if isinstance(failure, ConnectionLost):
            failure.message += f"; the API server: {error.message}"
        return failure
    gone = _gone(pod, target)
    if gone:
        return HostGone(f"pod {target.pod} is gone: {gone}", remedy="launch the cluster again")
    if restarted := _last_end(pod, target.container):
        failure.message += f"; its container was restarted: {restarted}"
    elif said:
        failure.message += f": {_in_brief(said)}"
    failure.args = (failure.message,)
    return failure


def _in_brief(said: str) -> str:
    """What the status channel said, on one line of at most 200 characters and without the command run."""
    # The command is the wrapper's whole script: of no use to who reads, and it may hold what is secret.
    line = " ".join(_COMMAND.sub("", said).split())
    return line if len(line) <= _SAID_CHARACTERS else line[: _SAID_CHARACTERS - 1] + "…"


def _gone(pod: Mapping[str, Any], target: Target) -> str:
    """Why the pod can't run anything any more; empty if it can."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    if target.uid and metadata.get("uid") != target.uid:
        return "another pod has its name now"
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended and container.get("name") == (target.container or container.get("name")):
            return _ended(ended)
    if status.get("phase") in ("Failed", "Succeeded"):
        words = [status.get("reason"), status.get("message")]
        return ": ".join(word for word in words if word) or f"it has {status['phase'].lower()}"
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    return ""


def _ended(terminated: Mapping[str, Any]) -> str:
    reason = terminated.get("reason") or "ended"
    return f"{reason} (exit code {terminated.get('exitCode')})"


def _last_end(pod: Mapping[str, Any], name: str) -> str:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (container.get("lastState") or {}).get("terminated")
        if ended and container.get("name") == (name or container.get("name")):
            return _ended(ended)
    return ""
