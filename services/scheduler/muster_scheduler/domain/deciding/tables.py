"""Tables that kernels read: the MIG geometry of every card as arrays, and the columns as one tuple of arrays.

Made once from `muster_kernel.mig`; read by `fitting` and `index`.
Holds: arrays are only looked up; the rules stay in `muster_kernel.mig`, and a test compares each entry with them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.mig import CARDS, room
from muster_scheduler.domain.fleet.columns import CARD_NAMES, Bools, Columns, Ints32, Ints64, media_bit

PROFILES: Final = tuple(sorted({name for card in CARDS.values() for name in card.profiles}))
PROFILE_NUMBERS: Final = {name: number for number, name in enumerate(PROFILES)}
_MASKS: Final = 256


class Rows(NamedTuple):
    """The columns that kernels read and change; shapes as in `Columns`."""

    cpu: Ints64
    memory: Ints64
    replicas: Ints64
    idle: Ints32
    mode: NDArray[np.int8]
    milli: Ints32
    bytes: Ints64
    size: Ints64
    mask: NDArray[np.uint8]
    media: NDArray[np.uint8]
    card: NDArray[np.int8]
    open: Bools


class Geometry(NamedTuple):
    """MIG as arrays. A profile that the card does not have has length 0.

    length: int64[card, profile] memory slices; starts: bits of legal first slices; media: the bit of a `+me` profile.
    room: int64[card, mask], what `mig.room` says; longest: the longest legal run that a card with that mask still has.
    """

    length: Ints64
    starts: Ints64
    media: Ints64
    room: Ints64
    longest: Ints64


def rows_of(columns: Columns) -> Rows:
    """The arrays of columns themselves, not copies."""
    return Rows(*(getattr(columns, name) for name in Rows._fields))


def geometry() -> Geometry:
    """The tables of all cards."""
    by_profile = np.zeros((3, len(CARD_NAMES), len(PROFILES)), np.int64)
    by_mask = np.zeros((2, len(CARD_NAMES), _MASKS), np.int64)
    for number, model in enumerate(CARD_NAMES):
        card = CARDS[model]
        for name, profile in card.profiles.items():
            starts = sum(1 << start for start in profile.starts)
            by_profile[:, number, PROFILE_NUMBERS[name]] = profile.memory, starts, media_bit(model, name)
        for mask in range(_MASKS):
            runs = [p.memory for p in card.profiles.values() for s in p.starts if not p.mask(s) & mask]
            by_mask[:, number, mask] = room(card, mask), max(runs, default=0)
    return Geometry(*by_profile, *by_mask)


GEOMETRY: Final = geometry()
