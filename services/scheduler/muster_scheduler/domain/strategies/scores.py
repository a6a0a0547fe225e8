"""The scores of one class of requests on every node, and the first node of the best: kernels of the board.

A score says how little would be lost if one replica went there (outlook.py), as a whole number, more is better.
Holds: kernels write scores and scratch, never the columns; a node that does not fit has the score NEVER.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.quantities import MILLI
from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.fleet.columns import ABSENT, IDLE, SHARED, SLOTS, Bools, Columns, Ints32, Ints64
from muster_scheduler.domain.strategies.outlook import Outlook
from muster_scheduler.domain.strategies.popularity import Asked
from muster_scheduler.domain.strategies.states import States, loss_of

NEVER: Final = -(1 << 60)


class Rows(NamedTuple):
    """The columns that scores read, as in `Columns`, and `version`: [n] grows with every change of the node."""

    cpu: Ints64
    memory: Ints64
    replicas: Ints64
    mode: NDArray[np.int8]
    milli: Ints32
    bytes: Ints64
    size: Ints64
    idle: Ints32
    kind: Ints32
    version: Ints64


def rows_of(columns: Columns) -> Rows:
    """Views of the columns, all of version 0."""
    c = columns
    free = c.cpu, c.memory, c.replicas, c.mode, c.milli, c.bytes
    return Rows(*free, c.size, c.idle, c.kind, np.zeros(len(c), np.int64))


class Scores(NamedTuple):
    """What is kept of each class and node.

    score, mask, stamp: [classes, n], valid where the stamp is the node's version; now, now_stamp: [n] the loss of the
    node as it is, likewise; free, other: [16] scratch.
    """

    score: Ints64
    mask: Ints64
    stamp: Ints64
    now: Ints64
    now_stamp: Ints64
    free: Ints64
    other: Ints64


def no_scores(classes: int, n: int) -> Scores:
    """Scores of which none is valid."""
    return Scores(
        score=np.zeros((classes, n), np.int64),
        mask=np.zeros((classes, n), np.int64),
        stamp=np.full((classes, n), -1, np.int64),
        now=np.zeros(n, np.int64),
        now_stamp=np.full(n, -1, np.int64),
        free=np.zeros(SLOTS, np.int64),
        other=np.zeros(SLOTS, np.int64),
    )


def widened(scores: Scores) -> Scores:
    """The same with room for twice as many classes."""
    classes, n = scores.score.shape
    wider = no_scores(2 * classes, n)
    wider.score[:classes], wider.mask[:classes], wider.stamp[:classes] = scores.score, scores.mask, scores.stamp
    return wider


@lean
def best(
    outlook: Outlook, rows: Rows, states: States, scores: Scores, k: int, asked: Asked, eligible: Bools
) -> tuple[int, int]:
    """The first eligible node of the best score for class `k`, and its devices; (-1, 0) where none fits."""
    found, at = NEVER, -1
    for n in range(len(rows.cpu)):
        if not eligible[n]:
            continue
        if scores.stamp[k, n] != rows.version[n]:
            weigh(outlook, rows, states, scores, k, n, asked)
        if scores.score[k, n] > found:
            found, at = scores.score[k, n], n
    if at < 0:
        return -1, 0
    return at, scores.mask[k, at]


@lean
def weigh(outlook: Outlook, rows: Rows, states: States, scores: Scores, k: int, n: int, asked: Asked) -> None:
    """Scores class `k` on node `n`: one portion on every device that differs, all else on the tightest devices."""
    scores.stamp[k, n] = rows.version[n]
    scores.score[k, n] = NEVER
    if rows.cpu[n] < asked.cpu or rows.memory[n] < asked.memory or rows.replicas[n] < 1:
        return
    portion = 0 < asked.milli < MILLI
    if portion and rows.mode[n, 0] == ABSENT:
        return
    free = scores.free
    gather(rows, n, free)
    if scores.now_stamp[n] != rows.version[n]:
        scores.now[n] = loss_of(outlook, states, rows.cpu[n], rows.memory[n], free, rows.kind[n])
        scores.now_stamp[n] = rows.version[n]
    if portion and asked.devices == 1:
        for slot in range(SLOTS):
            if first_of_its_kind(free, slot, asked.milli):
                consider(outlook, rows, states, scores, k, n, asked, 1 << slot)
        return
    mask = tightest(free, asked.devices, asked.milli)
    if mask or not asked.devices:
        consider(outlook, rows, states, scores, k, n, asked, mask)


@lean
def consider(
    outlook: Outlook, rows: Rows, states: States, scores: Scores, k: int, n: int, asked: Asked, mask: int
) -> None:
    """Keeps these devices of the node if they are better than what was seen of it."""
    for slot in range(SLOTS):
        scores.other[slot] = scores.free[slot] - (asked.milli if mask >> slot & 1 else 0)
    cpu, memory = rows.cpu[n] - asked.cpu, rows.memory[n] - asked.memory
    after = loss_of(outlook, states, cpu, memory, scores.other, rows.kind[n])
    score = score_of(outlook, scores.now[n] - after)
    if score > scores.score[k, n]:
        scores.score[k, n] = score
        scores.mask[k, n] = 0 if rows.mode[n, 0] == ABSENT else mask  # anonymous devices are not told apart


@lean
def gather(rows: Rows, n: int, free: Ints64) -> None:
    """The free milli-GPU of each device of a node; anonymous devices are whole or not there.

    A device shared by memory has the part of itself that its free memory is, rounded down: what fits that fits it.
    """
    for slot in range(SLOTS):
        usable = rows.mode[n, slot] == IDLE or rows.mode[n, slot] == SHARED
        free[slot] = rows.milli[n, slot] if usable else 0
        if usable and rows.bytes[n, slot] * MILLI < free[slot] * rows.size[n, slot]:
            free[slot] = max(0, rows.bytes[n, slot] * MILLI // max(1, rows.size[n, slot]))
    if rows.mode[n, 0] == ABSENT:
        for slot in range(min(SLOTS, rows.idle[n])):
            free[slot] = MILLI


@lean
def first_of_its_kind(free: Ints64, slot: int, milli: int) -> bool:
    """Whether this device has the portion, and none before it has just as much free."""
    first = bool(free[slot] >= milli)
    for before in range(slot):
        first = first and bool(free[before] != free[slot])
    return first


@lean
def tightest(free: Ints64, devices: int, milli: int) -> int:
    """The mask of the `devices` devices that have the least, but enough; the first among equals; 0 where too few."""
    mask = 0
    for _ in range(devices):
        found = -1
        for slot in range(SLOTS):
            if not mask >> slot & 1 and free[slot] >= milli and (found < 0 or free[slot] < free[found]):
                found = slot
        if found < 0:
            return 0
        mask |= 1 << found
    return mask


@lean
def score_of(outlook: Outlook, gain: int) -> int:
    """What a gain (mostly below zero: more is lost afterwards than before) is worth: a whole number, more is better."""
    if len(outlook.bounds) == 0:
        return gain // outlook.grain
    low, high = 0, len(outlook.bounds)
    while low < high:
        middle = (low + high) // 2
        if outlook.bounds[middle] <= gain:
            low = middle + 1
        else:
            high = middle
    return low
