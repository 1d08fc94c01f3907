"""Who we are to an API server: what a kubeconfig's user entry means, as headers and a client certificate.

Certificates, tokens, token files, passwords and login programs (`exec`) are done here. A legacy
`auth-provider` is left to the official client, which is imported only then.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sky.api import Context, CredentialsError
from sky_kubernetes.kubeconfig import ContextRef, load, reveal

if TYPE_CHECKING:
    import ssl

_TOKEN_FILE_SECONDS = 60.0
"""How long a token file's content is used before it is read again: kubelet rotates it well before expiry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What to present to the server. `repr` shows nothing of it."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: str = field(default="", repr=False)
    """PEM text, or empty."""
    key: str = field(default="", repr=False)
    certificate_file: str = ""
    key_file: str = ""
    expires_at: float | None = None
    """Seconds since the epoch; None if it isn't known to expire."""
    login: str = ""
    """What logs in again, for people, when the server refuses it."""

    @property
    def stale(self) -> bool:
        return self.expires_at is not None and time.time() >= self.expires_at

    def load_into(self, context: ssl.SSLContext) -> None:
        """Add the client certificate, if there is one. Raises `CredentialsError` if it isn't usable."""
        if not self.certificate and not self.certificate_file:
            return
        import ssl

        try:
            with _as_file(self.certificate, self.certificate_file) as certificate:
                if self.key or self.key_file:
                    with _as_file(self.key, self.key_file) as key:
                        context.load_cert_chain(certificate, key)
                else:
                    context.load_cert_chain(certificate)
        except (ssl.SSLError, OSError) as error:
            which = self.certificate_file or "of the kubeconfig"
            reason = error.strerror or "not a certificate with its key"
            raise CredentialsError(
                f"client certificate {which}: {reason}", remedy=self.login or "get the kubeconfig again"
            ) from None


def resolve(ctx: Context, ref: ContextRef, *, refresh: bool = False) -> Credential:
    """The credential of a context's user. Blocks while a login program runs or a file is read.

    `refresh` ignores what was kept of an earlier login: for when the server has just refused it. Raises
    `CredentialsError` or `LoginExpired` with what to do.
    """
    user = ref.user
    headers = _impersonation(user)
    if user.get("auth-provider"):
        headers["Authorization"] = _by_official_client(ref)
        return Credential(headers=headers, expires_at=time.time() + _TOKEN_FILE_SECONDS)
    login = _login_hint(ref)
    expires_at = None
    certificate = _decoded(user.get("client-certificate-data"), "client-certificate-data")
    key = _decoded(user.get("client-key-data"), "client-key-data")
    certificate_file = "" if certificate else str(user.get("client-certificate") or "")
    key_file = "" if key else str(user.get("client-key") or "")
    if token_file := str(user.get("tokenFile") or ""):
        headers["Authorization"] = f"Bearer {_read_token(token_file)}"
        expires_at = time.time() + _TOKEN_FILE_SECONDS
    elif user.get("token"):
        headers["Authorization"] = f"Bearer {reveal(user['token'])}"
    elif user.get("username"):
        pair = f"{reveal(user['username'])}:{reveal(user.get('password'))}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif user.get("exec") and not (certificate or certificate_file):
        from sky_kubernetes.exec_login import log_in

        status = log_in(ctx, ref, refresh=refresh)
        if status.token:
            headers["Authorization"] = f"Bearer {status.token}"
        certificate, key, expires_at = status.certificate, status.key, status.expires_at
    for name, value in headers.items():
        if any(ord(c) < 32 for c in value):
            raise CredentialsError(
                f"the {name} of context {ref.name!r} holds a control character", remedy=login
            )
    return Credential(
        headers=headers,
        certificate=certificate,
        key=key,
        certificate_file=certificate_file,
        key_file=key_file,
        expires_at=expires_at,
        login=login,
    )


def _login_hint(ref: ContextRef) -> str:
    spec = ref.user.get("exec")
    if isinstance(spec, Mapping):
        command = Path(str(spec.get("command") or "")).name
        known = {
            "aws": "aws sso login (or renew your AWS credentials)",
            "aws-iam-authenticator": "renew your AWS credentials",
            "gke-gcloud-auth-plugin": "gcloud auth login",
            "kubelogin": "kubelogin convert-kubeconfig, or az login",
            "tsh": "tsh login",
        }
        return f"log in again: {known.get(command, f'what {command} needs')}"
    return "get the kubeconfig again from your cluster's provider"


def _impersonation(user: Mapping[str, Any]) -> dict[str, str]:
    headers = {}
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
    if user.get("as-uid"):
        headers["Impersonate-Uid"] = str(user["as-uid"])
    groups = user.get("as-groups") or ()
    if len(groups) > 1:
        raise CredentialsError(
            "a kubeconfig user with several as-groups isn't supported", remedy="use one group"
        )
    if groups:
        headers["Impersonate-Group"] = str(groups[0])
    return headers


def _decoded(value: Any, name: str) -> str:
    if not value:
        return ""
    try:
        return base64.b64decode("".join(reveal(value).split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise CredentialsError(
            f"{name} of the kubeconfig isn't base64", remedy="get the kubeconfig again"
        ) from None


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise CredentialsError(f"token file {path}: {error.strerror}") from error


@contextlib.contextmanager
def _as_file(text: str, path: str) -> Iterator[str]:
    """A path that `ssl` can open for a PEM text, which must not touch a disk where that can be helped."""
    if not text:
        yield path
        return
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name


def _by_official_client(ref: ContextRef) -> str:
    """The Authorization header that the official client makes of a legacy `auth-provider`."""
    import kubernetes

    configuration = kubernetes.client.Configuration()
    files = os.pathsep.join(key[0] for key in load().files)
    try:
        load_config: Any = kubernetes.config.load_kube_config
        load_config(files, ref.name, configuration, persist_config=False)
        header = configuration.auth_settings().get("BearerToken", {}).get("value")
    except Exception as error:  # noqa: BLE001 - each auth provider's SDK raises its own
        header, reason = None, f": {type(error).__name__}"
    else:
        reason = ""
    if not header:
        provider = ref.user["auth-provider"].get("name")
        raise CredentialsError(
            f"the auth-provider {provider!r} of context {ref.name!r} gave no token{reason}",
            remedy="log in again, or move that user to a login program (exec)",
        )
    return str(header)
