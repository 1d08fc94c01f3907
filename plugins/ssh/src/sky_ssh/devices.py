"""GPUs by name: what `nvidia-smi` calls them, and what people write, as one canonical spelling each.

`NVIDIA H100 80GB HBM3` is `H100`, `NVIDIA A100-SXM4-80GB` is `A100-80GB`, without regard to case. A memory
size stays only where the kind is sold in several and this isn't the usual one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_NOISE = re.compile(r"NVIDIA|TESLA|GEFORCE|AMD|INSTINCT|NVLINK|SXM\d?|PCI-?E|HBM\dE?|OAM", re.IGNORECASE)
_USUAL_GB: dict[str, tuple[int, ...]] = {
    "A100": (40,),
    "H100": (80,),
    "H200": (141,),
    "B200": (180, 192),
    "V100": (16,),
    "P100": (16,),
    "T4": (15, 16),
    "MI300X": (192,),
    **dict.fromkeys(("L4", "A10", "A10G", "RTX3090", "RTX4090"), (24,)),
    **dict.fromkeys(("L40", "L40S", "A40", "RTXA6000"), (48,)),
}
_SHORT = {"A6000": "RTXA6000", "5090": "RTX5090", "4090": "RTX4090", "3090": "RTX3090"}


def canonical(spelling: str) -> str:
    """The one name of a kind, whoever spelt it."""
    words = [w.upper() for w in re.split(r"[-_\s]+", spelling) if w and not _NOISE.fullmatch(w)]
    sizes = [w for w in words if re.fullmatch(r"\d+GB", w)]
    words = [w for w in words if w not in sizes]
    if words[:1] == ["RTX"] and len(words) > 1:
        words[:2] = ["RTX" + words[1]]
    name = "-".join(words) or spelling.strip().upper()
    name = _SHORT.get(name, name)
    usual = _USUAL_GB.get(name.partition("-")[0], ())
    if sizes and int(sizes[0][:-2]) not in usual:
        name += f"-{sizes[0]}"
    return name


def near(wanted: str, available: Iterable[str], limit: int = 3) -> list[str]:
    """Names of `available` that someone who wrote `wanted` may have meant, the likeliest first."""
    names = sorted(set(available))
    name = canonical(wanted)
    base = name.partition("-")[0]
    family = [n for n in names if n != name and n.partition("-")[0] == base]
    alike = difflib.get_close_matches(name, names, n=limit, cutoff=0.6)
    return list(dict.fromkeys(family + alike + names))[:limit]
