"""The shape of what users write for Kubernetes: `pod_config`, names, image references. Pure.

Checked once, where settings are read, so that nothing later meets a list where it expects a mapping, and a
mistake is told by its key rather than by what broke on it. What isn't named here is the API server's to judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sky.api import UsageError
from sky_kubernetes import quantities

_TEXT, _AMOUNT = "a string", "an amount such as 2, 500m or 4Gi"
# A string is what a value must be; a mapping has its keys' shapes (`*`: any other key); a list its items' shape.
_TEXTS = {"*": _TEXT}
_NAMED = [{"name": _TEXT}]
_CONTAINER = {
    "name": _TEXT,
    "image": _TEXT,
    "command": [_TEXT],
    "args": [_TEXT],
    "env": [{"name": _TEXT, "value": _TEXT}],
    "envFrom": [{}],
    "volumeMounts": [{"name": _TEXT, "mountPath": _TEXT}],
    "volumeDevices": [{"devicePath": _TEXT}],
    "ports": [{}],
    "resources": {"requests": {"*": _AMOUNT}, "limits": {"*": _AMOUNT}},
    "securityContext": {},
    "restartPolicy": _TEXT,
}
_TERM = {"matchExpressions": [{"key": _TEXT, "operator": _TEXT}], "matchFields": [{}]}
_POD_CONFIG = {
    "metadata": {"labels": _TEXTS, "annotations": _TEXTS},
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "volumes": _NAMED,
        "imagePullSecrets": _NAMED,
        "hostAliases": [{"ip": _TEXT}],
        "tolerations": [{"key": _TEXT, "operator": _TEXT, "value": _TEXT, "effect": _TEXT}],
        "nodeSelector": _TEXTS,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}
        },
        "overhead": {"*": _AMOUNT},
        "securityContext": {},
    },
}

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REGISTRY = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::\d+)?"
_IMAGE = re.compile(
    rf"(?:{_REGISTRY}/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z0-9+._-]+:[0-9A-Fa-f]{32,})?"
)


def check_pod_config(value: object, key: str) -> None:
    """Raise `UsageError`, naming the place below `key`, if a `pod_config` hasn't the shape of a pod."""
    _check(value, _POD_CONFIG, key)


def check_namespace(name: object, key: str) -> None:
    """Raise `UsageError` for what can't be the name of a namespace."""
    if not isinstance(name, str) or not _LABEL.fullmatch(name):
        raise UsageError(
            f"{key}: {name!r} can't be a namespace",
            remedy="use at most 63 of a-z, 0-9 and -, beginning and ending with a letter or digit",
        )


def check_image(image: object, key: str) -> None:
    """Raise `UsageError` for what isn't a reference of an image."""
    if not isinstance(image, str) or not _IMAGE.fullmatch(image):
        raise UsageError(
            f"{key}: {image!r} isn't the name of an image",
            remedy="write registry/repository:tag, the repository in lower case",
        )


def _check(value: object, shape: Any, place: str) -> None:
    if value is None:  # removes what Sky would have set
        return
    if isinstance(shape, str):
        _check_plain(value, shape, place)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _unlike(place, "a list", value)
        for index, item in enumerate(value):
            if item is None:
                raise _unlike(
                    f"{place}[{index}]", shape[0] if isinstance(shape[0], str) else "a mapping", item
                )
            _check(item, shape[0], f"{place}[{index}]")
    else:
        if not isinstance(value, Mapping):
            raise _unlike(place, "a mapping", value)
        for key, item in value.items():
            if not isinstance(key, str):
                raise UsageError(f"{place}: keys must be strings, not {key!r}", remedy="put it in quotes")
            inner = shape.get(key, shape.get("*"))
            if inner is not None:
                _check(item, inner, f"{place}.{key}")


def _check_plain(value: object, shape: str, place: str) -> None:
    if shape == _TEXT:
        if not isinstance(value, str):
            plain = isinstance(value, int | float)
            raise _unlike(place, shape, value, remedy="put it in quotes" if plain else "")
        return
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        quantities.parse(value)
    except ValueError:
        raise _unlike(place, shape, value) from None


def _unlike(place: str, wanted: str, value: object, remedy: str = "") -> UsageError:
    found = " ".join(repr(value).split())
    found = found if len(found) <= 80 else found[:79] + "…"
    return UsageError(f"{place}: expected {wanted}, not {found}", remedy=remedy)
