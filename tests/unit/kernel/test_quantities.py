"""Amounts are exact: hundredths and sevenths of a card, bytes, thousandths of a CPU; the rest is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_kernel import quantities as q


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("512", 512),
        ("1K", 1000),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 << 29),
        ("2G", 2 * 10**9),
        ("1Ei", 1 << 60),
    ],
)
def test_memory(text: str, amount: int) -> None:
    assert q.parse_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1Zi", "10m", "0.0001K", "9" * 19 + "E", "1 G", "1e3", "9" * 60])
def test_memory_refused(text: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        q.parse_bytes(text)


@pytest.mark.parametrize(("text", "amount"), [("2", 2000), ("0.5", 500), ("250m", 250), ("1k", 1_000_000)])
def test_cpu(text: str, amount: int) -> None:
    assert q.parse_milli_cpu(text) == amount


@pytest.mark.parametrize("text", ["1Gi", "0.5m", "0.0001", "x"])
def test_cpu_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cpu"):
        q.parse_milli_cpu(text)


@pytest.mark.parametrize(
    ("text", "devices", "milli", "units"),
    [
        ("0", 0, 0, 0),
        ("0.01", 1, 10, 70),
        ("0.5", 1, 500, 3500),
        ("1", 1, 1000, 7000),
        ("1.0", 1, 1000, 7000),
        ("8", 8, 1000, 56000),
    ],
)
def test_gpu(text: str, devices: int, milli: int, units: int) -> None:
    request = q.parse_gpu(text)
    assert (request.devices, request.milli, request.units) == (devices, milli, units)


@pytest.mark.parametrize("text", ["0.001", "-1", "1.5", "NaN", "Infinity", "1e400", "x", "0.015", "1" * 50])
def test_gpu_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a GPU request: 0 is no GPU"):
        q.parse_gpu(text)


@given(st.integers(1, 100))
def test_portions_come_through_floats_exactly(hundredths: int) -> None:
    assert q.portion_milli(hundredths / 100) == hundredths * 10


@pytest.mark.parametrize("portion", [0.0, -0.5, 1.01, 0.001, 0.333])
def test_portions_refused(portion: float) -> None:
    with pytest.raises(ValueError, match=r"portion|GPU request"):
        q.portion_milli(portion)


def test_memory_is_charged_to_the_next_hundredth() -> None:
    assert q.memory_units(1, 80 << 30) == 70
    assert q.memory_units(40 << 30, 80 << 30) == q.GPU // 2
    assert q.memory_units(90 << 30, 80 << 30) == q.GPU
    with pytest.raises(ValueError, match="no memory request"):
        q.memory_units(1, 0)


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (0, "0"),
        (3500, "0.5"),
        (7000, "1"),
        (1000, "1/7"),
        (17000, "2 3/7"),
        (-3500, "-0.5"),
        (-1000, "-1/7"),
        (1, "0.000"),
    ],
)
def test_accounts_for_people(units: int, text: str) -> None:
    assert q.format_gpu(units) == text


@given(st.integers(0, 1 << 62))
def test_bytes_survive_text(amount: int) -> None:
    assert q.parse_bytes(q.format_bytes(amount)) == amount


@given(st.integers(0, 1 << 40))
def test_cpu_survives_text(amount: int) -> None:
    assert q.parse_milli_cpu(q.format_milli_cpu(amount)) == amount


def test_a_given_text_is_quoted() -> None:
    with pytest.raises(ValueError, match="one and a half"):
        q.gpu_request(Fraction(3, 2), given="one and a half")
