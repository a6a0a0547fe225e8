"""One index for all classes: which nodes are worth an exact test for a shape. Kernels that keep it.

Three families of sets, each by a quantised free amount: `idle` by (idle devices, free CPU), `shared` by the free
hundredths of each card that is shared already, `sliced` by the longest MIG run that is left. A class adds only a set of
eligible nodes, so that 32,000 shapes cost no more than one. Made by the seeker, searched by `searching`.
Holds: the index is a function of the rows (`derive` makes it anew, a test compares); a node that is not open, that
takes no more replicas, or of which others took more than there was, stands nowhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.bitmaps import Bitmaps, bitmaps, drop, fill, put
from muster_scheduler.domain.deciding.fitting import change
from muster_scheduler.domain.deciding.shapes import KIND, NONE
from muster_scheduler.domain.deciding.tables import GEOMETRY, Geometry, Rows, rows_of
from muster_scheduler.domain.fleet.columns import ABSENT, SHARED, SLICED, SLOTS, Bools, Columns, Ints64

CPU_KEYS: Final = 192
HUNDREDTHS: Final = 101
LONGEST: Final = 9
_FINE: Final = 1_024  # milli-CPU below which the steps are even
_NOWHERE: Final = -1


class Index(NamedTuple):
    """The rows, the families over them, and per eligibility a set of nodes (row 0: every node).

    largest: int64[1], bytes of the largest card of the pool.
    """

    rows: Rows
    tables: Geometry
    idle: Bitmaps
    shared: Bitmaps
    sliced: Bitmaps
    eligible: Bitmaps
    largest: Ints64


def index_of(columns: Columns, eligible: Bools, sets: int = 1, most: int = 0) -> Index:
    """The index of a pool with room for so many sets of eligible nodes, of which the first is `eligible`, bool[n].

    most: idle devices of a node that the index has to tell apart, where that is more than any has now.
    """
    n = len(columns)
    levels = min(SLOTS, max(most, int(columns.idle_total.max(initial=0)), int(columns.idle.max(initial=0)))) + 1
    made = Index(
        rows_of(columns),
        GEOMETRY,
        bitmaps(levels * CPU_KEYS, n),
        bitmaps(HUNDREDTHS, n),
        bitmaps(LONGEST, n),
        bitmaps(sets, n),
        np.array([columns.size.max(initial=0)], np.int64),
    )
    fill(made.eligible, 0, eligible)
    derive(made, n)
    return made


def most_idle(index: Index) -> int:
    """How many idle devices of a node the index tells apart."""
    return len(index.idle.counts) // CPU_KEYS - 1


@lean
def derive(index: Index, n: int) -> None:
    """Puts every node where it belongs."""
    for node in range(n):
        place(index, node)


@lean
def cpu_key(milli: int) -> int:
    """The quantised amount: steps of 64 milli-CPU below 1,024, then sixteen steps an octave."""
    if milli < _FINE:
        return milli >> 6
    octave = 10
    while milli >> (octave + 1):
        octave += 1
    return min(CPU_KEYS - 1, 16 + (octave - 10) * 16 + ((milli >> (octave - 4)) & 15))


@lean
def idle_key(index: Index, n: int) -> int:
    """Where a node stands in `idle`, or -1."""
    rows = index.rows
    if not rows.open[n] or rows.cpu[n] < 0 or rows.memory[n] < 0 or rows.replicas[n] < 1:
        return _NOWHERE
    level = min(int(rows.idle[n]), len(index.idle.counts) // CPU_KEYS - 1)
    return level * CPU_KEYS + cpu_key(int(rows.cpu[n]))


@lean
def share_key(rows: Rows, n: int, slot: int) -> int:
    """The free hundredths of a card that is shared already, or -1 where it is not, or is full."""
    if rows.mode[n, slot] != SHARED or rows.milli[n, slot] <= 0:
        return _NOWHERE
    size = int(rows.size[n, slot])
    by_bytes = int(rows.bytes[n, slot]) * 100 // size if size > 0 else 100
    return max(0, min(int(rows.milli[n, slot]) // 10, by_bytes))


@lean
def slice_key(rows: Rows, tables: Geometry, n: int) -> int:
    """The longest MIG run that a card of the node still has; 0: none, -1: no card in MIG mode."""
    best = _NOWHERE
    for slot in range(SLOTS):
        if rows.mode[n, slot] == ABSENT:
            break
        if rows.mode[n, slot] == SLICED and rows.card[n, slot] >= 0:
            best = max(best, int(tables.longest[rows.card[n, slot], rows.mask[n, slot]]))
    return best


@lean
def place(index: Index, n: int) -> None:
    """Puts a node into every set it belongs to."""
    key = idle_key(index, n)
    if key < 0:
        return
    put(index.idle, key, n)
    for slot in range(SLOTS):
        if index.rows.mode[n, slot] == ABSENT:
            break
        free = share_key(index.rows, n, slot)
        if free >= 0:
            put(index.shared, free, n)
    run = slice_key(index.rows, index.tables, n)
    if run > 0:
        put(index.sliced, run, n)


@lean
def displace(index: Index, n: int) -> None:
    """Takes a node out of every set that its row says it stands in: to be called before the row changes."""
    key = idle_key(index, n)
    if key < 0:
        return
    drop(index.idle, key, n)
    for slot in range(SLOTS):
        if index.rows.mode[n, slot] == ABSENT:
            break
        free = share_key(index.rows, n, slot)
        if free >= 0:
            drop(index.shared, free, n)
    run = slice_key(index.rows, index.tables, n)
    if run > 0:
        drop(index.sliced, run, n)


@lean
def shift(index: Index, shape: Ints64, n: int, mask: int, start: int, sign: int) -> None:
    """Takes one replica of the shape (sign -1) or gives it back (+1): the row and the sets of its node."""
    # Where the last place is taken or given back, the node leaves or enters the sets of its devices as well.
    if shape[KIND] != NONE or index.rows.replicas[n] == (1 if sign < 0 else 0):
        displace(index, n)
        change(index.rows, index.tables, shape, n, mask, start, sign)
        place(index, n)
        return
    before = idle_key(index, n)
    change(index.rows, index.tables, shape, n, mask, start, sign)
    after = idle_key(index, n)
    if after != before:
        if before >= 0:
            drop(index.idle, before, n)
        if after >= 0:
            put(index.idle, after, n)
