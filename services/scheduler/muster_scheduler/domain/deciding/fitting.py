"""Whether one replica fits on one node, on which devices, and what taking it does to the row. Kernels.

Called by the index (an exact test on a hit) and by the batch (take, undo). They compute what
`fleet.fitting.fit` says of the books and what `taking.take` does to columns; these two are the oracles.
Holds: `give` is the exact inverse of `take` in any order; a row never goes below zero by a choice that `choose` made.
"""

from __future__ import annotations

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.shapes import AMOUNT, CPU, DEVICES, KIND, MEM, MEMORY, NONE, SLICE, WHOLE
from muster_scheduler.domain.deciding.tables import Geometry, Rows
from muster_scheduler.domain.fleet.columns import ABSENT, IDLE, SHARED, SLICED, SLOTS, Ints64
from muster_scheduler.domain.fleet.columns import WHOLE as GIVEN

MILLI = 1_000
NOWHERE = -1
_FARTHEST = 1 << 62
_IDLE_LAST = 1 << 60


@lean
def choose(rows: Rows, tables: Geometry, shape: Ints64, n: int, strategy: int) -> tuple[int, int]:
    """The devices (a mask of slots) and starts (four bits a device) for one replica on node n, or (-1, 0).

    Devices as `fleet.fitting.fit` takes them: the tightest shared card that is large enough, then an idle one, ties
    to the lowest slot; a strategy other than 0 (spread): the emptiest first.
    """
    if rows.cpu[n] < shape[CPU] or rows.memory[n] < shape[MEM] or rows.replicas[n] < 1:
        return NOWHERE, 0
    kind = shape[KIND]
    if kind == NONE:
        return 0, 0
    if kind == WHOLE:
        return whole(rows, shape[DEVICES], n), 0
    if kind == SLICE:
        return slices(rows, tables, shape, n)
    return shares(rows, shape, n, strategy), 0


@lean
def whole(rows: Rows, devices: int, n: int) -> int:
    """The first idle devices; 0 where they are anonymous."""
    if rows.idle[n] < devices:
        return NOWHERE
    mask, left = 0, devices
    for slot in range(SLOTS):
        if left == 0 or rows.mode[n, slot] == ABSENT:
            break
        if rows.mode[n, slot] == IDLE:
            mask |= 1 << slot
            left -= 1
    return mask


@lean
def shares(rows: Rows, shape: Ints64, n: int, strategy: int) -> int:
    """As many distinct cards as asked for with enough left, one after the other the best of those not yet taken."""
    mask = 0
    for _ in range(shape[DEVICES]):
        best, at = _FARTHEST, NOWHERE
        for slot in range(SLOTS):
            mode = rows.mode[n, slot]
            if mode == ABSENT:
                break
            left = -1 if mask >> slot & 1 else left_of(rows, shape, n, slot)
            if left < 0:
                continue
            rank = -left if strategy else left + (_IDLE_LAST if mode == IDLE else 0)
            if rank < best:
                best, at = rank, slot
        if at < 0:
            return NOWHERE
        mask |= 1 << at
    return mask


@lean
def left_of(rows: Rows, shape: Ints64, n: int, slot: int) -> int:
    """What would be left of a card (milli or bytes) after taking; negative where it does not fit or is not shared."""
    mode, size = rows.mode[n, slot], rows.size[n, slot]
    if mode != IDLE and mode != SHARED:  # noqa: PLR1714 - a kernel would build the tuple anew
        return -1
    if shape[KIND] == MEMORY:
        return int(rows.bytes[n, slot] - shape[AMOUNT]) if size > 0 else -1
    if rows.bytes[n, slot] < shape[AMOUNT] * size // MILLI:
        return -1
    return int(rows.milli[n, slot] - shape[AMOUNT])


