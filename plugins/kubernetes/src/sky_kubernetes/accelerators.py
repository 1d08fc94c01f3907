"""Accelerators as Kubernetes shows them: an extended resource (how many) and a node label (which kind).

Every maker and cloud spells the kinds its own way; here they all become one canonical name each (`H100`,
`A100-80GB`, `RTX4090`, `MI300X`), without regard to case. A device that is shared or cut (MIG) is another
kind than the whole one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

LABEL_KEYS = (
    "skypilot.co/accelerator",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "gpu.nvidia.com/class",
    "karpenter.k8s.aws/instance-gpu-name",
    "amd.com/gpu.product-name",
)
"""What names a node's kind, the most deliberate first: an administrator's own label wins."""

RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "gpu.intel.com/i915", "habana.ai/gaudi")
"""Extended resources that count whole devices. Slices (`nvidia.com/mig-…`) are found by their prefix."""

_KNOWN_SPELLINGS = """
nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB NVIDIA-A100-PCIE-40GB NVIDIA-A100-SXM4-80GB
nvidia.com/gpu.product: NVIDIA-A100-PCIe-80GB NVIDIA-A100-80GB-PCIe NVIDIA-H100-80GB-HBM3
nvidia.com/gpu.product: NVIDIA-H100-PCIe NVIDIA-H100-NVL NVIDIA-H200 NVIDIA-B200 NVIDIA-L4
nvidia.com/gpu.product: NVIDIA-L40 NVIDIA-L40S NVIDIA-A10G NVIDIA-A10 NVIDIA-A40 Tesla-T4
nvidia.com/gpu.product: Tesla-V100-SXM2-16GB Tesla-V100-SXM2-32GB Tesla-P100-PCIE-16GB
nvidia.com/gpu.product: NVIDIA-GeForce-RTX-3090 NVIDIA-GeForce-RTX-4090 NVIDIA-GeForce-RTX-5090
nvidia.com/gpu.product: NVIDIA-RTX-A6000
cloud.google.com/gke-accelerator: nvidia-tesla-t4 nvidia-tesla-v100 nvidia-tesla-p100 nvidia-l4
cloud.google.com/gke-accelerator: nvidia-tesla-a100 nvidia-a100-80gb nvidia-h100-80gb
cloud.google.com/gke-accelerator: nvidia-h100-mega-80gb nvidia-h200-141gb nvidia-b200
gpu.nvidia.com/class: H100_NVLINK_80GB A100_NVLINK_80GB H200 B200 L40 L40S A40
amd.com/gpu.product-name: AMD_Instinct_MI300X AMD_Instinct_MI300X_OAM AMD_Instinct_MI250X
"""
_PLAIN_NAME_KEYS = (
    "skypilot.co/accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)

_NOISE = re.compile(r"NVIDIA|TESLA|GEFORCE|AMD|INSTINCT|NVLINK|SXM\d?|PCI-?E|HBM\dE?|OAM", re.IGNORECASE)
_USUAL_MEMORY = {
    "A100": {40},
    "H100": {80},
    "H200": {141},
    "B200": {180, 192},
    "V100": {16},
    "P100": {16},
    "T4": {15, 16},
    "MI300X": {192},
    **{name: {24} for name in ("L4", "A10", "A10G", "RTX3090", "RTX4090")},
    **{name: {48} for name in ("L40", "L40S", "A40", "RTXA6000")},
}
_ALIASES = {"A6000": "RTXA6000", "4090": "RTX4090", "3090": "RTX3090"}
_CUT = re.compile(r"[-_](MIG[-_].+|SHARED)$", re.IGNORECASE)


def canonical(spelling: str) -> str:
    """One name for every spelling: `NVIDIA-H100-80GB-HBM3`, `h100` and `H100_NVLINK_80GB` are `H100`.

    A memory size stays only where the kind is sold in several (`A100-80GB`, `V100-32GB`).
    """
    cut = _CUT.search(spelling)
    if cut:
        slice_name = cut[1].upper().replace("_", "-")
        return f"{canonical(spelling[: cut.start()])}-{slice_name}"
    words = [w.upper() for w in re.split(r"[-_\s]+", spelling) if w and not _NOISE.fullmatch(w)]
    memory = [w for w in words if re.fullmatch(r"\d+GB", w)]
    words = [w for w in words if w not in memory]
    if words[:1] == ["RTX"] and len(words) > 1:
        words[:2] = ["RTX" + words[1]]
    name = "-".join(words)
    name = _ALIASES.get(name, name)
    usual = _USUAL_MEMORY.get(name.split("-", 1)[0], set())
    if memory and int(memory[0][:-2]) not in usual:
        name = f"{name}-{memory[0]}" if name else memory[0]
    return name


def resource_of(amounts: Mapping[str, object]) -> str | None:
    """The resource that counts devices, of those a node has; None where it has none."""
    for resource in RESOURCES:
        if resource in amounts:
            return resource
    return next((r for r in sorted(amounts) if r.startswith("nvidia.com/mig-")), None)


def kind_of(labels: Mapping[str, str]) -> tuple[str, str, str] | None:
    """(canonical name, label key, label value) of a node's devices; None where no label names them."""
    for key in LABEL_KEYS:
        if labels.get(key):
            return canonical(labels[key]), key, labels[key]
    return None


def known_labels(name: str) -> dict[str, list[str]]:
    """Every label by which a node not seen yet might show that it has `name`: key → values."""
    wanted = canonical(name)
    found = {key: [wanted.lower()] for key in _PLAIN_NAME_KEYS}
    for line in _KNOWN_SPELLINGS.split("\n"):
        key, _, spellings = line.partition(": ")
        values = [s for s in spellings.split() if canonical(s) == wanted]
        if values:
            found.setdefault(key, []).extend(values)
    return found


def likely_resource(name: str) -> str:
    """The resource that counts devices of this kind, when no node can be asked."""
    return "amd.com/gpu" if re.match(r"MI\d", canonical(name)) else "nvidia.com/gpu"


def near(wanted: str, available: Iterable[str], limit: int = 3) -> list[str]:
    """Names of `available` that someone who wrote `wanted` may have meant, the likeliest first."""
    names = sorted(set(available))
    name = canonical(wanted)
    base = name.split("-", 1)[0]
    family = [n for n in names if n != name and n.split("-", 1)[0] == base]
    alike = difflib.get_close_matches(name, names, n=limit, cutoff=0.6)
    return list(dict.fromkeys(family + alike + names))[:limit]
