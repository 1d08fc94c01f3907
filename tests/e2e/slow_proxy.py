"""A TCP proxy that makes the way to a server as long as it is told to be."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time


class SlowProxy:
    """Passes bytes on `delay_seconds` after it got them, each way, in order and at any rate.

    Connecting costs nothing, as the proxy is on this machine: what is delayed is what is said.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        self.delay_seconds = 0.0
        self.connections = 0
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                far = socket.create_connection(self._server)
                for source, sink in ((near, far), (far, near)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._pass_on(source, sink)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        waiting: queue.Queue[tuple[float, bytes]] = queue.Queue()

        def read() -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(1 << 16):
                    waiting.put((time.monotonic() + self.delay_seconds, data))
            waiting.put((time.monotonic() + self.delay_seconds, b""))

        def write() -> None:
            with contextlib.suppress(OSError):
                while True:
                    due, data = waiting.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)

        for work in (read, write):
            threading.Thread(target=work, daemon=True).start()
