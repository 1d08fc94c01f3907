"""Every spelling met in the field becomes one name, and a name finds every spelling again."""

from __future__ import annotations

import pytest

from sky_kubernetes import accelerators

SPELLINGS = [
    ("NVIDIA-A100-SXM4-40GB", "A100"),
    ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
    ("NVIDIA-A100-PCIe-80GB", "A100-80GB"),
    ("NVIDIA-H100-80GB-HBM3", "H100"),
    ("NVIDIA-H100-NVL", "H100-NVL"),
    ("NVIDIA-H200", "H200"),
    ("NVIDIA-B200", "B200"),
    ("NVIDIA-L4", "L4"),
    ("NVIDIA-L40S", "L40S"),
    ("NVIDIA-A10G", "A10G"),
    ("NVIDIA-A10", "A10"),
    ("Tesla-T4", "T4"),
    ("Tesla-V100-SXM2-16GB", "V100"),
    ("Tesla-V100-SXM2-32GB", "V100-32GB"),
    ("NVIDIA-GeForce-RTX-4090", "RTX4090"),
    ("NVIDIA-RTX-A6000", "RTXA6000"),
    ("nvidia-tesla-t4", "T4"),
    ("nvidia-tesla-v100", "V100"),
    ("nvidia-tesla-p100", "P100"),
    ("nvidia-l4", "L4"),
    ("nvidia-tesla-a100", "A100"),
    ("nvidia-a100-80gb", "A100-80GB"),
    ("nvidia-h100-80gb", "H100"),
    ("nvidia-h100-mega-80gb", "H100-MEGA"),
    ("nvidia-h200-141gb", "H200"),
    ("nvidia-b200", "B200"),
    ("h100", "H100"),
    ("a100-80gb", "A100-80GB"),
    ("H100_NVLINK_80GB", "H100"),
    ("A40", "A40"),
    ("AMD_Instinct_MI300X", "MI300X"),
    ("rtx4090", "RTX4090"),
    ("NVIDIA-H100-80GB-HBM3-SHARED", "H100-SHARED"),
    ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-MIG-1G.5GB"),
]


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS)
def test_every_spelling_becomes_the_name_that_users_type(spelling: str, name: str) -> None:
    assert accelerators.canonical(spelling) == name
    assert accelerators.canonical(name.lower()) == name, "what we print can be typed, in any case"


def test_an_administrators_own_label_wins_over_a_detected_one() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "skypilot.co/accelerator": "h100"}
    assert accelerators.kind_of(labels) == ("H100", "skypilot.co/accelerator", "h100")
    assert accelerators.kind_of({"kubernetes.io/os": "linux"}) is None


def test_labels_known_for_a_name_are_of_no_other_kind() -> None:
    for name in {name for _, name in SPELLINGS if "MIG" not in name and "SHARED" not in name}:
        for values in accelerators.known_labels(name).values():
            assert {accelerators.canonical(v) for v in values} == {name}
    assert "nvidia-a100-80gb" in accelerators.known_labels("a100-80gb")["cloud.google.com/gke-accelerator"]
    assert "nvidia-tesla-a100" not in accelerators.known_labels("A100-80GB").get(
        "cloud.google.com/gke-accelerator", ()
    )


def test_near_misses_begin_with_the_same_family() -> None:
    assert accelerators.near("A100", ["T4", "A100-80GB", "A10G"])[0] == "A100-80GB"
    assert accelerators.near("H10", ["T4", "H100"])[0] == "H100"
    assert accelerators.near("nonsense", ["T4"]) == ["T4"], "what there is, when nothing is alike"


@pytest.mark.parametrize(
    ("amounts", "resource"),
    [
        ({"cpu": 1, "nvidia.com/gpu": 8}, "nvidia.com/gpu"),
        ({"amd.com/gpu": 8}, "amd.com/gpu"),
        ({"nvidia.com/mig-1g.5gb": 7}, "nvidia.com/mig-1g.5gb"),
        ({"cpu": 1}, None),
    ],
)
def test_the_resource_that_counts_devices(amounts: dict[str, int], resource: str | None) -> None:
    assert accelerators.resource_of(amounts) == resource
