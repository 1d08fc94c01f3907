"""`Api.watch`: one endless stream of events made of many list and watch requests."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sky.api import CancelToken, SkyError, TimedOut, Unreachable
from sky_kubernetes import transport
from sky_kubernetes.api_client import Api, Object, watch_seconds
from sky_kubernetes.api_errors import ApiGone, error_of, message_of
from sky_kubernetes.connections import interrupt

if TYPE_CHECKING:
    import http.client

_SHORT_SECONDS = 0.2


def watch(
    api: Api, path: str, query: Mapping[str, object], deadline: float | None, cancel: CancelToken | None
) -> Iterator[Object]:
    """See `Api.watch`."""
    query = dict(query)
    version = query.pop("resourceVersion", None)
    known: dict[str, Object] = {}
    failures = 0

    def over() -> bool:
        return (cancel is not None and cancel.cancelled) or (
            deadline is not None and time.monotonic() >= deadline
        )

    while not over():
        try:
            if version is None:
                listing = api.list_all(path, **query)
                version = listing["metadata"]["resourceVersion"]
                yield from _compare(known, listing)
            begun = time.monotonic()
            for event in _stream(api, path, {**query, "resourceVersion": version}, deadline, cancel):
                failures = 0
                version = _metadata(event).get("resourceVersion") or version
                if event["type"] == "BOOKMARK":
                    continue
                _remember(known, event)
                yield event
                if over():
                    return
            if time.monotonic() - begun < _SHORT_SECONDS:
                (cancel or api.ctx.cancel).wait(_SHORT_SECONDS)  # a server that ends each watch at once
        except ApiGone:
            version = None
        except Unreachable:
            failures += 1
            if over():
                return
            if failures > 5:
                raise
            pause = 0.2 * 2**failures
            if deadline is not None:
                pause = min(pause, max(0.0, deadline - time.monotonic()))
            (cancel or api.ctx.cancel).wait(pause)
        except TimedOut:
            if over():
                return
            raise


def _metadata(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return (event.get("object") or {}).get("metadata") or {}


def _remember(known: dict[str, Object], event: Object) -> None:
    uid = str(_metadata(event).get("uid"))
    if event["type"] == "DELETED":
        known.pop(uid, None)
    else:
        known[uid] = event["object"]


def _compare(known: dict[str, Object], listing: Object) -> Iterator[Object]:
    """What a fresh list says beside what was known: everything there is, and what is there no more."""
    now = {str(item["metadata"]["uid"]): item for item in listing["items"]}
    gone = [known[uid] for uid in known.keys() - now.keys()]
    known.clear()
    known.update(now)
    for item in gone:
        yield {"type": "DELETED", "object": item}
    for item in now.values():
        yield {"type": "ADDED", "object": item}


def _stream(
    api: Api, path: str, query: Mapping[str, object], deadline: float | None, cancel: CancelToken | None
) -> Iterator[Object]:
    """The events of one watch request, until the server or the time ends it."""
    import http.client

    seconds = watch_seconds(deadline)
    query = {**query, "watch": True, "allowWatchBookmarks": True, "timeoutSeconds": seconds}
    patience = seconds + 5.0 if deadline is None else max(0.0, deadline - time.monotonic()) + 0.1
    credential = api.credential()

    def ask() -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        return api.send(
            "GET", path, query, None, "", credential, read_seconds=min(patience, seconds + 5.0), cancel=cancel
        )

    connection, response = ask()
    if response.status == 401:
        connection.close()
        credential = api.credential(refused=credential)
        connection, response = ask()
    tokens = (api.ctx.cancel,) if cancel is None else (api.ctx.cancel, cancel)
    undo = [token.on_cancel(functools.partial(interrupt, connection)) for token in tokens]
    try:
        if response.status >= 300:
            raise _failure(api, response.status, response.read(), credential)
        while line := response.readline():
            event = json.loads(line)
            if event.get("type") == "ERROR":
                status = event.get("object") or {}
                if status.get("code") == 410:
                    raise ApiGone(str(status.get("message")))
                raise SkyError(f"watching {path}: {status.get('message')}", retryable=True)
            yield event
    except (OSError, ValueError, http.client.HTTPException):
        # Cut in mid-line, timed out or interrupted: the caller goes on from the last version it saw.
        api.ctx.cancel.check()
        return
    finally:
        for take_back in undo:
            take_back()
        connection.close()


def _failure(api: Api, status: int, content: bytes, credential: Any) -> SkyError:
    if status == 429 or status >= 500:
        return transport.unreachable(api.ref, f"the server answers {status}")
    return error_of(api.ref, status, message_of(content), content, credential.login)