@lean
def slices(rows: Rows, tables: Geometry, shape: Ints64, n: int) -> tuple[int, int]:
    """Cards with slices taken before empty ones, by slot; on each the start that leaves the most room."""
    mask, packed, left = 0, 0, shape[DEVICES]
    for empty in range(2):
        for slot in range(SLOTS):
            if left == 0 or rows.mode[n, slot] == ABSENT:
                break
            used = rows.mask[n, slot] | rows.media[n, slot]
            if rows.mode[n, slot] != SLICED or (used == 0) != (empty == 1):
                continue
            start = start_of(rows, tables, shape[AMOUNT], n, slot)
            if start >= 0:
                mask |= 1 << slot
                packed = insert(packed, mask, slot, start)
                left -= 1
    if left > 0:
        return NOWHERE, 0
    return mask, packed


@lean
def insert(packed: int, mask: int, slot: int, start: int) -> int:
    """The starts with one more, four bits each in the order of the mask, of which `slot` is a bit."""
    position = 0
    for lower in range(slot):
        position += mask >> lower & 1
    below = (1 << (4 * position)) - 1
    return (packed & below) | start << (4 * position) | (packed ^ (packed & below)) << 4


@lean
def start_of(rows: Rows, tables: Geometry, profile: int, n: int, slot: int) -> int:
    """The start on a card that leaves the most room, ties to the highest (`mig.best_start`), or -1."""
    card, taken = rows.card[n, slot], rows.mask[n, slot]
    if (
        card < 0
        or profile < 0
        or tables.length[card, profile] == 0
        or tables.media[card, profile] & rows.media[n, slot]
    ):
        return NOWHERE
    run = (1 << tables.length[card, profile]) - 1
    best, at = NOWHERE, NOWHERE
    for start in range(8):
        if tables.starts[card, profile] >> start & 1 and not taken & (run << start):
            left = tables.room[card, taken | (run << start)]
            if left >= best:
                best, at = left, start
    return at


@lean
def change(rows: Rows, tables: Geometry, shape: Ints64, n: int, mask: int, start: int, sign: int) -> None:
    """Takes one replica from the row (sign -1) or gives it back (+1)."""
    rows.cpu[n] += sign * shape[CPU]
    rows.memory[n] += sign * shape[MEM]
    rows.replicas[n] += sign
    kind = shape[KIND]
    if kind == WHOLE and mask == 0:
        rows.idle[n] += sign * shape[DEVICES]
    position = 0
    for slot in range(SLOTS):
        if mask >> slot == 0:
            break
        if not mask >> slot & 1:
            continue
        if kind == SLICE:
            change_slice(rows, tables, shape[AMOUNT], n, slot, start >> (4 * position) & 15, sign)
        else:
            change_card(rows, shape, n, slot, sign)
        position += 1


@lean
def change_slice(rows: Rows, tables: Geometry, profile: int, n: int, slot: int, start: int, sign: int) -> None:
    """One slice more or less on a card in MIG mode."""
    card = rows.card[n, slot]
    run = ((1 << tables.length[card, profile]) - 1) << start
    if sign < 0:
        rows.mask[n, slot] |= run
        rows.media[n, slot] |= tables.media[card, profile]
    else:
        rows.mask[n, slot] &= 255 ^ run
        rows.media[n, slot] &= 255 ^ tables.media[card, profile]


@lean
def change_card(rows: Rows, shape: Ints64, n: int, slot: int, sign: int) -> None:
    """A whole card, or a share of one, more or less; the last share given back leaves it idle."""
    if rows.mode[n, slot] == IDLE:
        rows.idle[n] -= 1
    size = rows.size[n, slot]
    if shape[KIND] == WHOLE:
        rows.milli[n, slot] = MILLI if sign > 0 else 0
        rows.bytes[n, slot] = size if sign > 0 else 0
        rows.mode[n, slot] = IDLE if sign > 0 else GIVEN
    else:
        milli = 0 if shape[KIND] == MEMORY else shape[AMOUNT]
        rows.milli[n, slot] += sign * milli
        rows.bytes[n, slot] += sign * (shape[AMOUNT] if shape[KIND] == MEMORY else milli * size // MILLI)
        rows.mode[n, slot] = IDLE if rows.milli[n, slot] == MILLI and rows.bytes[n, slot] == size else SHARED
    if rows.mode[n, slot] == IDLE:
        rows.idle[n] += 1
