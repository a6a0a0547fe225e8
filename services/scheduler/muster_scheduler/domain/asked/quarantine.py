"""What is known of a workload that is set aside."""

from __future__ import annotations

from typing import NamedTuple


class Quarantined(NamedTuple):
    """error: what was raised, in one line. trace: where. at: microseconds since 1970."""

    workload: str
    error: str
    trace: str
    at: int
