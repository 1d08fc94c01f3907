"""`sky_forward`: a local TCP port that leads into a pod, one WebSocket for each connection."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable

from sky.api import CancelToken, Context, Event, Forward, Host, SkyError, UsageError
from sky_kubernetes.api_client import Api, connect
from sky_kubernetes.exec_channel import Channel, open_channel
from sky_kubernetes.runner import Target
from sky_kubernetes.upgrade import Refused

_PROTOCOLS = ("v4.channel.k8s.io",)
_DATA, _ERROR = 0, 1
_READ = 64 * 1024
_LINGER_SECONDS = 5.0
"""Protocol v4 can't say that our side has ended: after this long without an answer the connection is over."""


def forward(ctx: Context, host: Host, remote_port: int, local_port: int | None) -> Forward:
    """`sky_forward`: listens on 127.0.0.1 before it returns; lives until `close`, whatever `ctx` does.

    Raises `UsageError` if the local port is taken. A connection that the pod refuses is closed, and a
    warning emitted.
    """
    target = Target.of(host)
    try:
        listener = socket.create_server(("127.0.0.1", local_port or 0))
    except OSError as error:
        raise UsageError(f"local port {local_port}: {error.strerror}", remedy="choose another") from None
    token = CancelToken()
    own = dataclasses.replace(ctx, deadline=None, cancel=token)
    try:
        api = connect(own, target.context)
    except BaseException:
        listener.close()
        raise
    serve = _Server(own, api, target, remote_port, listener)
    threading.Thread(target=serve.accept, name=f"forward {remote_port}", daemon=True).start()

    def close() -> None:
        token.cancel()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()

    return Forward(local_port=listener.getsockname()[1], remote_port=remote_port, close=close)


class _Server:
    def __init__(
        self, ctx: Context, api: Api, target: Target, remote_port: int, listener: socket.socket
    ) -> None:
        self._ctx, self._api, self._target = ctx, api, target
        self._remote_port, self._listener = remote_port, listener

    def accept(self) -> None:
        """Serve each connection in a thread until the listener is closed."""
        while not self._ctx.cancel.cancelled:
            try:
                local, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(local,), daemon=True).start()

    def _serve(self, local: socket.socket) -> None:
        with local, contextlib.suppress(OSError):
            try:
                query = [("ports", str(self._remote_port))]
                path = f"{self._target.path}/portforward"
                channel = open_channel(
                    self._ctx, self._api, path, query, protocols=_PROTOCOLS, ping_seconds=_LINGER_SECONDS
                )
                with contextlib.closing(channel):
                    _relay(channel, local, self._warn)
            except (SkyError, Refused) as error:
                if not self._ctx.cancel.cancelled:
                    self._warn(error.message)

    def _warn(self, reason: str) -> None:
        where = f"port {self._remote_port} of pod {self._target.pod}"
        self._ctx.emit(Event(kind="warning", message=f"{where}: {reason}"))


def _relay(channel: Channel, local: socket.socket, warn: Callable[[str], None]) -> None:
    """Move bytes both ways until either side has ended."""
    introduced: set[int] = set()  # each channel begins with the port's number, two bytes
    reading, over_at = True, 0.0
    while not channel.closed:
        readers = [local] if reading and channel.hungry else []
        for number, data in channel.exchange(readers):
            if number not in introduced:
                introduced.add(number)
                data = data[2:]
            if number == _ERROR and data:
                warn(data.decode(errors="replace").strip())
                return
            if data:
                local.sendall(data)
                over_at = time.monotonic() + _LINGER_SECONDS
        if readers and _ready(local):
            data = local.recv(_READ)
            if data:
                channel.send(_DATA, data)
            else:
                reading, over_at = False, time.monotonic() + _LINGER_SECONDS
        if not reading and time.monotonic() >= over_at:
            return


def _ready(sock: socket.socket) -> bool:
    import select

    return bool(select.select([sock], [], [], 0)[0])
