"""What is free once some of the running workloads have left: columns to which runs are lifted and put back.

Called by search.py and consolidate.py on a scratch copy of the columns; nothing here touches the books.
Holds: lifting and putting back are inverse to each other, byte for byte, in whatever order they come; `room_on` is what
`fleet.fitting.fit` would allow, replica by replica (the oracle of its tests).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.mig import CARDS
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.fleet.columns import CARD_NAMES, IDLE, SHARED, SLICED, SLOTS, WHOLE, Columns, media_bit
from muster_scheduler.domain.room.values import ALL, Bools, Held, Ints

_KINDS: Final = (Kind.NONE, Kind.WHOLE, Kind.PORTION, Kind.MEMORY, Kind.SLICE)
_NONE, _WHOLE, _PORTION, _MEMORY, _SLICE = range(len(_KINDS))
_MILLI: Final = 1000
_NEVER: Final = 1 << 62  # milli-CPU


class Stock(NamedTuple):
    """The columns that change when somebody leaves, and those that say how large cards are."""

    cpu: Ints
    memory: Ints
    replicas: Ints
    extra: Ints
    idle: NDArray[np.int32]
    mode: NDArray[np.int8]
    milli: NDArray[np.int32]
    bytes: Ints
    size: Ints
    mask: NDArray[np.uint8]
    media: NDArray[np.uint8]
    card: NDArray[np.int8]


class Need(NamedTuple):
    """One shape in the form that kernels read. slices: int64[cards, 256], instances that fit beside a taken mask."""

    kind: int
    devices: int
    cpu: int
    memory: int
    extra: Ints
    milli: int
    bytes: int
    slices: Ints
    media: Ints


def stock_of(columns: Columns) -> Stock:
    """The stock over these very arrays: give it a scratch copy."""
    return Stock(*(getattr(columns, name) for name in Stock._fields))


def need_of(shape: Shape, resources: tuple[str, ...] = ()) -> Need:
    """A shape for the kernels; `resources` are the names of the columns of `extra`."""
    extra = dict(shape.extra)
    wanted = np.array([extra.pop(name, 0) for name in resources], np.int64)
    cpu = _NEVER if any(extra.values()) else shape.cpu  # no node has such a resource
    slices, media = _instances(shape.profile)
    kind = _KINDS.index(shape.kind)
    return Need(kind, shape.devices, cpu, shape.memory, wanted, shape.milli, shape.bytes, slices, media)


@lru_cache(maxsize=64)
def _instances(name: str) -> tuple[Ints, Ints]:
    """How many instances of a profile fit on each card model beside each mask, and its `+me` bit there."""
    table = np.zeros((len(CARD_NAMES), 256), np.int64)
    media = np.zeros(len(CARD_NAMES), np.int64)
    for number, model in enumerate(CARD_NAMES):
        profile = CARDS[model].profile(name)
        if profile is None:
            continue
        media[number] = media_bit(model, name)
        for taken in range(256):
            mask = taken
            for start in sorted(profile.starts):
                if not mask & profile.mask(start):
                    mask |= profile.mask(start)
                    table[number, taken] += 1
    return table, media


@lean
def shift(stock: Stock, held: Held, r: int, sign: int) -> None:
    """Gives run `r` back to its node (sign 1) or takes it again (sign -1)."""
    n = held.node[r]
    stock.cpu[n] += sign * held.cpu[r]
    stock.memory[n] += sign * held.memory[r]
    stock.replicas[n] += sign * held.replicas[r]
    for x in range(held.extra.shape[1]):
        stock.extra[n, x] += sign * held.extra[r, x]
    stock.idle[n] += sign * held.anonymous[r]
    slots = held.slots[r]
    for s in range(SLOTS):
        if not slots >> s & 1:
            continue
        stock.milli[n, s] += sign * held.milli[r]
        stock.bytes[n, s] += sign * (stock.size[n, s] if held.bytes[r] == ALL else held.bytes[r])
        stock.mask[n, s] ^= held.slices[r]
        stock.media[n, s] ^= held.media[r]
        mode = stock.mode[n, s]
        if mode in (IDLE, WHOLE, SHARED):
            now = SHARED
            if stock.milli[n, s] == _MILLI and stock.bytes[n, s] == stock.size[n, s]:
                now = IDLE
            elif held.bytes[r] == ALL:
                now = WHOLE
            stock.mode[n, s] = now
            stock.idle[n] += int(now == IDLE) - int(mode == IDLE)


@lean
def lift(stock: Stock, held: Held, workloads: Ints, sign: int) -> None:
    """Gives all that these workloads hold back (sign 1), or takes it again (sign -1)."""
    for i in range(len(workloads)):
        v = workloads[i]
        for r in range(held.first[v], held.first[v + 1]):
            shift(stock, held, r, sign)


@lean
def on_device(stock: Stock, need: Need, n: int, s: int) -> int:
    """How many replicas could each take their part of this one device."""
    mode = stock.mode[n, s]
    if need.kind == _SLICE:
        card = stock.card[n, s]
        if mode != SLICED or card < 0:
            return 0
        fitting = need.slices[card, stock.mask[n, s]]
        if need.media[card]:
            return int(min(fitting, 1 - ((stock.media[n, s] & need.media[card]) != 0)))
        return int(fitting)
    if mode not in (IDLE, SHARED):
        return 0
    amount = need.bytes if need.kind == _MEMORY else need.milli * stock.size[n, s] // _MILLI
    if need.kind == _MEMORY and not stock.size[n, s]:
        return 0
    fitting = _MILLI if need.kind == _MEMORY else stock.milli[n, s] // need.milli
    if amount:
        fitting = min(fitting, stock.bytes[n, s] // amount)
    return int(max(0, fitting))  # below 0 where what is promised is still held


@lean
def _beside_devices(stock: Stock, need: Need, n: int, most: int) -> int:
    if stock.cpu[n] < need.cpu or stock.memory[n] < need.memory or stock.replicas[n] < 1:
        return 0
    most = min(most, stock.replicas[n])
    if need.cpu:
        most = min(most, stock.cpu[n] // need.cpu)
    if need.memory:
        most = min(most, stock.memory[n] // need.memory)
    for x in range(len(need.extra)):
        if need.extra[x]:
            most = min(most, max(0, stock.extra[n, x] // need.extra[x]))
    return most


@lean
def room_on(stock: Stock, need: Need, n: int, most: int) -> int:
    """How many replicas of the shape, at most `most`, fit on node n as the stock stands."""
    most = _beside_devices(stock, need, n, most)
    if need.kind == _NONE or most == 0:
        return most
    if need.kind == _WHOLE:
        return int(min(most, stock.idle[n] // need.devices))
    if need.devices == 1:
        return min(most, _served(stock, need, n, most))
    # Replicas that need k distinct devices each: r of them fit where the devices, each serving r at most, serve k r.
    fitting = 0
    while fitting < most and _served(stock, need, n, fitting + 1) >= need.devices * (fitting + 1):
        fitting += 1
    return fitting


@lean
def _served(stock: Stock, need: Need, n: int, each: int) -> int:
    """The sum of what the devices of a node can serve, each at most so many replicas."""
    total = 0
    for s in range(SLOTS):
        total += min(each, on_device(stock, need, n, s))
    return total


def count(stock: Stock, need: Need, inside: Bools, most: int) -> Ints:
    """int64[n]: how many replicas fit on each node inside, each at most `most`."""
    counts = np.zeros(len(inside), np.int64)
    count_into(stock, need, inside, most, counts)
    return counts


@lean
def count_into(stock: Stock, need: Need, inside: Bools, most: int, counts: Ints) -> None:
    """`count`, into zeros that are there already."""
    for n in range(len(inside)):
        if inside[n]:
            counts[n] = room_on(stock, need, n, most)


class Returning(NamedTuple):
    """Who may be put back. order: rows, the last of them first; gone: bool[v], who is left in the end.

    gives, spare: int64[v, k] and int64[k], what each releases for limits, and how much more than needed all of them do.
    """

    order: Ints
    gone: Bools
    gives: Ints
    spare: Ints


@lean
def reprieve(stock: Stock, held: Held, need: Need, inside: Bools, counts: Ints, size: int, back: Returning) -> None:
    """Puts back whoever need not go, the last of the order first; `gone`, `spare` and `counts` say what is left.

    Before: all of the order is lifted, `counts` sum to `size` at least and nothing of `spare` is below 0. After: so it
    is still, and none of those who are gone can be put back. One pass is enough, since putting back never makes room.
    """
    total = 0
    for n in range(len(counts)):
        total += counts[n]
    for i in range(len(back.order) - 1, -1, -1):
        v = back.order[i]
        needed = False
        for k in range(len(back.spare)):
            needed = needed or back.gives[v, k] > back.spare[k]
        back.gone[v] = needed
        if needed:
            continue
        total += shift_all(stock, held, need, inside, counts, size, v, -1)
        back.gone[v] = total < size
        if back.gone[v]:
            total += shift_all(stock, held, need, inside, counts, size, v, 1)
            continue
        for k in range(len(back.spare)):
            back.spare[k] -= back.gives[v, k]


@lean
def shift_all(stock: Stock, held: Held, need: Need, inside: Bools, counts: Ints, most: int, v: int, sign: int) -> int:
    """Lifts or puts back one workload, keeps `counts` true, and says by how much their sum changed."""
    change = 0
    for r in range(held.first[v], held.first[v + 1]):
        shift(stock, held, r, sign)
    for r in range(held.first[v], held.first[v + 1]):
        n = held.node[r]
        if inside[n]:
            now = room_on(stock, need, n, most)
            change += now - counts[n]
            counts[n] = now
    return change
