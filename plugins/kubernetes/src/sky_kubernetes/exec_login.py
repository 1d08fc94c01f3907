"""Login programs of a kubeconfig (`users[].user.exec`): client.authentication.k8s.io/v1 and v1beta1."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from sky.api import Context, CredentialsError, Event, LoginExpired, TimedOut
from sky_kubernetes.kubeconfig import ContextRef, reveal
from sky_kubernetes.kubeconfig_file import digest, write_private

_GROUP = "client.authentication.k8s.io"
_MARGIN_SECONDS = 60.0
"""A kept login is used until this long before it expires."""
_LIMIT_SECONDS = 120.0
"""A program that asks someone to log in in a browser gets this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginStatus:
    """What a login program answered."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    expires_at: float | None = None
    """Already less the margin."""


def log_in(ctx: Context, ref: ContextRef, *, refresh: bool = False) -> LoginStatus:
    """Run the context's login program, or give what an earlier run answered while that is good.

    Kept in `ctx.directory`, mode 0600, only if it says when it expires. Blocks while the program runs.
    Raises `LoginExpired` with the program's last line if it fails, `CredentialsError` if it isn't there.
    """
    spec: Mapping[str, Any] = ref.user["exec"]
    argv = [str(spec.get("command") or ""), *(reveal(arg) for arg in spec.get("args") or ())]
    version = str(spec.get("apiVersion") or "")
    if version not in (f"{_GROUP}/v1", f"{_GROUP}/v1beta1"):
        raise CredentialsError(
            f"context {ref.name!r}: login programs of {version or 'no apiVersion'} are not supported",
            remedy=f"set its apiVersion to {_GROUP}/v1 (a newer kubeconfig has it)",
        )
    extra = {str(item.get("name")): reveal(item.get("value")) for item in spec.get("env") or ()}
    ambient = sorted(
        item for item in os.environ.items() if item[0].startswith(("AWS_", "CLOUDSDK_", "AZURE_"))
    )
    # The name must not tell the secrets that go into it, so it carries only part of their digest.
    name = digest(repr((argv, sorted(extra.items()), ambient, ref.server, version)).encode())[:20]
    kept = ctx.directory / f"login-{name}.json"
    if not refresh and (status := _read_kept(kept.read_bytes() if kept.exists() else b"")) is not None:
        return status
    info: dict[str, Any] = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    if str(spec.get("provideClusterInfo")).lower() == "true":
        info["spec"]["cluster"] = _cluster_info(ref)
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    answer = _run(ctx, argv, environment, str(spec.get("installHint") or ""))
    status = _parse(answer, argv[0])
    if status.expires_at is not None:
        write_private(
            kept, json.dumps([status.token, status.certificate, status.key, status.expires_at]).encode()
        )
    return status


def _read_kept(content: bytes) -> LoginStatus | None:
    with contextlib.suppress(ValueError, TypeError):
        token, certificate, key, expires_at = json.loads(content)
        if time.time() < expires_at:
            return LoginStatus(token=token, certificate=certificate, key=key, expires_at=expires_at)
    return None


def _cluster_info(ref: ContextRef) -> dict[str, Any]:
    cluster = ref.cluster
    info: dict[str, Any] = {"server": ref.server}
    if cluster.get("tls-server-name"):
        info["tls-server-name"] = cluster["tls-server-name"]
    if str(cluster.get("insecure-skip-tls-verify")).lower() == "true":
        info["insecure-skip-tls-verify"] = True
    if cluster.get("certificate-authority-data"):
        info["certificate-authority-data"] = cluster["certificate-authority-data"]
    elif cluster.get("certificate-authority"):
        import base64

        with contextlib.suppress(OSError), open(cluster["certificate-authority"], "rb") as file:
            info["certificate-authority-data"] = base64.b64encode(file.read()).decode()
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == f"{_GROUP}/exec":
            info["config"] = extension.get("extension")
    return info


def _run(ctx: Context, argv: list[str], environment: Mapping[str, str], install_hint: str) -> bytes:
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        hint = install_hint.strip().splitlines()[0] if install_hint.strip() else f"install {argv[0]}"
        raise CredentialsError(f"login program {argv[0]!r}: {error.strerror}", remedy=hint) from None
    assert process.stdout is not None and process.stderr is not None
    output: list[bytes] = []
    errors: list[str] = []
    readers = [
        threading.Thread(target=_collect, args=(process.stdout, output), daemon=True),
        threading.Thread(target=_relay, args=(ctx, process.stderr, errors), daemon=True),
    ]
    for reader in readers:
        reader.start()
    limit = time.monotonic() + _LIMIT_SECONDS
    limit = limit if ctx.deadline is None else min(limit, ctx.deadline)
    undo = ctx.cancel.on_cancel(lambda: _kill(process))
    try:
        code = process.wait(max(0.0, limit - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimedOut(f"logging in: {argv[0]!r} did not end in time") from None
    finally:
        undo()
        _kill(process)
        process.wait()
    ctx.cancel.check()
    for reader in readers:
        reader.join(1.0)
    if code != 0:
        last = errors[-1] if errors else f"exit code {code}"
        hint = f"run it by hand: {' '.join(argv[:1])} …; then log in again"
        raise LoginExpired(f"login program {argv[0]!r} failed: {last}", remedy=hint)
    return b"".join(output)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, 9)


def _collect(stream: IO[bytes], output: list[bytes]) -> None:
    output.append(stream.read())


def _relay(ctx: Context, stream: IO[bytes], errors: list[str]) -> None:
    """Pass on what the program says while it runs: a device code to type in, an address to open."""
    for line in stream:
        if text := line.decode(errors="replace").strip():
            errors.append(text)
            del errors[:-5]
            ctx.emit(Event(kind="phase", message=text))


def _parse(answer: bytes, program: str) -> LoginStatus:
    status: Any = None
    with contextlib.suppress(ValueError, AttributeError):
        status = json.loads(answer).get("status")
    if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
        # What it answered may hold half a token: it isn't quoted.
        raise CredentialsError(f"login program {program!r} gave no token", remedy="run it by hand to see why")
    expires_at = None
    if text := status.get("expirationTimestamp"):
        with contextlib.suppress(ValueError):
            expires_at = datetime.datetime.fromisoformat(str(text)).timestamp() - _MARGIN_SECONDS
    return LoginStatus(
        token=str(status.get("token") or ""),
        certificate=str(status.get("clientCertificateData") or ""),
        key=str(status.get("clientKeyData") or ""),
        expires_at=expires_at,
    )
