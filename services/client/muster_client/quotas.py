"""Quotas from what people write: GPUs in decimals, CPU and memory as quantities, weights.

Called by the verbs and by programs that set quotas. Holds: what is not exact in the accounts is refused, never rounded.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from muster.tenancy.v1 import tenancy_pb2 as books_pb2
from muster_kernel.numbers import LONGEST, exact
from muster_kernel.quantities import GPU, MILLI

Number = int | float | str | Decimal

MOST_GPUS: Final = 10_000_000
MOST_WEIGHT: Final = 1000
"""The most that the control plane takes."""


def gpu_units(gpus: Number) -> int:
    """GPUs as the accounts count them, in 1/7,000. Raises ValueError for what is not exact there, or negative."""
    try:
        units = _fraction(gpus, MOST_GPUS) * GPU
    except ValueError:
        raise ValueError(
            f"{_shown(gpus)} is not a number of GPUs: expected 0 to {MOST_GPUS}, such as 4 or 0.5"
        ) from None
    if units < 0 or units.denominator != 1:
        raise ValueError(f"{_shown(gpus)} is not a number of GPUs: expected 0 or more, in steps of 0.001")
    return int(units)


def weight_milli(weight: Number) -> int:
    """A weight as quotas keep it, in thousandths. Raises ValueError for what is not exact there, or negative."""
    try:
        milli = _fraction(weight, MOST_WEIGHT) * MILLI
    except ValueError:
        raise ValueError(f"{_shown(weight)} is not a weight: expected 0 to {MOST_WEIGHT}, such as 2 or 0.5") from None
    if milli < 0 or milli.denominator != 1:
        raise ValueError(f"{_shown(weight)} is not a weight: expected 0 or more, in steps of 0.001")
    return int(milli)


def _fraction(number: Number, most: int) -> Fraction:
    """The number, exact. Raises ValueError."""
    found = exact(str(number))
    if found > most:
        raise ValueError(f"{_shown(number)} is out of range")
    return found


def _shown(number: Number) -> str:
    text = repr(number)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}.."


def pool_quota(pool: str, gpus: Number, *, limit: Number | None = None, weight: Number = 1) -> books_pb2.PoolQuota:
    """A quota in one node pool: `gpus` deserved, `limit` the most that may be held, `weight` in the surplus."""
    return books_pb2.PoolQuota(
        node_pool=pool,
        gpu_deserved=gpu_units(gpus),
        gpu_limit=None if limit is None else gpu_units(limit),
        over_quota_weight_milli=weight_milli(weight),
    )
