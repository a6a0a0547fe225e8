"""The best node for one replica of a shape: kernels over the index.

Called by the batch for every head. Order under binpack: the lowest key first (fewest idle devices, then least free CPU;
shares go to the fullest shared card that is large enough before an idle one is broken), within a key the first node by
name. Spread goes the other way round: the highest key first, an idle card before a shared one.
Holds: the answer is the first node in that order for which `fitting.choose` says yes; no node is left out that fits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.bitmaps import Bitmaps, last_key, lowest, next_key
from muster_scheduler.domain.deciding.fitting import choose
from muster_scheduler.domain.deciding.index import CPU_KEYS, HUNDREDTHS, LONGEST, Index, cpu_key
from muster_scheduler.domain.deciding.shapes import (
    AMOUNT,
    CPU,
    DEVICES,
    ELIGIBLE,
    KIND,
    MEMORY,
    NONE,
    SLICE,
    SPREAD,
    STRATEGY,
    WHOLE,
)
from muster_scheduler.domain.fleet.columns import Ints64

_NOWHERE: Final = -1


class Found(NamedTuple):
    """A node with the devices and starts of one replica; node -1: none. `visits`: exact tests that it took."""

    node: int
    mask: int
    start: int
    visits: int


@lean
def search(index: Index, shape: Ints64) -> Found:
    """The best node for one replica of the shape."""
    kind = shape[KIND]
    if kind == NONE or kind == WHOLE:  # noqa: PLR1714, SIM109 - a tuple of constants is built anew by a kernel
        return in_idle(index, shape, int(shape[DEVICES]))
    if kind == SLICE:
        return in_family(index, index.sliced, shape, 1, LONGEST - 1)
    if shape[STRATEGY] == SPREAD:
        first = in_idle(index, shape, 1)
        return first if first.node >= 0 else after(first, in_shared(index, shape))
    first = in_shared(index, shape)
    return first if first.node >= 0 else after(first, in_idle(index, shape, 1))


@lean
def after(first: Found, found: Found) -> Found:
    """What the second family has, with the work that the first one took."""
    return Found(found.node, found.mask, found.start, found.visits + first.visits)


@lean
def in_shared(index: Index, shape: Ints64) -> Found:
    """Nodes with a card that is shared already, from the amount that is needed."""
    return in_family(index, index.shared, shape, least(index, shape), HUNDREDTHS - 1)


@lean
def least(index: Index, shape: Ints64) -> int:
    """The lowest key in which a card could be large enough; one below the amount, since keys are rounded down."""
    if shape[KIND] != MEMORY:
        return max(0, int(shape[AMOUNT]) // 10 - 1)
    largest = int(index.largest[0])
    return max(0, int(shape[AMOUNT]) * 100 // largest - 1) if largest > 0 else 0


@lean
def in_idle(index: Index, shape: Ints64, devices: int) -> Found:
    """Level by level of idle devices, from as many as are needed."""
    levels = len(index.idle.counts) // CPU_KEYS
    enough = cpu_key(int(shape[CPU]))
    visits = 0
    # Anonymous devices may be more than there are levels: the last one is then asked in any case.
    first = min(devices, levels - 1)
    for step in range(first, levels):
        level = levels - 1 - (step - first) if shape[STRATEGY] == SPREAD else step
        base = level * CPU_KEYS
        found = in_family(index, index.idle, shape, base + enough, base + CPU_KEYS - 1)
        visits += found.visits
        if found.node >= 0:
            return Found(found.node, found.mask, found.start, visits)
    return Found(_NOWHERE, 0, 0, visits)


@lean
def in_family(index: Index, sets: Bitmaps, shape: Ints64, first: int, last: int) -> Found:
    """The first eligible node that passes the exact test, key by key."""
    downwards = shape[STRATEGY] == SPREAD
    visits = 0
    key = last_key(sets, first, last) if downwards else next_key(sets, first, last)
    while key >= 0:
        found = in_set(index, sets, shape, key)
        visits += found.visits
        if found.node >= 0:
            return Found(found.node, found.mask, found.start, visits)
        key = last_key(sets, first, key - 1) if downwards else next_key(sets, key + 1, last)
    return Found(_NOWHERE, 0, 0, visits)


@lean
def in_set(index: Index, sets: Bitmaps, shape: Ints64, key: int) -> Found:
    """The first eligible node of one set that passes the exact test."""
    row, visits = shape[ELIGIBLE], 0
    for block in range(sets.summary.shape[1]):
        words = sets.summary[key, block] & index.eligible.summary[row, block]
        while words:
            word = (block << 5) + lowest(words)
            words &= words - 1
            left = sets.bits[key, word] & index.eligible.bits[row, word]
            while left:
                node = (word << 5) + lowest(left)
                left &= left - 1
                visits += 1
                mask, start = choose(index.rows, index.tables, shape, node, shape[STRATEGY])
                if mask >= 0:
                    return Found(node, mask, start, visits)
    return Found(_NOWHERE, 0, 0, visits)
