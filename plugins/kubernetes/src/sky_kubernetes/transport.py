"""One connected socket to an API server: addresses, HTTP proxy, TLS; each wait bounded and cancellable."""

from __future__ import annotations

import base64
import os
import select
import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlencode, urlsplit

from sky.api import CancelToken, Context, CredentialsError, TimedOut, Unreachable
from sky_kubernetes.kubeconfig import ContextRef, reveal

if TYPE_CHECKING:
    import ssl

    from sky_kubernetes.auth import Credential

CONNECT_SECONDS = 10.0


def unreachable(ref: ContextRef, reason: str) -> Unreachable:
    """The one wording for a server that can't be reached: names the context, the server and the reason."""
    return Unreachable(
        f"Kubernetes context {ref.name!r}: {ref.server}: {reason}",
        remedy=f"is the cluster up, and its network reachable? try: kubectl --context {ref.name} get nodes",
        scope="region",
        retryable=True,
    )


def host_port(ref: ContextRef) -> tuple[str, int]:
    """Where the server listens."""
    parts = urlsplit(ref.server)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def netloc(host: str, port: int) -> str:
    """As a URL and a Host header write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def base_path(ref: ContextRef) -> str:
    """What precedes `/api` where the server sits behind a path (Rancher and such)."""
    return urlsplit(ref.server).path.rstrip("/")


def target(ref: ContextRef, path: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """What a request line asks for: `path` as plain text, below the server's own; both parts are encoded."""
    pairs = urlencode(list(query))
    return base_path(ref) + quote(path) + (f"?{pairs}" if pairs else "")


def open_socket(ctx: Context, ref: ContextRef, credential: Credential) -> socket.socket:
    """A connected socket, TLS done, non-blocking mode off, no timeout set.

    Blocks up to `CONNECT_SECONDS` in all. Raises `Unreachable`, `TimedOut`, `Cancelled`, `CredentialsError`.
    """
    limit = time.monotonic() + CONNECT_SECONDS
    if ctx.deadline is not None and ctx.deadline < limit:
        limit = ctx.deadline
    ctx.cancel.check()
    sock: socket.socket | None = None
    undo = ctx.cancel.on_cancel(lambda: interrupt(sock))
    try:
        host, port = host_port(ref)
        proxy = _proxy(ref, host, port)
        sock = _connect(ctx.cancel, *(proxy[:2] if proxy else (host, port)), limit)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
        sock.settimeout(_left(limit))
        if proxy:
            _tunnel(sock, host, port, proxy[2])
        if ref.server.startswith("https:"):
            context = _tls(ref, credential)
            name = str(ref.cluster.get("tls-server-name") or host)
            sock = context.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
            sock.do_handshake()
        sock.settimeout(None)
        return sock
    except OSError as error:  # ssl errors, resolver errors and timeouts are OSErrors all
        if sock is not None:
            sock.close()
        ctx.cancel.check()
        if ctx.deadline is not None and time.monotonic() >= ctx.deadline:
            raise TimedOut(f"connecting to Kubernetes context {ref.name!r} at {ref.server}") from None
        raise unreachable(ref, _reason(error)) from None
    finally:
        undo()


def interrupt(sock: socket.socket | None) -> None:
    """Make whoever waits on a socket stop at once; safe from a signal handler and another thread."""
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _left(limit: float) -> float:
    left = limit - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def _reason(error: OSError) -> str:
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "its name can't be resolved"
    return (error.strerror or str(error) or type(error).__name__).lower()


def _connect(cancel: CancelToken, host: str, port: int, limit: float) -> socket.socket:
    """The first address that answers; the time left is shared among those not yet tried."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError("no address")
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.connect_ex(address)
            wait = _left(limit) / (len(addresses) - index)
            readable, writable, _ = select.select([cancel.fileno()], [sock], [], wait)
            if readable:
                raise OSError("cancelled")
            if not writable:
                raise TimeoutError("no answer in time")
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            return sock
        except OSError as error:
            sock.close()
            failure = error
            if cancel.cancelled:
                break
    raise failure


def _keep_alive(sock: socket.socket) -> None:
    """A peer that vanished without a word is noticed within a minute, also on a silent watch."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# --- TLS ---------------------------------------------------------------------------------------------


def _tls(ref: ContextRef, credential: Credential) -> ssl.SSLContext:
    import ssl

    cluster = ref.cluster
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if str(cluster.get("insecure-skip-tls-verify")).lower() == "true":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif data:
            context.load_verify_locations(cadata=base64.b64decode(data).decode())
        elif file:
            context.load_verify_locations(cafile=file)
        else:
            context.load_default_certs()
    except (ValueError, ssl.SSLError, OSError) as error:
        what = f"certificate authority {file}" if file and not data else "certificate-authority-data"
        reason = getattr(error, "strerror", None) or "not a PEM certificate"
        raise CredentialsError(
            f"Kubernetes context {ref.name!r}: {what}: {reason}", remedy="get the kubeconfig again"
        ) from None
    credential.load_into(context)
    return context


# --- proxies -----------------------------------------------------------------------------------------


def _proxy(ref: ContextRef, host: str, port: int) -> tuple[str, int, str] | None:
    """Host, port and Authorization of the HTTP proxy to use: the cluster's own, else the environment's."""
    url = reveal(ref.cluster.get("proxy-url")) or _environment_proxy(ref, host, port)
    if not url:
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        from sky.api import NotSupported

        raise NotSupported(
            f"Kubernetes context {ref.name!r}: proxies of kind {parts.scheme!r} are not supported",
            remedy="use an http:// proxy (CONNECT)",
        )
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = base64.b64encode(pair.encode()).decode()
    return parts.hostname, parts.port or 80, authorization


def _environment_proxy(ref: ContextRef, host: str, port: int) -> str:
    name = "HTTP_PROXY" if ref.server.startswith("http:") else "HTTPS_PROXY"
    url = os.environ.get(name) or os.environ.get(name.lower()) or ""
    if not url or host == "localhost" or host == "::1" or host.startswith("127."):
        return ""
    return "" if _bypassed(host, port) else url


def _bypassed(host: str, port: int) -> bool:
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    rules = (os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "").split(",")
    for rule in (item.strip().lower() for item in rules):
        if rule == "*" or (rule and rule in (host.lower(), f"{host.lower()}:{port}")):
            return True
        if address is not None and "/" in rule:
            try:
                if address in ipaddress.ip_network(rule, strict=False):
                    return True
            except ValueError:
                continue
        elif rule and address is None and host.lower().endswith("." + rule.lstrip("*").lstrip(".")):
            return True
    return False


def _tunnel(sock: socket.socket, host: str, port: int, authorization: str) -> None:
    target = netloc(host, port)
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if authorization:
        lines.append(f"Proxy-Authorization: Basic {authorization}")
    sock.sendall("\r\n".join((*lines, "", "")).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)  # the bytes after the head belong to TLS
        if not byte or len(head) > 16384:
            raise OSError("the proxy closed the connection")
        head += byte
    status = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    if len(status) < 2 or status[1] != "200":
        raise OSError(f"the proxy answers {' '.join(status[1:])}")
