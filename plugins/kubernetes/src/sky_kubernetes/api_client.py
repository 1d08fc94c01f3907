"""The Kubernetes REST API over http.client: lean, thread-safe, and every failure a Sky error.

Nothing here knows a resource: paths and objects are plain data, as the API reference writes them.
"""

from __future__ import annotations

import functools
import json
import math
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sky.api import CancelToken, ConnectionLost, Context, SkyError, TimedOut
from sky_kubernetes import auth, transport
from sky_kubernetes.api_errors import ApiConflict, ApiGone, ApiInvalid, ApiNotFound, error_of, message_of
from sky_kubernetes.connections import Connections, interrupt
from sky_kubernetes.kubeconfig import ContextRef, load

if TYPE_CHECKING:
    import http.client

__all__ = ["Api", "ApiConflict", "ApiGone", "ApiInvalid", "ApiNotFound", "Object", "connect"]

READ_SECONDS = 30.0
"""A server that has taken a request and says nothing for this long is unreachable."""
PAGE = 500
_ATTEMPTS = 5
_WATCH_SECONDS = 290
"""One watch request lasts this long at most, below the five minutes of usual load balancers."""

Object = dict[str, Any]


def connect(ctx: Context, context_name: str | None = None) -> Api:
    """The API of a kubeconfig context (None: the current one). No network yet; reads the kubeconfig anew.

    Raises `UsageError` for a context that isn't defined, `CredentialsError` without a usable kubeconfig.
    """
    return Api(ctx, load(directory=ctx.directory).context(context_name))


