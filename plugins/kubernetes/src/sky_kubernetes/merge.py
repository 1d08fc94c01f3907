"""`pod_config` over what Sky makes: objects of Kubernetes merged much as `kubectl patch` merges them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sky.api import UsageError

MAIN_CONTAINER = "sky"
"""The container in which jobs run; all others are sidecars."""

# Lists of named things, as Kubernetes itself merges them: by what key their items are the same thing.
_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
}


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`: maps key by key, lists of named things by name, all else replaced; null removes.

    Items of `over` come after those of `base`. The first of `containers` is ours if it has no name.
    """
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        elif key in _MERGE_KEYS and isinstance(value, list):
            result[key] = _merged_list(key, list(result.get(key) or ()), value)
        elif key == "tolerations" and isinstance(value, list):
            result[key] = [*(result.get(key) or ()), *value]
        else:
            result[key] = value
    return result


def _merged_list(field_name: str, base: list[Any], over: list[Any]) -> list[Any]:
    by = _MERGE_KEYS[field_name]
    for index, item in enumerate(over):
        if not isinstance(item, Mapping):
            raise UsageError(f"pod_config: items of {field_name!r} must be mappings, not {item!r}")
        if by not in item and field_name == "containers" and index == 0:
            item = {by: MAIN_CONTAINER, **item}
        if by not in item:
            raise UsageError(f"pod_config: an item of {field_name!r} has no {by!r}")
        place = next((i for i, known in enumerate(base) if known.get(by) == item[by]), None)
        if place is None:
            base.append(dict(item))
        else:
            base[place] = merged(base[place], item)
    return base
