"""An API server for what no real one does on demand: it cuts, stalls, lies and expires logins.

REST answers are canned. Exec really runs the command, as a process of this machine, and speaks the
channel protocol as Kubernetes does: v4 never closes stdin. `Exec` is where a test makes it misbehave.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
Answer = tuple[int, Any] | Callable[["Seen"], tuple[int, Any]]


class Seen:
    """One request as it came."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        parts = urlsplit(target)
        self.method, self.path, self.headers, self.body = method, parts.path, headers, body
        self.pairs = parse_qsl(parts.query, keep_blank_values=True)
        self.query = dict(self.pairs)


class StubServer:
    """Listens on a port of 127.0.0.1 until `close`; `seen` is every request."""

    def __init__(self, tls: ssl.SSLContext | None = None, protocol: str = "v4.channel.k8s.io") -> None:
        self.protocol = protocol
        self.answers: dict[tuple[str, str], Answer] = {}
        self.exec: Callable[[Exec], None] = Exec.run
        self.seen: list[Seen] = []
        self._sockets: list[socket.socket] = []
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def connections(self) -> int:
        """How many were made so far."""
        return len(self._sockets)

    def drop_connections(self) -> None:
        """Close every connection, as a restart of the server does."""
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.closing(sock):
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            stream = sock.makefile("rb")
            while (seen := _read_request(stream)) is not None:
                self.seen.append(seen)
                if seen.headers.get("upgrade") == "websocket" and self._accepts(seen):
                    _accept_upgrade(sock, seen, self.protocol)
                    self.exec(Exec(sock, stream, seen, self.protocol))
                    sock.close()
                    return
                self._answer(sock, seen)

    def _accepts(self, seen: Seen) -> bool:
        """An upgrade is accepted unless there is an answer for it, or that is 101."""
        answer = self.answers.get((seen.method, seen.path), (101, None))
        return (answer(seen) if callable(answer) else answer)[0] == 101

    def _answer(self, sock: socket.socket, seen: Seen) -> None:
        missing = (404, {"kind": "Status", "message": f"no {seen.path}", "reason": "NotFound"})
        answer = self.answers.get((seen.method, seen.path), missing)
        status, body = answer(seen) if callable(answer) else answer
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        if status == 429:
            head += "Retry-After: 0\r\n"
        sock.sendall(head.encode() + b"\r\n" + content)


def _read_request(stream: Any) -> Seen | None:
    first = stream.readline().decode().split()
    if len(first) < 2:
        return None
    headers: dict[str, str] = {}
    while line := stream.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Seen(first[0], first[1], headers, stream.read(int(headers.get("content-length", 0))))


def _accept_upgrade(sock: socket.socket, seen: Seen, protocol: str) -> None:
    digest = hashlib.sha1((seen.headers["sec-websocket-key"] + GUID).encode()).digest()
    assert protocol in seen.headers["sec-websocket-protocol"].split(", ")
    sock.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}\r\n".encode()
        + f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n".encode()
    )


class Exec:
    """One exec: its WebSocket, and the process that it runs. Override or wrap the methods to misbehave."""

    def __init__(self, sock: socket.socket, stream: Any, seen: Seen, protocol: str) -> None:
        self.sock, self.stream, self.seen, self.protocol = sock, stream, seen, protocol
        self.argv = [value for name, value in seen.pairs if name == "command"]
        self.pings = 0
        self._lock = threading.Lock()
        self.frame_bytes = 32 * 1024
        self.process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Run the command to its end and report it, as Kubernetes does."""
        code = self.run_process()
        self.send(3, status(code))
        self.close_frame()

    def run_process(self, limit: int | None = None) -> int:
        """Run the command; its output goes out in frames of `frame_bytes`, stdout at most `limit` bytes."""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self.argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        for number in (1, 2):
            self.send(number, b"")  # as Kubernetes begins
        pumps = [
            threading.Thread(target=self._pump_out, args=(1, self.process.stdout, limit), daemon=True),
            threading.Thread(target=self._pump_out, args=(2, self.process.stderr, None), daemon=True),
        ]
        for pump in pumps:
            pump.start()
        threading.Thread(target=self._pump_in, daemon=True).start()
        for pump in pumps:
            pump.join()
        return self.process.wait()

    def _pump_out(self, number: int, stream: Any, limit: int | None) -> None:
        sent = 0
        while data := os.read(stream.fileno(), self.frame_bytes):
            data = data if limit is None else data[: max(0, limit - sent)]
            sent += len(data)
            if data:
                self.send(number, data)

    def _pump_in(self) -> None:
        assert self.process is not None and self.process.stdin is not None
        stdin = self.process.stdin
        while (frame := self.receive()) is not None:
            if frame[:1] == b"\x00":
                with contextlib.suppress(OSError):
                    _write_all(stdin.fileno(), frame[1:])
            elif frame == b"\xff\x00" and self.protocol.startswith("v5"):
                stdin.close()
        with contextlib.suppress(OSError):
            stdin.close()  # the client has gone: the runtime ends stdin

    def send(self, number: int, data: bytes) -> None:
        """One message on a channel."""
        self.send_frame(2, bytes((number,)) + data)

    def send_frame(self, opcode: int, payload: bytes, fin: bool = True) -> None:
        head = bytes(((0x80 if fin else 0) | opcode,))
        if len(payload) < 126:
            head += bytes((len(payload),))
        elif len(payload) < 65536:
            head += b"\x7e" + struct.pack("!H", len(payload))
        else:
            head += b"\x7f" + struct.pack("!Q", len(payload))
        with self._lock, contextlib.suppress(OSError):
            self.sock.sendall(head + payload)

    def receive(self) -> bytes | None:
        """The next data message; answers pings. None at the end."""
        while True:
            try:
                head = self.stream.read(2)
                if len(head) < 2:
                    return None
                length = head[1] & 0x7F
                if length == 126:
                    length = struct.unpack("!H", self.stream.read(2))[0]
                elif length == 127:
                    length = struct.unpack("!Q", self.stream.read(8))[0]
                assert head[1] & 0x80, "a client masks its frames"
                mask, payload = self.stream.read(4), self.stream.read(length)
            except (OSError, ValueError):
                return None
            key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
            payload = (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big")
            opcode = head[0] & 0x0F
            if opcode == 9:
                self.pings += 1
                self.send_frame(10, payload)
            elif opcode == 8:
                return None
            elif opcode == 2:
                return bytes(payload)

    def close_frame(self) -> None:
        self.send_frame(8, struct.pack("!H", 1000))

    def wait_for_client_to_go(self) -> None:
        """Until the client closes its end."""
        while select.select([self.sock], [], [])[0]:
            with contextlib.suppress(OSError):
                if self.sock.recv(65536):
                    continue
            return


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def status(code: int) -> bytes:
    """The status message that Kubernetes sends for an exit code."""
    if code == 0:
        return b'{"metadata":{},"status":"Success"}'
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return json.dumps(
        {"status": "Failure", "reason": "NonZeroExitCode", "message": "failed", "details": {"causes": causes}}
    ).encode()


def write_kubeconfig(path: Path, url: str, **more: Any) -> Path:
    """A kubeconfig with one context, `stub`. `more`: `cluster`, `user` and `context`, merged in."""
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "stub",
                "clusters": [{"name": "c", "cluster": {"server": url, **more.get("cluster", {})}}],
                "users": [{"name": "u", "user": more.get("user", {})}],
                "contexts": [
                    {"name": "stub", "context": {"cluster": "c", "user": "u", **more.get("context", {})}}
                ],
            }
        )
    )
    return path
