"""What is written on pods so that they are found again by anyone, without our state.

Labels select and have a narrow alphabet and 63 characters; names that people choose have neither limit. So
every tag is written twice: shortened with a digest as a label, to select by, and unchanged in an
annotation, which is what is believed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

CLUSTER = "sky.dev/cluster"
RANK = "sky.dev/rank"
CLUSTER_NAME = "sky.dev/cluster-name"
USER = "sky.dev/user"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "sky"
TAGS = "sky.dev/tags"
"""Annotation: the whole mapping of tags as JSON."""
ALLOCATION = "sky.dev/allocation"
"""Annotation: cluster name, user, node count and offer as JSON."""
_TAG_PREFIX = "tag.sky.dev/"

_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)


def valid(key: str, value: str) -> bool:
    """Whether Kubernetes takes this as a label."""
    return bool(_KEY.fullmatch(key) and _VALUE.fullmatch(value))


def safe(text: str) -> str:
    """A label value for any text: itself where that is one, else what can be kept of it and a digest.

    Different texts have different values, also when they begin alike.
    """
    if _VALUE.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:48].strip("._-")
    return f"{kept}-{digest}" if kept else digest


def tag_labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The labels that stand for `tags`, for writing and for selecting."""
    return {_TAG_PREFIX + (safe(key) or "empty"): safe(value) for key, value in tags.items()}


def selector(labels: Mapping[str, str]) -> str:
    """A query for what carries at least `labels`."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def own_selector(cluster_id: str | None = None, tags: Mapping[str, str] | None = None) -> str:
    """A query for Sky's pods: of one cluster, with some tags, or all."""
    wanted = {MANAGED_BY: MANAGER, **tag_labels(tags or {})}
    if cluster_id is not None:
        wanted[CLUSTER] = cluster_id
    return selector(wanted)


def annotation(pod: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An annotation of ours, parsed; empty where it is missing or somebody spoiled it."""
    text = (pod["metadata"].get("annotations") or {}).get(key, "")
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
