"""What an API server's refusals mean."""

from __future__ import annotations

import json
from typing import ClassVar

from sky.api import LoginExpired, NotPermitted, ProvisioningFailed, SkyError
from sky_kubernetes.kubeconfig import ContextRef


class ApiNotFound(SkyError):
    """404: the object, or the kind of object, isn't there."""

    kind: ClassVar[str] = "not_found"


class ApiConflict(SkyError):
    """409: it exists already, or was changed meanwhile. `reason` is `AlreadyExists` or `Conflict`."""

    kind: ClassVar[str] = "conflict"

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ApiInvalid(ProvisioningFailed):
    """400 or 422: the server refuses the object as it is; `message` is the server's own."""

    kind: ClassVar[str] = "invalid"


class ApiGone(SkyError):
    """410: a page or watch can't go on from where it was; start again."""

    kind: ClassVar[str] = "gone"


def error_of(ref: ContextRef, status: int, message: str, content: bytes = b"", login: str = "") -> SkyError:
    """The error that an HTTP status means; `content` is the answer's body, `login` what logs in again."""
    where = f"Kubernetes context {ref.name!r}"
    if status == 401:
        who = f"user {ref.user_name!r}" if ref.user_name else "no user"
        return LoginExpired(f"{where}: the server refuses the login of {who}", remedy=login)
    if status == 403:
        remedy = "ask the cluster's admin for that permission"
        return NotPermitted(f"{where}: {message}", remedy=remedy, scope="region")
    if status == 404:
        return ApiNotFound(f"{where}: {message}")
    if status == 409:
        return ApiConflict(f"{where}: {message}", reason=_field(content, "reason"))
    if status == 410:
        return ApiGone(f"{where}: {message}")
    if status in (400, 422):
        return ApiInvalid(f"{where}: {message}", scope="region")
    return SkyError(f"{where}: the server answers {status}: {message}", scope="region")


def message_of(content: bytes) -> str:
    return _field(content, "message") or content[:200].decode(errors="replace").split("\n", 1)[0].strip()


def _field(content: bytes, name: str) -> str:
    try:
        return str(json.loads(content).get(name) or "")
    except (ValueError, AttributeError):
        return ""
