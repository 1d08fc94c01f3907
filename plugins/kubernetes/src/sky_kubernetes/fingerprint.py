"""Where the credentials come from, as a digest: whoever caches an identity asks whether it still holds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from sky.api import Context, CredentialsError, UsageError
from sky_kubernetes.kubeconfig import IN_CLUSTER, SERVICE_ACCOUNT, load
from sky_kubernetes.kubeconfig_file import PATH_KEYS, FileKey, digest, write_private
from sky_kubernetes.settings import allowed_contexts


def of(ctx: Context) -> str:
    """`sky_credential_fingerprint`: of the contexts that the configuration allows."""
    try:
        names = allowed_contexts(ctx, load(directory=ctx.directory))
    except (UsageError, CredentialsError):
        names = ()  # no usable kubeconfig is a source too, and changes when there is one
    return fingerprint(ctx.directory, names)


def fingerprint(directory: Path, contexts: Sequence[str] = ()) -> str:
    """A digest of where credentials come from, with no SDK and no network.

    It changes with KUBECONFIG, with any of its files, with the certificate and token files of `contexts`
    (default: the current one) and, where a login program is used, with the environment and files that such
    programs read. Environment values enter only under a key that is private to `directory`.
    """
    config = load(directory=directory)
    parts: list[object] = [os.environ.get("KUBECONFIG", ""), config.files, config.current, tuple(contexts)]
    if config.current == IN_CLUSTER:
        parts.append((config.contexts[IN_CLUSTER].server, SERVICE_ACCOUNT.joinpath("token").exists()))
    for name in contexts or filter(None, (config.current,)):
        ref = config.contexts.get(name)
        if ref is None or ref.name == IN_CLUSTER:
            continue
        parts.append((name, ref.server, ref.user_name))
        parts.extend(_stat_key(str(ref.user[key])) for key in PATH_KEYS if ref.user.get(key))
        if "exec" in ref.user or "auth-provider" in ref.user:
            parts.extend(_login_sources(directory))
    return digest(repr(parts).encode())


_LOGIN_PREFIXES = (
    "AWS_",
    "AZURE_",
    "AAD_",
    "ARM_",
    "GOOGLE_",
    "CLOUDSDK_",
    "OIDC_",
    "OCI_",
    "TSH_",
    "TELEPORT_",
)
_LOGIN_FILES = (
    "~/.aws/config",
    "~/.aws/credentials",
    "~/.config/gcloud/active_config",
    "~/.config/gcloud/credentials.db",
    "~/.azure/azureProfile.json",
)


def _login_sources(directory: Path) -> list[object]:
    import hmac

    environment = sorted(item for item in os.environ.items() if item[0].startswith(_LOGIN_PREFIXES))
    mac = hmac.new(_private_key(directory), repr(environment).encode(), "sha256").hexdigest()
    return [mac, *(_stat_key(str(Path(path).expanduser())) for path in _LOGIN_FILES)]


def _private_key(directory: Path) -> bytes:
    path = directory / "fingerprint.key"
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    write_private(path, os.urandom(32))
    return path.read_bytes()


def _stat_key(path: str) -> FileKey | None:
    try:
        return FileKey.of(path, Path(path).stat())
    except OSError:
        return None
