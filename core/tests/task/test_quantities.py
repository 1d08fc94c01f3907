"""Amounts: every spelling that users have, and a clear no to the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sky.errors import UsageError
from sky.task import quantities as q
from sky.types import Accelerator, Quantity


@pytest.mark.parametrize(
    ("text", "value", "mode"),
    [
        ("4", 4, "exact"),
        ("4+", 4, "at_least"),
        (" 4 + ", 4, "at_least"),
        ("0.5", 0.5, "exact"),
        ("1e1", 10, "exact"),
    ],
)
def test_cpus(text: str, value: float, mode: Any) -> None:
    assert q.parse_cpus(text) == Quantity(value, mode)


@pytest.mark.parametrize(
    ("text", "value", "mode"),
    [
        ("16", 16, "exact"),
        ("16+", 16, "at_least"),
        ("4x", 4, "per_cpu"),
        ("16GB", 16, "exact"),
        ("16Gi", 16, "exact"),
        ("16 GiB+", 16, "at_least"),
        ("16g", 16, "exact"),
        ("512MB", 0.5, "exact"),
        ("1TB", 1024, "exact"),
    ],
)
def test_memory(text: str, value: float, mode: Any) -> None:
    assert q.parse_memory(text) == Quantity(value, mode)


@pytest.mark.parametrize("text", ["256", "256GB", "256Gi", "0.25TB"])
def test_disk_size(text: str) -> None:
    assert q.parse_disk_size(text) == 256


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "0", "0.0", "nan", "inf", "4x+", "4++", "1,5", "٤", "9" * 5000, "4ZB"]
)
@pytest.mark.parametrize(
    "parse",
    [q.parse_cpus, q.parse_memory, q.parse_disk_size, q.parse_number],
    ids=lambda parse: parse.__name__,
)
def test_nonsense_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize("text", ["4x", "16GB"])
def test_cpus_have_no_unit(text: str) -> None:
    with pytest.raises(UsageError, match="not a number of vCPUs"):
        q.parse_cpus(text)


def test_too_much_is_refused() -> None:
    with pytest.raises(UsageError, match="out of range"):
        q.parse_memory("9e307TB")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H100:8", Accelerator("H100", 8)),
        ("h100", Accelerator("h100", 1)),
        ("V100:1.0", Accelerator("V100", 1)),
        ("T4:0.125", Accelerator("T4", 0.125)),
        ("NVIDIA-A100-SXM4-80GB:2", Accelerator("NVIDIA-A100-SXM4-80GB", 2)),
        ("a100_3g.20gb:2", Accelerator("a100_3g.20gb", 2)),
    ],
)
def test_accelerator(text: str, expected: Any) -> None:
    assert q.parse_accelerator(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":", ":8", "H100:", "H100:0", "H100:-1", "H100:x", "H100:1:2", "a b:1", "H100:nan"]
)
def test_accelerators_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        q.parse_accelerator(text)


def test_accelerators_of_an_option() -> None:
    both = (Accelerator("T4", 1), Accelerator("L4", 2))
    assert q.parse_accelerators("{T4, L4:2}") == (both, False)
    assert q.parse_accelerators("[T4:1, L4:2]") == (both, True)
    assert q.parse_accelerators("T4") == (both[:1], False)


@pytest.mark.parametrize("value", [1, 0.1, 1 / 3, 1234567.0, 1e-7, 123456789012345.0, 1e14])
def test_text_of_a_number_reads_back(value: float) -> None:
    assert q.parse_number(q.number_text(value)) == value
