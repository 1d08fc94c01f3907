"""Channels over a WebSocket (`vN.channel.k8s.io`): what exec, a shell and port forwarding speak.

One thread, one `select`: everything that may block is waited for together with the cancel token and the
deadline. Frames are websocket-client's; the socket is our own, so that proxies, names and times are too.
"""

from __future__ import annotations

import collections
import select
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sky.api import ConnectionLost, Context, TimedOut
from sky_kubernetes.api_errors import error_of
from sky_kubernetes.masking import binary_frame
from sky_kubernetes.upgrade import Refused, Upgraded, upgrade

if TYPE_CHECKING:
    from sky_kubernetes.api_client import Api

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

PING_SECONDS = 20.0
"""A silent channel gets a ping this often: load balancers close what is idle for a minute."""
PONG_SECONDS = 30.0
"""A ping unanswered this long is a lost connection."""
_PIECE = 64 * 1024
_BACKLOG = 4 * _PIECE
_FRAMES_A_STEP = 64


def open_channel(
    ctx: Context,
    api: Api,
    path: str,
    query: Sequence[tuple[str, str]],
    *,
    protocols: Sequence[str] = EXEC_PROTOCOLS,
    ping_seconds: float = PING_SECONDS,
    pong_seconds: float = PONG_SECONDS,
) -> Channel:
    """Connect and upgrade; logs in again once if the login is refused.

    Blocks. Raises `Refused` for what the server answers, `Unreachable`, `TimedOut`, `Cancelled`,
    `CredentialsError`.
    """
    credential = api.credential()
    try:
        connection = upgrade(ctx, api, path, query, protocols, credential)
    except Refused as refused:
        if refused.status != 401:
            raise
        credential = api.credential(refused=credential)
        try:
            connection = upgrade(ctx, api, path, query, protocols, credential)
        except Refused as again:
            raise error_of(api.ref, again.status, again.message, login=credential.login) from None
    return Channel(ctx, connection, api.ref.name, ping_seconds, pong_seconds)


class Channel:
    """An open channel. Used by one thread; `close` may be repeated."""

    def __init__(
        self, ctx: Context, connection: Upgraded, context_name: str, ping_seconds: float, pong_seconds: float
    ) -> None:
        # Here, not earlier: the server is starting the program meanwhile.
        from websocket import frame_buffer

        self._ctx = ctx
        self._sock = connection.sock
        self._early = connection.early
        self._frames: Any = frame_buffer(self._recv, True)
        self._context_name = context_name
        self._ping_seconds, self._pong_seconds = ping_seconds, pong_seconds
        self.protocol = connection.protocol
        self.closed = False
        """The server has ended the channel; nothing more will come."""
        self._out: collections.deque[memoryview] = collections.deque()
        self._backlog = 0
        self._more = False  # decrypted bytes may wait where `select` can't see them
        self._fragment_of = -1
        self._heard_at = time.monotonic()
        self._pinged_at: float | None = None
        self._sent_since_heard = False

    @property
    def hungry(self) -> bool:
        """Whether `send` should be given more: what was sent before is mostly gone."""
        return self._backlog < _BACKLOG

    def send(self, channel: int, data: bytes) -> None:
        """Queue `data`; `exchange` sends it. Check `hungry` before: the queue is in memory."""
        prefix = bytes((channel,))
        for start in range(0, max(1, len(data)), _PIECE):
            self._queue(binary_frame(prefix + data[start : start + _PIECE]))
        self._sent_since_heard = True

    def exchange(self, readers: Sequence[Any] = (), phase: str = "") -> list[tuple[int, bytes]]:
        """Wait until something can be done, and do it; what was received, as (channel, bytes).

        Returns (empty) also when one of `readers` (objects with `fileno`) is readable. Raises `Cancelled`,
        `TimedOut` naming `phase`, `ConnectionLost` for a peer that answers no more.
        """
        timeout = self._timeout(phase)
        writers = [self._sock] if self._out else []
        cancel = self._ctx.cancel
        readable, writable, _ = select.select([self._sock, cancel, *readers], writers, [], timeout)
        cancel.check()
        if writable or self._out:
            self._flush()
        if self._sock in readable or self._more:
            return self._receive()
        return []

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._out.clear()
        self._sock.close()

    # --- sending -------------------------------------------------------------------------------------

    def _queue(self, data: bytes) -> None:
        self._out.append(memoryview(data))
        self._backlog += len(data)

    def _flush(self) -> None:
        import ssl

        try:
            while self._out:
                sent = self._sock.send(self._out[0])
                self._backlog -= sent
                if sent == len(self._out[0]):
                    self._out.popleft()
                else:
                    self._out[0] = self._out[0][sent:]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError:
            # What the server said before it went can still be read.
            self._out.clear()
            self._backlog = 0

    # --- receiving -----------------------------------------------------------------------------------

    def _receive(self) -> list[tuple[int, bytes]]:
        import ssl

        from websocket import WebSocketException

        received: list[tuple[int, bytes]] = []
        self._more = False
        try:
            for _ in range(_FRAMES_A_STEP):
                frame = self._frames.recv_frame()
                self._heard()
                self._take(frame, received)
                if self.closed:
                    return received
            self._more = True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except (WebSocketException, OSError):
            self.closed = True
        return received

    def _recv(self, most: int) -> bytes:
        if self._early:
            data, self._early = self._early[:most], self._early[most:]
            return data
        data = self._sock.recv(most)
        if not data:
            raise ConnectionResetError
        return data

    def _take(self, frame: Any, received: list[tuple[int, bytes]]) -> None:
        from websocket import ABNF

        if frame.opcode in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT):
            if not frame.data:
                return
            data = frame.data if isinstance(frame.data, bytes) else frame.data.encode()
            self._fragment_of = data[0]
            if len(data) > 1:
                received.append((data[0], data[1:]))
            elif data[0] == STATUS:
                received.append((STATUS, b""))
        elif frame.opcode == ABNF.OPCODE_CONT:
            received.append((self._fragment_of, frame.data))
        elif frame.opcode == ABNF.OPCODE_PING:
            self._queue(ABNF.create_frame(frame.data, ABNF.OPCODE_PONG).format())
        elif frame.opcode == ABNF.OPCODE_CLOSE:
            self.closed = True

    # --- time ----------------------------------------------------------------------------------------

    def _heard(self) -> None:
        self._heard_at = time.monotonic()
        self._pinged_at = None
        self._sent_since_heard = False

    def _timeout(self, phase: str) -> float:
        """Seconds to wait; sends the ping that is due."""
        from websocket import ABNF

        now = time.monotonic()
        deadline = self._ctx.deadline
        if deadline is not None and now >= deadline:
            raise TimedOut(phase)
        if self._more:
            return 0.0
        if self._pinged_at is None and now - self._heard_at >= self._ping_seconds:
            self._queue(ABNF.create_frame(b"", ABNF.OPCODE_PING).format())
            self._pinged_at = now
        due = self._heard_at + self._ping_seconds
        if self._pinged_at is not None:
            due = self._pinged_at + self._pong_seconds
            if now >= due:
                # Behind stdin that a program doesn't take, an answer can't come: TCP alone can tell then.
                if not self._sent_since_heard:
                    raise ConnectionLost(
                        f"Kubernetes context {self._context_name!r} no longer answers", retryable=True
                    )
                self._pinged_at, due = None, now + self._ping_seconds
                self._heard_at = now
        return max(0.0, (due if deadline is None else min(due, deadline)) - now)
