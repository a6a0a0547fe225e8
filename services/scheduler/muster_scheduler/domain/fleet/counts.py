"""How many replicas of one shape each node could take: what gangs and room-making count with before they choose.

Pure over columns, all nodes at once. `copies_of` says it of single devices, `counts_of` of nodes.
Holds: a node that is said to take c replicas takes exactly c and not one more, whatever its devices hold now (the law
that tests prove against the books' own `fit`), as long as only this shape is added.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster_kernel.mig import CARDS, starts_that_fit
from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.columns import CARD_NAMES, IDLE, SHARED, SLICED, Columns, media_bit

Counts = NDArray[np.int64]
_MASKS: Final = 256


def counts_of(columns: Columns, shape: Shape, most: int) -> Counts:
    """Replicas of `shape` that each node could take, at most `most`: int64[n]. Closed nodes take none."""
    # Others took more than there was: nothing fits there, not even what asks for none of it.
    usable = columns.open & (columns.cpu >= 0) & (columns.memory >= 0)
    counts = np.where(usable, np.int64(most), np.int64(0))
    _limit(counts, columns.cpu, shape.cpu)
    _limit(counts, columns.memory, shape.memory)
    _limit(counts, columns.replicas, 1)
    if shape.kind is Kind.WHOLE:
        _limit(counts, columns.idle, shape.devices)
    elif shape.kind is not Kind.NONE:
        _limit_by_devices(counts, columns, shape)
    return np.maximum(counts, 0, out=counts)


def _limit(counts: Counts, free: NDArray[np.int64] | NDArray[np.int32], each: int) -> None:
    if each == 1:
        np.minimum(counts, free, out=counts)
    elif each:
        np.minimum(counts, free // each, out=counts)


def _limit_by_devices(counts: Counts, columns: Columns, shape: Shape) -> None:
    rows = np.flatnonzero(counts > 0)
    most = int(counts.max(initial=0))
    counts[rows] = np.minimum(counts[rows], together(copies_of(columns, shape, rows, most), shape.devices))


def copies_of(columns: Columns, shape: Shape, rows: Counts, most: int) -> Counts:
    """How many replicas could have one share of each device, at most `most`: int64[rows, 16]. Not for whole cards."""
    if shape.kind is Kind.SLICE:
        return _slices(columns, shape.profile, rows)
    return _shares(columns, shape, rows, most)


def _shares(columns: Columns, shape: Shape, rows: Counts, most: int) -> Counts:
    mode, size = columns.mode[rows], columns.size[rows]
    there = (mode == IDLE) | (mode == SHARED)
    if shape.kind is Kind.MEMORY:
        there &= size > 0
        amount = np.full_like(size, shape.bytes)
    else:
        # A portion takes its part of the card's memory as well, rounded down as the books do.
        amount = shape.milli * size // MILLI
    copies = np.where(there, np.int64(most), np.int64(0))
    if shape.milli:
        np.minimum(copies, columns.milli[rows] // shape.milli, out=copies)
    by_bytes = columns.bytes[rows] // np.maximum(amount, 1)
    np.minimum(copies, np.where(amount > 0, by_bytes, most), out=copies)
    return np.maximum(copies, 0, out=copies)


def _slices(columns: Columns, profile: str, rows: Counts) -> Counts:
    cards = columns.card[rows]
    counted = _starts_free(profile)[cards, columns.mask[rows]]
    bits = _media_bits(profile)[cards]
    counted = np.where((columns.media[rows] & bits) > 0, 0, counted)
    return np.where(columns.mode[rows] == SLICED, counted, 0)


@cache
def _starts_free(profile: str) -> Counts:
    """int64[cards + 1, 256]: how many slices of a profile a card with that mask can still make; the last row is zero.

    The legal starts of one profile never overlap each other, so that the free ones can all be taken together. Reading
    row -1 (a slot without MIG) gives the last one.
    """
    table = np.zeros((len(CARD_NAMES) + 1, _MASKS), np.int64)
    for number, name in enumerate(CARD_NAMES):
        known = CARDS[name].profile(profile)
        if known is not None:
            fitting = [len(starts_that_fit(known, mask)) for mask in range(_MASKS)]
            table[number] = np.minimum(fitting, known.at_most)
    return table


@cache
def _media_bits(profile: str) -> NDArray[np.uint8]:
    return np.array([*(media_bit(name, profile) for name in CARD_NAMES), 0], np.uint8)


def together(copies: Counts, devices: int) -> Counts:
    """The most replicas with one share each of `devices` distinct devices: int64[rows], of copies int64[rows, 16].

    r replicas fit if and only if sum_j min(copies_j, r) >= devices * r: laid out device after device, share t goes to
    replica t mod r, and no device comes up twice for one replica (McNaughton's wrap-around rule). The left side grows
    ever slower, so that the largest r is found by bisection.
    """
    if devices == 1:
        return np.asarray(copies.sum(axis=1))
    low = np.zeros(len(copies), np.int64)
    high = copies.sum(axis=1) // devices
    while bool((low < high).any()):
        middle = (low + high + 1) // 2
        fits = np.minimum(copies, middle[:, None]).sum(axis=1) >= devices * middle
        low = np.where(fits, middle, low)
        high = np.where(fits, high, middle - 1)
    return low
