"""The few types that are stored or tagged, as JSON and back. Unknown fields of a newer version are ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sky.types import Accelerator, Allocation, Host, Offer


def offer_from(data: Mapping[str, Any] | None) -> Offer | None:
    if data is None:
        return None
    data = _known(Offer, data)
    accelerator = data.pop("accelerator", None)
    return Offer(**data, accelerator=Accelerator(**accelerator) if accelerator else None)


def allocation_to(allocation: Allocation | None) -> str | None:
    return json.dumps(asdict(allocation)) if allocation is not None else None


def allocation_from(text: str | None) -> Allocation | None:
    if text is None:
        return None
    data = _known(Allocation, json.loads(text))
    data["offer"] = offer_from(data.get("offer"))
    return Allocation(**data)


def hosts_to(hosts: tuple[Host, ...]) -> str:
    return json.dumps([asdict(host) for host in hosts])


def hosts_from(text: str) -> tuple[Host, ...]:
    return tuple(Host(**_known(Host, row)) for row in json.loads(text))


def _known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in cls.__dataclass_fields__}  # type: ignore[attr-defined]
