"""Growth of a figure over the life of a process: the slope of a line through its samples, with an upper bound.

The soak calls this module; its functions are pure. Neighbouring samples are correlated, so each sample counts for less
than one: the correlation of neighbouring residuals widens the standard error of the slope (Bayley and Hammersley 1946).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from scipy import stats

HOUR: Final = 3600.0
_FEWEST: Final = 12
_SURE: Final = 0.95


class Slope(NamedTuple):
    """Growth per hour. upper: the growth is at most this, with a probability of 0.95."""

    value: float
    upper: float


def slope(samples: Sequence[tuple[float, float]]) -> Slope | None:
    """Return the slope of (seconds, figure); None if there are too few samples."""
    if len(samples) < _FEWEST:
        return None
    times = [at / HOUR for at, _ in samples]
    found = stats.linregress(times, [value for _, value in samples])
    residuals = [value - (found.intercept + found.slope * at) for at, (_, value) in zip(times, samples, strict=True)]
    alike = _alike(residuals)
    effective = max(3.0, len(samples) * (1 - alike) / (1 + alike))
    mean = sum(times) / len(times)
    spread = sum((at - mean) ** 2 for at in times)
    # scipy's own standard error is NaN for a figure that never changes.
    error = math.sqrt(sum(one * one for one in residuals) / (effective - 2) / spread)
    margin = stats.t.ppf(_SURE, effective - 2) * error
    return Slope(float(found.slope), float(found.slope + margin))


def _alike(residuals: Sequence[float]) -> float:
    """Return the correlation of neighbours, from 0 to just below 1."""
    square = sum(one * one for one in residuals)
    if not square:
        return 0.0
    together = sum(one * other for one, other in pairwise(residuals))
    return min(0.98, max(0.0, together / square))


def growth(samples: Sequence[tuple[float, float]], first: float, span: float) -> float:
    """Return the relative growth from the mean around `first` to the mean of the last `span` seconds; at least 0."""
    last = samples[-1][0]
    before = [value for at, value in samples if abs(at - first) <= span / 2]
    after = [value for at, value in samples if at >= last - span]
    if not before or not after or not sum(before):
        return 0.0
    return max(0.0, (sum(after) / len(after)) / (sum(before) / len(before)) - 1.0)
