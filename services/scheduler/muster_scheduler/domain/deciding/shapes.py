"""What a class of waiting workloads asks of a node, as one row of integers that kernels read.

Its own part is made when the class enters the queue, as bytes, so that a batch joins the rows of thousands at once; the
rest, its terms, when somebody looks for a place. The columns of the row are named by the constants below.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.deciding.tables import PROFILE_NUMBERS
from muster_scheduler.domain.fleet.columns import Ints64

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
OWN: Final = 6  # columns before this one are the class's own, those from here on its terms
QUEUE: Final = 6
BOUND: Final = 7  # 1: non-preemptible
ELIGIBLE: Final = 8  # row of the index's eligible nodes
STRATEGY: Final = 9  # BINPACK or SPREAD
WIDTH: Final = 10

BINPACK: Final = 0
SPREAD: Final = 1
UNKNOWN_PROFILE: Final = -1
_packed: Final = Struct(f"{OWN}q").pack
_rest: Final = Struct(f"{WIDTH - OWN}q").pack


class Terms(NamedTuple):
    """What a class brings beside its shape. units: what one replica costs before it is placed, in 1/7,000 GPU.

    queue: row of its queue in the tree; bound: non-preemptible; eligible: row of the index's eligible nodes.
    """

    units: int = 0
    queue: int = 0
    bound: bool = False
    eligible: int = 0
    spread: bool = False


def row_of(shape: Shape, terms: Terms) -> tuple[int, ...]:
    """The row of a class."""
    kind = _KINDS[shape.kind]
    # What terms say stands in the order of the columns; a wish to spread is SPREAD.
    return kind, shape.cpu, shape.memory, shape.devices, _amount(shape) if kind > WHOLE else 0, *terms


def own_row(shape: Shape, units: int) -> bytes:
    """The class's own part of its row. units: what one replica costs before it is placed, in 1/7,000 GPU."""
    cpu, memory, named, devices, _, _, _, _ = shape
    kind = _KINDS[named]
    return _packed(kind, cpu, memory, devices, _amount(shape) if kind > WHOLE else 0, units)


def terms_row(terms: Terms) -> bytes:
    """What follows in the row of each class of these terms."""
    return _rest(*terms[1:])


def rows_of(own: Sequence[bytes], terms: Sequence[bytes]) -> Ints64:
    """The rows of heads by their parts, int64[heads, WIDTH]."""
    parts = [b""] * (2 * len(own))
    parts[::2], parts[1::2] = own, terms
    return np.frombuffer(bytearray().join(parts), np.int64).reshape(len(own), WIDTH)


def _amount(shape: Shape) -> int:
    if shape.kind is Kind.PORTION:
        return shape.milli
    return shape.bytes if shape.kind is Kind.MEMORY else PROFILE_NUMBERS.get(shape.profile, UNKNOWN_PROFILE)
