"""From counts to devices: which cards of each node the replicas of one role get, as runs.

Called by place.py once it is known how many replicas each node takes. Pure over columns.
Holds: runs follow the given order of nodes, indices grow by one from replica to replica; a card that is shared already
is filled before an idle one is opened, the tightest first, ties to the lowest slot, as the books' own `fit` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.mig import CARDS, best_start
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.columns import CARD_NAMES, IDLE, SLOTS, WHOLE, Columns
from muster_scheduler.domain.fleet.counts import Counts, copies_of
from muster_scheduler.domain.fleet.taking import Run, slots_of, take

_BITS: Final = 1 << np.arange(SLOTS, dtype=np.int64)
_START_BITS: Final = 4  # of `Run.start`, a device
Unit = tuple[int, int]  # slot, first memory slice: what one share of a replica takes


class Replica(NamedTuple):
    """One replica of a role where its run has put it; the arguments are those of `Run`."""

    rank: int
    node: int
    mask: int
    start: int


def runs_of(columns: Columns, shape: Shape, rows: Counts, replicas: Counts) -> tuple[Run, ...]:
    """`replicas[i]` replicas on node `rows[i]`, both int64[m], indices counted on from 0.

    Each node has to have room for its replicas (see fleet/counts.py).
    """
    firsts = np.cumsum(replicas) - replicas
    if shape.kind is Kind.NONE:
        return tuple(map(Run, rows.tolist(), firsts.tolist(), replicas.tolist()))
    if shape.kind is Kind.WHOLE:
        masks = idle_slots(columns.mode[rows], replicas * shape.devices)
        return tuple(map(Run, rows.tolist(), firsts.tolist(), replicas.tolist(), masks.tolist()))
    copies = copies_of(columns, shape, rows, int(replicas.max(initial=0))).tolist()
    runs: list[Run] = []
    for node, first, count, free in zip(rows.tolist(), firsts.tolist(), replicas.tolist(), copies, strict=True):
        runs += _on_node(columns, shape, node, first, count, free)
    return tuple(runs)


def idle_slots(mode: NDArray[np.int8], count: Counts) -> Counts:
    """Bits of the first `count` idle slots of each row, int64[m]; 0 where the devices are anonymous."""
    idle = mode == IDLE
    reached = idle.cumsum(axis=1)
    picked = idle & (reached <= count[:, None])
    return np.where(reached[:, -1] >= count, picked @ _BITS, 0)


def _on_node(columns: Columns, shape: Shape, node: int, first: int, count: int, free: list[int]) -> Iterator[Run]:
    return laid_out(shape, node, first, count, _units(columns, shape, node, count, free))


def laid_out(shape: Shape, node: int, first: int, count: int, units: list[Unit]) -> Iterator[Run]:
    """`count` replicas over their shares, which come device after device and are `count * shape.devices` in all.

    Share t goes to replica t mod count: no device comes twice for one replica (the rule of `counts.together`).
    """
    if shape.kind in {Kind.NONE, Kind.WHOLE}:
        yield Run(node, first, count, sum(1 << slot for slot, _ in units))
        return
    parts = [units[i::count] for i in range(count)]
    if shape.kind is Kind.SLICE:
        for i, part in enumerate(parts):
            yield _slices(node, first + i, part)
        return
    for mask, same in groupby(sum(1 << slot for slot, _ in part) for part in parts):
        size = len(list(same))
        yield Run(node, first, size, mask)
        first += size


def _slices(node: int, index: int, part: list[Unit]) -> Run:
    mask = sum(1 << slot for slot, _ in part)
    start = sum(at << _START_BITS * position for position, (_, at) in enumerate(sorted(part)))
    return Run(node, index, 1, mask, start)


def _units(columns: Columns, shape: Shape, node: int, count: int, free: list[int]) -> list[Unit]:
    """The shares that `count` replicas take, device after device; no device more than once a replica."""
    wanted = count * shape.devices
    units: list[Unit] = []
    for slot in _tightest_first(columns, shape, node, free):
        some = min(free[slot], count, wanted - len(units))
        if shape.kind is Kind.SLICE:
            units += zip(repeat(slot), _starts(columns, shape.profile, node, slot, some), strict=False)
        else:
            units += repeat((slot, 0), some)
    return units


def _tightest_first(columns: Columns, shape: Shape, node: int, free: list[int]) -> list[int]:
    left = (columns.bytes if shape.kind is Kind.MEMORY else columns.milli)[node].tolist()
    if shape.kind is Kind.SLICE:
        left = [0] * SLOTS
        opened = (columns.mask[node] > 0).tolist()
    else:
        opened = (columns.mode[node] != IDLE).tolist()
    usable = [slot for slot in range(SLOTS) if free[slot] > 0]
    return sorted(usable, key=lambda slot: (not opened[slot], left[slot], slot))


def _starts(columns: Columns, name: str, node: int, slot: int, count: int) -> list[int]:
    card = CARDS[CARD_NAMES[columns.card[node, slot]]]
    profile, taken = card.profiles[name], int(columns.mask[node, slot])
    starts: list[int] = []
    while len(starts) < count:
        start = best_start(card, profile, taken)
        if start is None:  # the counts say otherwise: never reached while they hold
            break
        starts.append(start)
        taken |= profile.mask(start)
    return starts


def expanded(shape: Shape, runs: tuple[Run, ...]) -> list[Replica]:
    """Every replica of these runs, one by one, in order of index."""
    replicas: list[Replica] = []
    for node, first, count, mask, start in runs:
        indices = range(first, first + count)
        if shape.kind is Kind.WHOLE and mask:
            masks = _split(mask, shape.devices)
            replicas += map(tuple.__new__, repeat(Replica), zip(indices, repeat(node), masks, repeat(0), strict=False))
        else:
            replicas += map(
                tuple.__new__, repeat(Replica), zip(indices, repeat(node), repeat(mask), repeat(start), strict=False)
            )
    return replicas


@lru_cache(maxsize=4096)
def _split(mask: int, devices: int) -> tuple[int, ...]:
    """The mask of each replica; remembered, since most nodes of a gang give the same devices."""
    slots = [1 << slot for slot in slots_of(mask)]
    return tuple(sum(slots[at : at + devices]) for at in range(0, len(slots), devices))


def take_all(columns: Columns, shape: Shape, runs: tuple[Run, ...]) -> None:
    """Takes runs from a scratch copy that nobody restores: those of whole cards and of none all at once."""
    if shape.kind not in {Kind.NONE, Kind.WHOLE}:
        for run in runs:
            take(columns, shape, run)
        return
    rows = np.array([run.node for run in runs], np.int64)
    replicas = np.array([run.replicas for run in runs], np.int64)
    columns.cpu[rows] -= replicas * shape.cpu
    columns.memory[rows] -= replicas * shape.memory
    columns.replicas[rows] -= replicas
    if shape.kind is Kind.WHOLE:
        columns.idle[rows] -= (replicas * shape.devices).astype(np.int32)
        masks = np.array([run.mask for run in runs], np.int64)
        given = (masks[:, None] & _BITS) > 0
        columns.mode[rows] = np.where(given, np.int8(WHOLE), columns.mode[rows])
        columns.milli[rows] = np.where(given, np.int32(0), columns.milli[rows])
        columns.bytes[rows] = np.where(given, np.int64(0), columns.bytes[rows])
