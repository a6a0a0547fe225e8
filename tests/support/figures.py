"""Small figures from lists of times. Pure; called by the benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50, p99, max and count; milliseconds in, milliseconds out. Raises ValueError for no values."""
    if not values:
        raise ValueError("no values to take a spread of")
    ordered = sorted(values)
    at_99 = ordered[min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))]
    return {
        "p50": round(statistics.median(ordered), 1),
        "p99": round(at_99, 1),
        "max": round(ordered[-1], 1),
        "count": len(ordered),
    }


def within(times: Sequence[float], since: float, until: float) -> int:
    """How many of the times lie in [since, until]."""
    return sum(since <= at <= until for at in times)
