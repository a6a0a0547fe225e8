"""What is known of a workload, a node pool or a cluster that is set aside."""

from __future__ import annotations

from typing import NamedTuple


class Quarantined(NamedTuple):
    """workload: its id, or `pool/NAME` or `cluster/NAME`. error: what was raised, in one line. trace: where.

    at: microseconds since 1970.
    """

    workload: str
    error: str
    trace: str
    at: int


def pool_place(name: str) -> str:
    """How a node pool is named where it is set aside."""
    return f"pool/{name}"


def cluster_place(name: str) -> str:
    """How a cluster is named where it is set aside."""
    return f"cluster/{name}"
