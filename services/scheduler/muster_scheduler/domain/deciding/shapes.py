"""What a class of waiting workloads asks of a node, as one row of integers that kernels read.

Made by the engine when a class is first seen. The columns of the row are named by the constants below.
"""

from __future__ import annotations

from typing import Final

from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.deciding.tables import PROFILE_NUMBERS

NONE: Final = 0
WHOLE: Final = 1
PORTION: Final = 2
MEMORY: Final = 3
SLICE: Final = 4
_KINDS: Final = {
    Kind.NONE: NONE,
    Kind.WHOLE: WHOLE,
    Kind.PORTION: PORTION,
    Kind.MEMORY: MEMORY,
    Kind.SLICE: SLICE,
}

KIND: Final = 0
CPU: Final = 1  # milli-CPU
MEM: Final = 2  # bytes of the node
DEVICES: Final = 3
AMOUNT: Final = 4  # PORTION: milli of each device; MEMORY: bytes of each; SLICE: number of the profile
UNITS: Final = 5  # 1/7,000 GPU before placement
MEBIBYTES: Final = 6  # of the node, for the accounts, rounded up
QUEUE: Final = 7
BOUND: Final = 8  # 1: non-preemptible
ELIGIBLE: Final = 9  # row of the index's eligible nodes
WIDTH: Final = 10

_MEBIBYTE: Final = 1 << 20
UNKNOWN_PROFILE: Final = -1


def row_of(shape: Shape, units: int, queue: int, *, preemptible: bool, eligible: int = 0) -> tuple[int, ...]:
    """The row of a shape. `units`: what one replica costs before it is placed, in 1/7,000 GPU."""
    amount = {
        Kind.PORTION: shape.milli,
        Kind.MEMORY: shape.bytes,
        Kind.SLICE: PROFILE_NUMBERS.get(shape.profile, UNKNOWN_PROFILE),
    }.get(shape.kind, 0)
    return (
        _KINDS[shape.kind],
        shape.cpu,
        shape.memory,
        shape.devices,
        amount,
        units,
        -(-shape.memory // _MEBIBYTE),
        queue,
        int(not preemptible),
        eligible,
    )
