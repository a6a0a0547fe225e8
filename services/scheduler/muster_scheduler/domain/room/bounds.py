"""How many whole cards others could give a taker on each node at most: where it needs more, no search can find room.

Called before a search for room (giving.py) and for every class that a change might help (turning/changes.py). With
queues that all hold about their shares, nineteen searches of twenty found that every way takes more than queues may
lose, after milliseconds each; this says so in a tenth of one.
Holds: an upper bound of what `reclaim` finds, under each clause: on a node all that is idle or shared, of every queue
as many whole cards of victims as it may lose in all, and one victim beyond that, where the side of the taker is no
fuller than its own then (fairness.py). Where it cannot be told, everything is possible.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind, Role
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.fleet.holdings import Ints32, Whole
from muster_scheduler.domain.room.fairness import Terms, terms
from muster_scheduler.domain.room.values import Bools, Ints, NoRoom, Taker, Tree

_GPUS: Final[Bools] = np.array([True, False, False])
_NO_NODES: Final[Bools] = np.zeros(0, np.bool_)


class Pool(NamedTuple):
    """One pool of one cluster and its queues, as the taker's search would see them."""

    world: World
    capacity: Capacity
    standing: Standing
    tree: Tree


class Losses(NamedTuple):
    """By number of project: int64[p] cards that it may lose, and those of the largest victim that may go beyond it."""

    room: Ints
    last: Ints


def may_take(pool: Pool, queue: int, role: Role, units: int, nodes: Collection[int] | None = None) -> bool:
    """Whether others could give way for a taker of that queue's row; False is certain.

    role: its only one. units: what all of it is charged, in 1/7,000 GPU. nodes: ordinals, on one of which it has to
    stand, at least in part; None: any.
    """
    if not bounded(pool.capacity, pool.standing, role):
        return True
    whole = pool.capacity.holdings.read(partial(giver, pool.world))
    taker = Taker(queue, role.shape, role.size, np.array([units, 0, 0], np.int64), _NO_NODES)
    for bound in (pool.tree.fair, pool.tree.deserved):
        term = terms(pool.tree, bound, taker, _GPUS)
        if isinstance(term, NoRoom):
            continue
        places = _cards(whole, _losses(pool, term)) // role.shape.devices
        there = places if nodes is None else places[list(nodes)]
        if there.any() and places.sum() >= role.size:
            return True
    return False


def giver(world: World, workload: str) -> str | None:
    """The project of a workload that might be asked to leave; None: it leaves anyway, or that is promised to it."""
    known = world.workloads[workload]
    return known.project if known.active else None


def bounded(capacity: Capacity, standing: Standing, role: Role) -> bool:
    """Whether it is whole cards that a role lacks there, and shares of them that say who gives some."""
    shape = role.shape
    return (
        shape.kind is Kind.WHOLE and standing.shares[0] is not None and not capacity.room_for(shape.devices, role.size)
    )


def _losses(pool: Pool, term: Terms) -> Losses:
    """What each project may lose under a clause."""
    numbers = pool.capacity.holdings.projects
    losses = Losses(np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64))
    spare = np.minimum(term.spare[:, 0], pool.tree.loose[:, 0])
    for row in np.flatnonzero(spare > 0).tolist():
        number = numbers.get(pool.standing.queues[row].name)
        if number is not None and row >= len(pool.standing.departments):
            losses.room[number] = spare[row] // GPU
            losses.last[number] = max(0, _largest(term, row)) // GPU
    return losses


def _largest(term: Terms, row: int) -> int:
    """What one victim of a queue may hold that goes beyond what that may lose: the taker's side is no fuller then."""
    t, v = int(term.taker_side[row]), int(term.victim_side[row])
    above, below = int(term.bound[v, 0]), int(term.bound[t, 0])
    taker = int(term.allocated[t, 0] + term.units[0])
    return int(term.allocated[v, 0]) + (-taker * above // below if below else 0)


def _cards(whole: Whole, losses: Losses) -> Ints:
    found = np.zeros(len(whole.free), np.int64)
    count_cards(whole.free, whole.holder, whole.cards, losses.room, losses.last, found)
    return found


@lean
def count_cards(free: Ints32, holder: Ints32, cards: Ints32, room: Ints, last: Ints, found: Ints) -> None:
    """int64[n], into `found`: what each node has free once queues have lost what they may, and one victim more.

    Its oracle is every set of victims, tried one by one (tests/properties/scheduler/test_bounds.py).
    """
    for n in range(len(free)):
        total, more = int(free[n]), 0
        for s in range(holder.shape[1]):
            p = holder[n, s]
            if p < 0:
                break
            held, first = 0, True
            for other in range(holder.shape[1]):
                if holder[n, other] == p:
                    held += cards[n, other] if cards[n, other] <= room[p] else 0  # no victim is divided
                    first = first and other >= s
            given = min(held, room[p])
            if first:
                total += given
            if cards[n, s] <= last[p]:
                rest = held - cards[n, s] if cards[n, s] <= room[p] else held
                more = max(more, min(rest, room[p]) + cards[n, s] - given)
        found[n] = total + more
