"""The losses of node states, remembered: thousands of nodes are in few states, and a loss costs a microsecond or more.

Asked by the kernels of scores.py. A table of fixed size: what finds no room near its place takes that of another.
Holds: states are compared whole, so that none is mistaken for another, and what is remembered never changes an answer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.fleet.columns import SLOTS, Ints64
from muster_scheduler.domain.strategies.outlook import Outlook, loss

_WORDS: Final = 6  # of a state: CPU, memory, type, and three of six devices each
_PROBES: Final = 8
_DEVICES_A_WORD: Final = 6
_BASE: Final = 1024  # above any device's free milli-GPU
_LOW: Final = (1 << 31) - 1  # products of it and _ODD stay within 63 bits, so that plain Python gives the same
_ODD: Final = 2_654_435_761


class States(NamedTuple):
    """The table and work space.

    words: [size, 6] states; losses: [size] their losses, -1 where there is none; ordered, word, work: [16] scratch.
    """

    words: Ints64
    losses: Ints64
    ordered: Ints64
    word: Ints64
    work: Ints64


def no_states(size: int) -> States:
    """An empty table. size: a power of two; 56 bytes a state."""
    scratch = [np.zeros(SLOTS, np.int64) for _ in range(3)]
    return States(np.zeros((size, _WORDS), np.int64), np.full(size, -1, np.int64), *scratch)


@lean
def loss_of(outlook: Outlook, states: States, cpu: int, memory: int, free: Ints64, kind: int) -> int:
    """The loss of a node, looked up or worked out. free: [16] free milli-GPU of its devices, in any order."""
    count = ascending(free, states.ordered)
    if count == 0:
        return 0
    known, at = find(outlook, states, cpu, memory, count, kind)
    if known:
        return int(states.losses[at])
    found = loss(outlook, cpu, memory, states.ordered, count, kind, states.work)
    states.losses[at] = found
    for word in range(_WORDS):
        states.words[at, word] = states.word[word]
    return found


@lean
def find(outlook: Outlook, states: States, cpu: int, memory: int, count: int, kind: int) -> tuple[bool, int]:
    """Whether the state of `ordered` is known, and its place, or the one that it may take."""
    word = states.word
    word[0] = cpu
    word[1] = memory if outlook.futures.shape[0] else 0  # fragments do not look at memory
    word[2] = kind
    for at in range(3, _WORDS):
        word[at] = 0
    for slot in range(count):
        at = 3 + slot // _DEVICES_A_WORD
        word[at] = word[at] * _BASE + states.ordered[slot]
    start = 0
    for at in range(_WORDS):
        mixed = ((start ^ (word[at] & _LOW) ^ (word[at] >> 31)) & _LOW) * _ODD
        start = (mixed ^ (mixed >> 29)) & _LOW
    last = len(states.losses) - 1
    for probe in range(_PROBES):
        place = (start + probe) & last
        if states.losses[place] < 0:
            return False, place
        same = True
        for at in range(_WORDS):
            same = same and states.words[place, at] == word[at]
        if same:
            return True, place
    return False, start & last


@lean
def ascending(free: Ints64, ordered: Ints64) -> int:
    """Sorts what is free of devices that have any; how many there are."""
    count = 0
    for slot in range(SLOTS):
        if free[slot] == 0:
            continue
        to = count
        while to > 0 and ordered[to - 1] > free[slot]:
            ordered[to] = ordered[to - 1]
            to -= 1
        ordered[to] = free[slot]
        count += 1
    return count
