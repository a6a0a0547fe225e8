"""Slopes of the soak: what grows is seen, what only wobbles is not taken for growth, and few samples say nothing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ageing.slopes import growth, slope

MINUTE = 60.0


def _wobbling(seed: int, per_hour: float, minutes: int = 40, alike: float = 0.8) -> list[tuple[float, float]]:
    """Samples every ten seconds of a figure that grows, with noise whose neighbours are alike."""
    dice, noise, samples = random.Random(seed), 0.0, []
    for number in range(minutes * 6):
        noise = alike * noise + dice.gauss(0, 0.3)
        samples.append((number * 10.0, 100 + per_hour * number / 360 + noise))
    return samples


@given(st.integers(-100, 100), st.integers(-50, 50))
def test_a_straight_line_has_its_slope_and_no_margin(start: int, per_hour: int) -> None:
    found = slope([(number * MINUTE, start + per_hour * number / 60) for number in range(30)])
    assert found is not None
    assert found.value == pytest.approx(per_hour, abs=1e-6)
    assert found.upper == pytest.approx(per_hour, abs=1e-3)


def test_the_upper_end_is_above_the_true_slope_about_as_often_as_it_says() -> None:
    held = sum(found.upper >= 5.0 for seed in range(200) if (found := slope(_wobbling(seed, 5.0))) is not None)
    assert held >= 180, f"{held} of 200 with seeds 0 to 199"


def test_a_leak_is_seen() -> None:
    found = slope(_wobbling(1, 40.0))
    assert found is not None
    assert found.upper > 15
    assert found.value == pytest.approx(40, abs=5)


def test_few_samples_say_nothing() -> None:
    assert slope([(0.0, 1.0), (1.0, 2.0)]) is None


def test_growth_compares_the_end_with_the_first_steady_time() -> None:
    flat = [(number * MINUTE, 100.0) for number in range(60)]
    assert growth(flat, 20 * MINUTE, 5 * MINUTE) == 0.0
    grown = [(at, value + (20.0 if at > 50 * MINUTE else 0.0)) for at, value in flat]
    assert growth(grown, 20 * MINUTE, 5 * MINUTE) == pytest.approx(0.2)
    shrunk = [(at, value - (20.0 if at > 50 * MINUTE else 0.0)) for at, value in flat]
    assert growth(shrunk, 20 * MINUTE, 5 * MINUTE) == 0.0
    assert growth([(0.0, 5.0)], 20 * MINUTE, 5 * MINUTE) == 0.0
