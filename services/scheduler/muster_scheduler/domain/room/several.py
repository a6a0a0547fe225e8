"""Many takers of one class at once: as many as may and can be let in, with one plan instead of one search each.

Called by the cycle when a class of identical one-replica workloads has no place. Together they are a gang of which a
part is welcome too: the largest part that the law allows is looked for, and each member is told on which node it will
stand and for whom it has to wait there.
Holds: what `search` holds for the part as a whole; members are let in in their order, none before one ahead of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.gangs.runs import expanded, runs_of
from muster_scheduler.domain.room.reclaim import reclaim
from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.room.values import Ints, NoRoom, Obstacle, Question, Running, Taker, Tree, Vacated

_ALL: Final = 1 << 40  # takers: no bound


class Seat(NamedTuple):
    """Where one member will stand, with which device slots (`start`: as in a run), once these victims have left.

    It waits for those who hold its devices, or for all of its node's where CPU, memory or a place under its limit of
    replicas is what they hold.
    """

    node: int
    mask: int
    start: int
    waits_for: tuple[int, ...]


class Seats(NamedTuple):
    """Seats of the first members of a class, in their order, and all who leave for them."""

    seats: tuple[Seat, ...]
    victims: tuple[int, ...]


def reclaim_for(question: Question, tree: Tree, number: int) -> Seats | NoRoom:
    """Room for the first of `number` takers like the question's (a single replica), as many as can have it."""
    one = question.taker
    asked = one.units > 0
    left = np.maximum(tree.fair, tree.deserved)[one.queue, asked] - tree.allocated[one.queue, asked]
    tried = most = max(1, int((left // one.units[asked]).min(initial=number)))
    fewest, best, refusal = 0, None, None
    while tried > fewest:
        made = reclaim(question._replace(taker=one._replace(size=tried, units=one.units * tried)), tree)
        if isinstance(made, Vacated):
            fewest, best = tried, made
        else:
            refusal, most = made, max(fewest, min(tried - 1, _hint(made, one)))
        tried = most if refusal is None or refusal.obstacle in _HINTS else (fewest + most + 1) // 2
    if best is None:
        return refusal or NoRoom(Obstacle.NOTHING, (0, 0))
    return Seats(tuple(_seats(question, best, fewest)), best.victims)


_HINTS: Final = frozenset({Obstacle.NOTHING, Obstacle.PLACES})


def _hint(refusal: NoRoom, one: Taker) -> int:
    """No more takers than this can be let in, as far as a refusal of more of them says."""
    if refusal.obstacle is Obstacle.NOTHING:
        return refusal.numbers[0] // max(1, int(one.units[refusal.resource]))
    return refusal.numbers[0] if refusal.obstacle is Obstacle.PLACES else _ALL


def _seats(question: Question, room: Vacated, number: int) -> Iterator[Seat]:
    columns, running, one, _ = question
    victims = np.array(room.victims, np.int64)
    scratch = columns.scratch()
    lift(stock_of(scratch), running.held, victims, 1)
    rows = np.flatnonzero(room.counts)
    last = int(np.searchsorted(np.cumsum(room.counts[rows]), number)) + 1
    counts = room.counts[rows][:last].copy()
    counts[-1] -= counts.sum() - number
    used = rows[:last]
    free = (
        (columns.cpu[used] >= counts * one.shape.cpu)
        & (columns.memory[used] >= counts * one.shape.memory)
        & (columns.replicas[used] >= counts)
    )
    by_device = dict(zip(rows.tolist(), free.tolist(), strict=False))
    there = _by_node(running, victims)
    for _, node, mask, start in expanded(one.shape, runs_of(scratch, one.shape, rows[:last], counts)):
        crowd = there.get(node, ())
        waits_for = {v for v, slots in crowd if slots & mask or not (mask and by_device[node])}
        yield Seat(node, mask, start, tuple(sorted(waits_for)))


def _by_node(running: Running, victims: Ints) -> dict[int, list[tuple[int, int]]]:
    """For each node the victims that hold something there: (row, device slots)."""
    found: dict[int, list[tuple[int, int]]] = {}
    first, node, slots = (each.tolist() for each in (running.held.first, running.held.node, running.held.slots))
    for v in victims.tolist():
        for r in range(first[v], first[v + 1]):
            found.setdefault(node[r], []).append((v, slots[r]))
    return found
