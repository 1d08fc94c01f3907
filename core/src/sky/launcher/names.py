"""Names and tags: what is ours, whose it is, and how it is found again."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping
from typing import Any

from sky.errors import UsageError

TAG_ID = "sky-cluster-id"
TAG_NAME = "sky-cluster-name"
TAG_USER = "sky-user"
TAG_SPEC = "sky-spec"
"""What was asked for, as JSON: with it a row of the state is made again from the tags alone."""


def user() -> str:
    """Who launches: `$SKY_USER`, else login name and host name. The owner in the tags."""
    import getpass

    return os.environ.get("SKY_USER") or f"{getpass.getuser()}@{socket.gethostname()}"


def cluster_id(name: str) -> str:
    """A new id for a cluster of this name: readable, unique for ever, safe as a label and a host name."""
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-")
    slug = "-".join(part for part in slug.split("-") if part)[:22].rstrip("-")
    return f"sky-{slug or 'x'}-{secrets.token_hex(5)}"


def automatic() -> str:
    """A name for a cluster that wasn't given one."""
    import getpass

    return f"sky-{secrets.token_hex(2)}-{getpass.getuser()}"


def check(name: str) -> str:
    """A cluster's name may hold anything that can be printed, but what makes a path or an option of it."""
    odd = not name.strip() or not name.isprintable() or name.startswith(("-", ".")) or len(name) > 200
    if odd or "/" in name or ":" in name:
        raise UsageError(
            f"{name!r} can't be a cluster's name",
            remedy="1 to 200 printable characters without '/' and ':', not starting with '-' or '.'",
        )
    return name


def tags(cluster_id: str, name: str, spec: Mapping[str, Any]) -> dict[str, str]:
    return {TAG_ID: cluster_id, TAG_NAME: name, TAG_USER: user(), TAG_SPEC: json.dumps(spec)}
