"""HTTP connections kept for the next request to the same server."""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING

from sky.api import Context
from sky_kubernetes import transport
from sky_kubernetes.kubeconfig import ContextRef

if TYPE_CHECKING:
    import http.client

    from sky_kubernetes.auth import Credential


class Connections:
    """Idle connections to one server, shared by threads: each is used by one request at a time."""

    def __init__(self, ctx: Context, ref: ContextRef) -> None:
        self._ctx, self._ref = ctx, ref
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def take(self, credential: Credential) -> tuple[http.client.HTTPConnection, bool]:
        """A connection, and whether it was used before. Blocks; raises as `transport.open_socket`."""
        import http.client

        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                # Readable while nothing was asked: the server has closed it.
                if not select.select([connection.sock], [], [], 0)[0]:
                    return connection, True
                connection.close()
        connection = http.client.HTTPConnection(*transport.host_port(self._ref))
        connection.auto_open = 0
        connection.sock = transport.open_socket(self._ctx, self._ref, credential)
        return connection, False

    def give_back(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        """Keep it if its answer was read to the end and the server keeps it too."""
        if connection.sock is None or response.will_close or not response.isclosed():
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        """Close what is idle. May be repeated."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def interrupt(connection: http.client.HTTPConnection) -> None:
    """Make whoever reads from a connection stop at once; safe from a signal handler."""
    transport.interrupt(connection.sock)
