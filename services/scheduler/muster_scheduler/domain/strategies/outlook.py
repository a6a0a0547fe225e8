"""What a node is worth to those who will come: fragments after FGD, or what futures would leave stranded.

An outlook is made once for a mix of arrivals and read by the board for every node that it weighs. Both ways say of a
node how much of its free GPU is lost to the usual arrivals; a placement is good that adds little to that.
Holds: the loss depends on the node's type, its free CPU, memory and devices alone, not on which device has what.

`fgd` is "Beware of Fragmentation" (USENIX ATC 2023) as published: the fragments of the typical classes, and scores of
100 sigmoid(gain / 1 GPU) truncated to whole numbers. `foresight` is Muster's own (docs/decisions/0007).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from muster_kernel.quantities import MILLI
from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.fleet.columns import Bools, Ints64
from muster_scheduler.domain.strategies.popularity import CPU, DEVICES, PORTION, Popularity, futures_of, typical_of

FUTURES: Final = 16
ARRIVALS: Final = 24  # of one future: three a device of a node of eight; more changes little, one a device loses
GRAIN: Final = 20  # milli-GPU: losses that differ by less are equal, and go to the first node
LEAST_CPU: Final = 4
LEAST_MILLI: Final = 5
_ENDLESS: Final = 1 << 60
_NONE: Final = np.zeros((0, 4), np.int64)
_NO: Final = np.zeros(0, np.int64)


class Outlook(NamedTuple):
    """Tables for the kernels, empty where the strategy has no use for them.

    rows, starts, others: the typical classes, as in `Typical`. futures: [count, length, 6] arrivals as `Asked`, with
    the least CPU and portion of a device that anything from there on asks for; admits: [count, length, T] the node
    types that each arrival may use. bounds: [99] the gain from which on each score is reached; without bounds a score
    is the gain in steps of `grain`.
    """

    rows: Ints64
    starts: Ints64
    others: Ints64
    futures: Ints64
    admits: Bools
    bounds: Ints64
    grain: int


def fgd(popularity: Popularity) -> Outlook:
    """Fragmentation gradient descent over the classes that make up 95 % of arrivals.

    Losses are milli-GPU times arrivals, so that they are integers: `bounds` are the gains at which the published score
    floor(100 / (1 + exp(-gain / 1000))) steps up.
    """
    typical = typical_of(popularity)
    steps = [MILLI * math.log(score / (100 - score)) * typical.all for score in range(1, 100)]
    bounds = np.array([math.ceil(step) for step in steps], np.int64)
    nobody = np.zeros((0, 0, 6), np.int64), np.zeros((0, 0, 0), np.bool_)
    return Outlook(typical.rows, typical.starts, typical.others, *nobody, bounds, 1)


def foresight(popularity: Popularity) -> Outlook:
    """What stays free, in sum over the futures, after a node was offered all arrivals of each."""
    drawn = futures_of(popularity, FUTURES, ARRIVALS)
    arrivals = popularity.asked[drawn]
    serves = arrivals[:, :, DEVICES] > 0
    least = [_least_to_come(np.where(serves, arrivals[:, :, what], _ENDLESS)) for what in (CPU, PORTION)]
    futures = np.concatenate([arrivals, *least], axis=2)
    return Outlook(_NONE, _NO, _NO, futures, popularity.admits[drawn], _NO, GRAIN * FUTURES)


def _least_to_come(amounts: Ints64) -> Ints64:
    """At each place the least of it and of what comes after, shape [count, length, 1]."""
    return np.minimum.accumulate(amounts[:, ::-1], axis=1)[:, ::-1, None]


@lean
def loss(outlook: Outlook, cpu: int, memory: int, free: Ints64, count: int, kind: int, room: Ints64) -> int:
    """The loss of a node. free: its devices' free milli-GPU, the `count` that have any, ascending; room: [16] work."""
    if outlook.futures.shape[0]:
        return stranded(outlook, cpu, memory, free, count, kind, room)
    return fragments(outlook, cpu, free, count, kind)


@lean
def fragments(outlook: Outlook, cpu: int, free: Ints64, count: int, kind: int) -> int:
    """FGD's F(n): for each typical class all that is free where it cannot run, else devices with too little for it."""
    total = 0
    for slot in range(count):
        total += free[slot]
    found = outlook.others[kind] * total
    for row in range(outlook.starts[kind], outlook.starts[kind + 1]):
        lost = total
        if outlook.rows[row, 0] <= cpu:
            small, fits = 0, 0
            for slot in range(count):
                if free[slot] >= outlook.rows[row, 2]:
                    fits += 1
                else:
                    small += free[slot]
            if fits >= outlook.rows[row, 1]:
                lost = small
        found += outlook.rows[row, 3] * lost
    return int(found)


@lean
def stranded(outlook: Outlook, cpu: int, memory: int, free: Ints64, count: int, kind: int, room: Ints64) -> int:
    """What stays free after each future's arrivals took what fits, each the tightest devices; summed over futures."""
    futures, begin = outlook.futures, 0
    for slot in range(count):
        begin += free[slot]
    found = 0
    for future in range(futures.shape[0]):
        for slot in range(count):
            room[slot] = free[slot]
        left, cpu_left, memory_left = begin, cpu, memory
        for at in range(futures.shape[1]):
            if cpu_left < futures[future, at, LEAST_CPU] or left < futures[future, at, LEAST_MILLI]:
                break
            devices, milli = futures[future, at, 2], futures[future, at, 3]
            if milli > room[count - 1] or futures[future, at, 0] > cpu_left or futures[future, at, 1] > memory_left:
                continue
            if outlook.admits[future, at, kind] and take_tightest(room, count, devices, milli):
                left -= devices * milli
                cpu_left -= futures[future, at, 0]
                memory_left -= futures[future, at, 1]
        found += left
    return int(found)


@lean
def take_tightest(room: Ints64, count: int, devices: int, milli: int) -> bool:
    """Takes `milli` of each of the `devices` tightest devices that have it, if there are such; keeps `room` sorted."""
    first = 0
    while first < count and room[first] < milli:
        first += 1
    if count - first < devices:
        return False
    for at in range(first, first + devices):
        rest = room[at] - milli
        slot = at
        while slot > 0 and room[slot - 1] > rest:
            room[slot] = room[slot - 1]
            slot -= 1
        room[slot] = rest
    return True
