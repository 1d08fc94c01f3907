"""Who the user is to Kubernetes, and what that user may do in each allowed context."""

from __future__ import annotations

import base64
import binascii
import json

from sky.api import (
    Context,
    CredentialsError,
    CredentialStatus,
    SkyError,
    TimedOut,
    Unreachable,
    UsageError,
    ask_each,
)
from sky_kubernetes import api_client, kubeconfig
from sky_kubernetes.settings import allowed_contexts, load_kubeconfig, settings

_PROBE_SECONDS = 8.0
NEEDED = (
    ("create", "pods", ""),
    ("get", "pods", ""),
    ("list", "pods", ""),
    ("watch", "pods", ""),
    ("delete", "pods", ""),
    ("create", "pods", "exec"),
    ("get", "pods", "exec"),
)
"""(verb, resource, subresource) in the namespace; `rbac.yaml` grants these and the optional ones."""


def check_credentials(ctx: Context) -> CredentialStatus:
    """Usable if any allowed context is; `details` has one line for each. Blocks.

    Raises `Unreachable` or `TimedOut` when none of them answers.
    """
    try:
        names = allowed_contexts(ctx, load_kubeconfig(ctx))
    except (CredentialsError, UsageError) as error:
        return CredentialStatus(ok=False, reason=error.message, remedy=error.remedy)
    if not names:
        return CredentialStatus(
            ok=False, reason="no context is allowed", remedy="set kubernetes.allowed_contexts"
        )
    found = ask_each(ctx, names, _missing, _PROBE_SECONDS, kubeconfig.called)
    answers = dict(zip(names, found, strict=True))
    good = [name for name, answer in answers.items() if answer == []]
    details = tuple(_line(name, answer) for name, answer in answers.items())
    if good:
        return CredentialStatus(ok=True, details=details)
    errors = [answer for answer in answers.values() if isinstance(answer, SkyError)]
    if len(errors) == len(names) and all(isinstance(e, Unreachable | TimedOut) for e in errors):
        raise errors[0]
    told = next((e for e in errors if not isinstance(e, Unreachable | TimedOut)), None)
    return CredentialStatus(
        ok=False,
        reason=told.message if told else details[0],
        remedy=told.remedy if told else "ask the cluster's admin for the role in the plugin's rbac.yaml",
        details=details,
    )


def identity(ctx: Context) -> str | None:
    """The principal in the first allowed context: a token's subject, else the kubeconfig's name of the user.

    Without network, and without the cluster's name or address: who moves between clusters, or whose cluster
    moves, stays the same person, and each allocation is pinned to its cluster anyway. None where the context
    presents no user. Raises `CredentialsError` or `UsageError` where there is no context.
    """
    config = load_kubeconfig(ctx)
    names = allowed_contexts(ctx, config)
    if not names:
        return None
    ref = config.context(names[0])
    return _token_subject(ref) or ref.user_name or None


def _missing(ctx: Context, name: str) -> list[str]:
    """The permissions that the user lacks, as `verb resource`."""
    ref = load_kubeconfig(ctx).context(name)
    namespace = settings(ctx, ref).namespace
    lacking = []
    with api_client.connect(ctx, name) as api:
        for verb, resource, subresource in NEEDED:
            attributes = {
                "namespace": namespace,
                "verb": verb,
                "resource": resource,
                "subresource": subresource,
            }
            review = api.post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": attributes},
                },
            )
            if not review["status"].get("allowed"):
                lacking.append(f"{verb} {resource}" + (f"/{subresource}" if subresource else ""))
        return [f"may not {permission} in namespace {namespace!r}" for permission in lacking]


def _line(name: str, answer: list[str] | SkyError) -> str:
    if isinstance(answer, SkyError):
        return f"{name}: {'; '.join(filter(None, (answer.message, answer.remedy)))}"
    return f"{name}: {'; '.join(answer) or 'ok'}"


def _token_subject(ref: kubeconfig.ContextRef) -> str:
    """`sub` of a JWT that stands in the kubeconfig; not verified: the server does that."""
    parts = kubeconfig.reveal(ref.user.get("token")).split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return ""
    return str(claims.get("sub") or "") if isinstance(claims, dict) else ""
