"""From a connected socket to a WebSocket: the HTTP upgrade, with each refusal kept apart.

Done here and not by websocket-client, so that importing that costs nothing: it happens while the server
is already starting the program.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sky.api import Context, SkyError, TimedOut
from sky_kubernetes import transport

if TYPE_CHECKING:
    from sky_kubernetes.api_client import Api
    from sky_kubernetes.auth import Credential

HANDSHAKE_SECONDS = 30.0
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_HEAD_BYTES = 64 * 1024


class Refused(SkyError):
    """The server answered the upgrade with an HTTP status; nothing was started."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A non-blocking socket that speaks WebSocket frames from here on."""

    sock: socket.socket
    protocol: str
    early: bytes
    """What was already received of the first frames."""


def upgrade(
    ctx: Context,
    api: Api,
    path: str,
    query: Sequence[tuple[str, str]],
    protocols: Sequence[str],
    credential: Credential,
) -> Upgraded:
    """Connect to the API server and upgrade. Blocks, at most `HANDSHAKE_SECONDS` for the answer.

    Raises `Refused`, `Unreachable`, `TimedOut`, `Cancelled`, `CredentialsError`.
    """
    ref = api.ref
    sock = transport.open_socket(ctx, ref, credential)
    seconds = HANDSHAKE_SECONDS
    if ctx.deadline is not None:
        seconds = max(0.001, min(seconds, ctx.deadline - time.monotonic()))
    undo = ctx.cancel.on_cancel(functools.partial(transport.interrupt, sock))
    try:
        sock.settimeout(seconds)
        key = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(_request(api, path, query, protocols, credential, key))
        status, headers, rest = _read_head(sock)
        if status != 101:
            raise Refused(status, _reason(sock, headers, rest))
        accept = base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()
        protocol = headers.get("sec-websocket-protocol", "")
        if headers.get("sec-websocket-accept") != accept or protocol not in protocols:
            raise ValueError
        sock.setblocking(False)
        return Upgraded(sock, protocol, rest)
    except (OSError, ValueError) as error:
        sock.close()
        ctx.cancel.check()
        if ctx.deadline is not None and time.monotonic() >= ctx.deadline:
            raise TimedOut(f"opening a channel of Kubernetes context {ref.name!r}") from None
        reason = "the connection broke"
        if isinstance(error, TimeoutError):
            reason = "no answer in time"
        elif isinstance(error, ValueError):
            reason = f"it speaks none of {', '.join(protocols)}"
        raise transport.unreachable(ref, reason) from None
    except BaseException:
        sock.close()
        raise
    finally:
        undo()


def _request(
    api: Api,
    path: str,
    query: Sequence[tuple[str, str]],
    protocols: Sequence[str],
    credential: Credential,
    key: str,
) -> bytes:
    host, port = transport.host_port(api.ref)
    lines = [
        f"GET {transport.target(api.ref, path, query)} HTTP/1.1",
        f"Host: {transport.netloc(host, port)}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {', '.join(protocols)}",
        "User-Agent: sky",
        *(f"{name}: {value}" for name, value in credential.headers.items()),
    ]
    return "\r\n".join((*lines, "", "")).encode()


def _read_head(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    content = b""
    while b"\r\n\r\n" not in content:
        data = sock.recv(4096)
        if not data or len(content) > _HEAD_BYTES:
            raise ConnectionResetError
        content += data
    head, rest = content.split(b"\r\n\r\n", 1)
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return int(first.split(" ")[1]), {name.strip().lower(): value.strip() for name, value in pairs}, rest


def _reason(sock: socket.socket, headers: dict[str, str], content: bytes) -> str:
    """What the body of a refusal says."""
    from sky_kubernetes.api_errors import message_of

    length = headers.get("content-length", "")
    wanted = min(int(length), _HEAD_BYTES) if length.isdigit() else 0
    while len(content) < wanted and (data := sock.recv(4096)):
        content += data
    return message_of(content) or "no reason given"
