"""The 200 cases of one level of queues, in 1/7,000 GPU, as claimants with the shares that they should get."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from muster_kernel.quantities import GPU
from muster_scheduler.domain.shares.divide import Claimant

CASES: Final = Path(__file__).parents[1] / "data" / "fairshare" / "cases.json"
_NO_LIMIT: Final = 1 << 62


class Case(NamedTuple):
    """One level and its answer; amounts in 1/7,000 GPU, in the order of the queues."""

    total: int
    claimants: tuple[Claimant, ...]
    shares: tuple[int, ...]


def cases() -> list[Case]:
    """All of them."""
    read = json.loads(CASES.read_text(), parse_float=Fraction, parse_int=Fraction)
    return [
        Case(
            _units(case["total"]),
            tuple(_claimant(queue) for queue in case["queues"]),
            tuple(_units(case["share"][queue["queue"]]) for queue in case["queues"]),
        )
        for case in read["cases"]
    ]


def _claimant(queue: dict[str, Fraction | None]) -> Claimant:
    limit = queue["limit"]
    wanted = min(_units(queue["request"]), _NO_LIMIT if limit is None else _units(limit))
    return Claimant(_units(queue["deserved"]), wanted, int(queue["weight"] or 0), int(queue["priority"] or 0))


def _units(gpus: Fraction | None) -> int:
    units = (gpus or Fraction(0)) * GPU
    if units.denominator != 1:
        raise ValueError(f"{gpus} GPUs are no whole number of 1/7,000 GPU")
    return int(units)