class Api:
    """One context's API server, for one `ctx`. Safe from any thread; `close` when done, or use `with`.

    Every method blocks, and raises beside what its docstring names: `Unreachable` (nothing was done),
    `ConnectionLost` (it broke after the request was sent), `LoginExpired`, `NotPermitted`, `ApiNotFound`,
    `ApiConflict`, `ApiInvalid`, `TimedOut`, `Cancelled`; `SkyError` for what else the server answers.
    """

    def __init__(self, ctx: Context, ref: ContextRef) -> None:
        self.ctx = ctx
        self.ref = ref
        self._connections = Connections(ctx, ref)
        self._login = threading.Lock()
        self._credential: auth.Credential | None = None

    @property
    def namespace(self) -> str:
        """The context's namespace, `default` if it has none."""
        return self.ref.namespace or "default"

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. May be repeated; the object stays usable."""
        self._connections.close()

    # --- requests ------------------------------------------------------------------------------------

    def get(self, path: str, **query: object) -> Object:
        """One object, or one page of a list. `query` values: str, int or bool; None is left out."""
        return self._request("GET", path, query)

    def post(self, path: str, body: Mapping[str, Any], **query: object) -> Object:
        """Create. Not idempotent by itself: a repeat raises `ApiConflict`."""
        return self._request("POST", path, query, body)

    def put(self, path: str, body: Mapping[str, Any], **query: object) -> Object:
        """Replace."""
        return self._request("PUT", path, query, body)

    def patch(
        self, path: str, body: object, *, content_type: str = "application/merge-patch+json", **query: object
    ) -> Object:
        """Change in part; by default a merge patch (None removes a key)."""
        return self._request("PATCH", path, query, body, content_type)

    def delete(self, path: str, body: Mapping[str, Any] | None = None, **query: object) -> Object:
        """Delete one, or a collection by selector; `body` is `DeleteOptions`."""
        return self._request("DELETE", path, query, body)

    def list_all(self, path: str, **query: object) -> Object:
        """A whole list, page by page; starts again if the server forgets where it was (410)."""
        for _ in range(_ATTEMPTS):
            items: list[Object] = []
            token: str | None = None
            try:
                while True:
                    page = self.get(path, **{"limit": PAGE, **query, "continue": token})
                    items.extend(page.get("items") or ())
                    token = (page.get("metadata") or {}).get("continue")
                    if not token:
                        return {**page, "items": items}
            except ApiGone:
                continue
        raise SkyError(f"{self._where()}: the list {path} changes faster than it can be read", retryable=True)

    def watch(
        self,
        path: str,
        *,
        deadline: float | None = None,
        cancel: CancelToken | None = None,
        **query: object,
    ) -> Iterator[Object]:
        """Events (`type`, `object`) of a list, for ever: reconnects and survives forgotten versions.

        Without `resourceVersion` in the query what exists comes first, as ADDED. After a gap everything
        comes again: what exists as ADDED, what went meanwhile as DELETED with its last known object. Ends
        without an error at `deadline` (monotonic) or when `cancel` is set; those of `ctx` raise.
        """
        from sky_kubernetes.watching import watch

        return watch(self, path, query, deadline, cancel)

    # --- one request ---------------------------------------------------------------------------------

    def credential(self, *, refused: auth.Credential | None = None) -> auth.Credential:
        """What to present now; logs in again if it is stale, or is the one that was just refused."""
        with self._login:
            held = self._credential
            if held is None or held.stale or held is refused:
                held = auth.resolve(self.ctx, self.ref, refresh=refused is not None)
                if self._credential is not None:
                    self.close()  # a client certificate belongs to its connection
                self._credential = held
            return held

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: object = None,
        content_type: str = "application/json",
    ) -> Object:
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        refused: auth.Credential | None = None
        failure = ""
        for attempt in range(_ATTEMPTS):
            credential = self.credential(refused=refused)
            connection, response = self.send(method, path, query, data, content_type, credential)
            try:
                content = self._read(connection, response)
            finally:
                self._connections.give_back(connection, response)
            if response.status < 300:
                return self._decode(content)
            failure = message_of(content) or response.reason
            if response.status == 401 and refused is None:
                refused = credential
                continue
            if response.status == 429 or response.status >= 500:
                if attempt + 1 == _ATTEMPTS or not self._pause(response.headers.get("Retry-After"), attempt):
                    break
                continue
            raise error_of(self.ref, response.status, failure, content, credential.login)
        self._check_time(f"{method} {path}: {failure}")
        raise SkyError(
            f"{self._where()}: {failure}", remedy="try again later", scope="region", retryable=True
        )

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        data: bytes | None,
        content_type: str,
        credential: auth.Credential,
        *,
        read_seconds: float = READ_SECONDS,
        cancel: CancelToken | None = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and read the head of the answer; the caller reads the body.

        `cancel`, beside that of `ctx`, interrupts it as a broken connection.
        """
        import http.client

        pairs = [(k, _text(v)) for k, v in query.items() if v is not None]
        target = transport.target(self.ref, path, pairs)
        headers = {"Accept": "application/json", "User-Agent": "sky", **credential.headers}
        if data is not None:
            headers["Content-Type"] = content_type
        while True:
            self._check_time(f"{method} {path}")
            connection, reused = self._connections.take(credential)
            tokens = (self.ctx.cancel,) if cancel is None else (self.ctx.cancel, cancel)
            undo = [token.on_cancel(functools.partial(interrupt, connection)) for token in tokens]
            try:
                connection.sock.settimeout(self._seconds(read_seconds))
                connection.request(method, target, data, headers)
                return connection, connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._check_time(f"{method} {path}")
                # A kept connection that the server had closed: it has not read the request.
                closed = isinstance(error, http.client.RemoteDisconnected | ConnectionError)
                given_up = cancel is not None and cancel.cancelled
                if reused and closed and not given_up and method in ("GET", "PUT", "DELETE"):
                    continue
                raise self._broken(error, method) from None
            finally:
                for take_back in undo:
                    take_back()

    def _read(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> bytes:
        import http.client

        undo = self.ctx.cancel.on_cancel(functools.partial(interrupt, connection))
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self._check_time("reading the answer")
            raise self._broken(error, "GET") from None
        finally:
            undo()

    def _broken(self, error: Exception, method: str) -> SkyError:
        reason = "no answer in time" if isinstance(error, TimeoutError) else "the connection broke"
        if method == "GET":
            return transport.unreachable(self.ref, reason)
        return ConnectionLost(
            f"{self._where()}: {reason}; whether the request was done is unknown",
            remedy="run the command again: it continues where this one stopped",
            retryable=True,
        )

    def _decode(self, content: bytes) -> Object:
        try:
            answer = json.loads(content) if content else {}
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise transport.unreachable(self.ref, "what answers there is no Kubernetes API server")
        return answer

    # --- time ----------------------------------------------------------------------------------------

    def _seconds(self, most: float) -> float:
        if self.ctx.deadline is None:
            return most
        return max(0.001, min(most, self.ctx.deadline - time.monotonic()))

    def _check_time(self, phase: str) -> None:
        self.ctx.cancel.check()
        if self.ctx.deadline is not None and time.monotonic() >= self.ctx.deadline:
            raise TimedOut(f"{self._where()}: {phase}")

    def _pause(self, retry_after: str | None, attempt: int) -> bool:
        """Wait before the next attempt; false if the deadline comes first."""
        seconds = 0.2 * 2**attempt
        if retry_after and retry_after.isdigit():
            seconds = min(float(retry_after), READ_SECONDS)
        if self.ctx.deadline is not None and time.monotonic() + seconds >= self.ctx.deadline:
            return False
        self.ctx.cancel.wait(seconds)
        self.ctx.cancel.check()
        return True

    # --- words ---------------------------------------------------------------------------------------

    def _where(self) -> str:
        return f"Kubernetes context {self.ref.name!r}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def watch_seconds(deadline: float | None) -> int:
    """How long one watch request may last."""
    if deadline is None:
        return _WATCH_SECONDS
    return max(1, min(_WATCH_SECONDS, math.ceil(deadline - time.monotonic())))
