"""One name for a card, whatever tells of it."""

from __future__ import annotations

import pytest

from muster_kernel.cards import card_of
from muster_kernel.mig import CARDS


@pytest.mark.parametrize(
    ("product", "mebibytes", "name"),
    [
        ("NVIDIA H100 80GB HBM3", 0, "H100-80GB"),
        ("NVIDIA-H200", 0, "H200-141GB"),
        ("NVIDIA A100-SXM4-40GB", 0, "A100-40GB"),
        ("NVIDIA-A100-PCIE-80GB", 0, "A100-80GB"),
        ("NVIDIA-H100-NVL", 95_830, "H100-94GB"),
        ("NVIDIA-H100-PCIe", 81_559, "H100-80GB"),
        ("NVIDIA B200", 0, "B200-180GB"),
        ("NVIDIA-A30", 0, "A30-24GB"),
        ("NVIDIA-B300", 0, "B300"),
        ("NVIDIA-H100", 0, "H100"),  # two sizes, and nothing says which
        ("NVIDIA-H100", 40_000, "H100"),  # no card of that family has so little
        ("NVIDIA-L40S", 46_068, "L40S"),
        ("Tesla-T4", 0, "T4"),
        ("NVIDIA GeForce RTX 4090", 0, "GeForce-RTX-4090"),
        ("", 0, ""),
    ],
)
def test_a_card_has_one_name(product: str, mebibytes: int, name: str) -> None:
    assert card_of(product, mebibytes << 20) == name


@pytest.mark.parametrize("name", sorted(CARDS))
def test_a_name_of_ours_stays_as_it_is(name: str) -> None:
    assert card_of(name) == card_of(f"NVIDIA-{name}") == name
