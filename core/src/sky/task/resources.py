"""From what was read of `resources` to the alternatives that clouds are asked for.

What was read is a dict by field name; `infra` is there as cloud, region and zone, `accelerators` as the
alternatives and whether their order matters, and None takes a field back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sky.errors import UsageError
from sky.types import Accelerator, Request

MAX_ALTERNATIVES = 256
PLACE = ("cloud", "region", "zone")


def place_of(values: dict[str, Any]) -> dict[str, Any]:
    """`values` with `infra` spelt out. Raises `UsageError` when it says the same twice."""
    if "infra" not in values:
        return values
    infra = values.pop("infra")
    parts = {part: values.pop(part) for part in PLACE if part in values}
    if infra and any(value is not None for value in parts.values()):
        raise UsageError("set infra, or cloud, region and zone, not both")
    return {**values, **(infra or {**dict.fromkeys(PLACE), **parts})}


def alternatives(
    read: Mapping[str, Any], options: Mapping[str, Any], num_nodes: int, config: Mapping[str, Any]
) -> tuple[tuple[Request, ...], bool]:
    """Every request that would do, in the user's order, and whether that order is a preference.

    The fields of an alternative replace those of `resources`, and options replace both (labels are added).
    """
    base = {name: value for name, value in read.items() if name not in ("any_of", "ordered")}
    ordered = bool(read.get("ordered"))
    requests: list[Request] = []
    for alternative in read.get("any_of") or read.get("ordered") or [{}]:
        values = {**base, **alternative, **options}
        if options.get("labels"):
            values["labels"] = {**({**base, **alternative}.get("labels") or {}), **options["labels"]}
        accelerators, preferred = values.get("accelerators") or ((None,), False)
        ordered = ordered or (preferred and not read.get("any_of"))
        for accelerator in accelerators:
            request = _request(values, accelerator, num_nodes, config)
            if request not in requests:
                requests.append(request)
            if len(requests) > MAX_ALTERNATIVES:
                raise UsageError(f"more than {MAX_ALTERNATIVES} alternatives")
    return tuple(requests), ordered


def _request(
    values: Mapping[str, Any], accelerator: Accelerator | None, num_nodes: int, config: Mapping[str, Any]
) -> Request:
    return Request(
        num_nodes=num_nodes,
        cloud=values.get("cloud"),
        region=values.get("region"),
        zone=values.get("zone"),
        instance_type=values.get("instance_type"),
        cpus=values.get("cpus"),
        memory=values.get("memory"),
        accelerator=accelerator,
        use_spot=bool(values.get("use_spot")),
        disk_size_gb=values.get("disk_size"),
        disk_tier=None if values.get("disk_tier") == "none" else values.get("disk_tier"),
        image_id=values.get("image_id"),
        ports=tuple(values.get("ports") or ()),
        labels=dict(values.get("labels") or {}),
        max_price_usd_per_hour=values.get("max_hourly_cost"),
        config=config,
    )
