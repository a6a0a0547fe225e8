"""The fewest who have to leave so that a gang fits: per domain, lift everybody, put back whoever need not go.

Called by reclaim.py and preempt.py with candidates in their order. A domain is all nodes, or one of the level that the
gang requires. In each domain that would do at all, several orders are tried: the law's, and those that empty the
cheapest nodes, the cheapest devices, or the largest workloads first (evict one, not ten: orders.py); the best outcome
wins, by the law's criteria.
Holds: the gang fits once the victims have left; none of them could stay with the gang still fitting; what they leave is
allowed by `judge`. Bounded by `_DOMAINS` and `_TRIES`; where these end the search, the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.room.exact import smallest
from muster_scheduler.domain.room.orders import orders
from muster_scheduler.domain.room.roles import search_gang
from muster_scheduler.domain.room.stock import Need, Returning, Stock, count, lift, need_of, reprieve, stock_of
from muster_scheduler.domain.room.values import (
    Bools,
    Ints,
    Judge,
    Law,
    NoRoom,
    Obstacle,
    Question,
    Running,
    Taker,
    Vacated,
)

_DOMAINS: Final = 4_096  # domains looked into, the ones with the most room first
_TRIES: Final = 6  # orders tried in one domain


class Scene(NamedTuple):
    """What one search is about. order: candidate rows, the first to go first; stock: all of them lifted.

    gives, least: as `Taker.released` has them.
    """

    stock: Stock
    running: Running
    need: Need
    taker: Taker
    order: Ints
    judge: Judge | None
    law: Law
    gives: Ints
    least: Ints


class Found(NamedTuple):
    """One way to make room in one domain."""

    merit: tuple[int, ...]
    domain: int
    victims: Ints
    counts: Ints


def search(question: Question, order: Ints, judge: Judge | None, law: Law) -> Vacated | NoRoom:
    """The best way found to let the taker in, or why there is none. judge None: no queue can lose too much."""
    if question.fits is not None:
        victims = search_gang(question, order, question.fits, judge)
        return victims if isinstance(victims, NoRoom) else Vacated(victims, np.zeros(0, np.int64))
    return _by_counting(question, order, judge, law)


def _by_counting(question: Question, order: Ints, judge: Judge | None, law: Law) -> Vacated | NoRoom:
    columns, running, taker, _ = question
    gives, least = taker.released(running)
    short = np.flatnonzero(gives[order].sum(axis=0) < least)
    if len(short):
        return NoRoom(Obstacle.NOTHING, (int(gives[order, short[0]].sum()), int(least[short[0]])))
    stock = stock_of(columns.scratch())
    need = need_of(taker.shape, columns.resources)
    free = count(stock, need, taker.eligible, taker.size)
    lift(stock, running.held, order, 1)
    scene = Scene(stock, running, need, taker, order, judge, law, gives, least)
    counts = count(stock, need, taker.eligible, taker.size)
    domains, most = _domains(taker, counts)
    if not len(domains):
        return NoRoom(Obstacle.PLACES, (most, taker.size))
    found: list[Found] = []
    exact = len(domains) <= _DOMAINS
    for domain in domains[:_DOMAINS]:
        inside = _inside(taker, int(domain))
        members = _useful(scene, inside)
        ways = list(_ways(scene, int(domain), inside, members, counts, free))
        if not ways and judge:
            way, complete = _every_way(scene, int(domain), inside, members, judge)
            exact = exact and complete
            ways = [way] if way else []
        found += ways
    if not found:
        return NoRoom(Obstacle.VICTIMS, (most, taker.size), exact)
    best = min(found, key=lambda way: (way.merit, way.domain))
    return Vacated(tuple(best.victims.tolist()), best.counts)


def _domains(taker: Taker, counts: Ints) -> tuple[Ints, int]:
    """The domains in which the gang could fit, most room first, and how many replicas the best one holds."""
    if taker.domains is None:
        total = int(counts.sum())
        return np.zeros(int(total >= taker.size), np.int64), total
    named = taker.domains >= 0
    if not named.any():
        return np.zeros(0, np.int64), 0
    each = np.bincount(taker.domains[named], counts[named]).astype(np.int64)
    ranked = np.argsort(-each, kind="stable")
    return ranked[each[ranked] >= taker.size], int(each.max())


def _inside(taker: Taker, domain: int) -> Bools:
    return taker.eligible if taker.domains is None else taker.eligible & (taker.domains == domain)


def _useful(scene: Scene, inside: Bools) -> Ints:
    """Those of the order who hold something on a node inside, or below a limit: nobody else's leaving can help."""
    held, order = scene.running.held, scene.order
    touches = np.add.reduceat(np.append(inside[held.node], 0), held.first[:-1])
    touches[held.first[:-1] == held.first[1:]] = 0
    return order[(touches[order] > 0) | (scene.gives[order] > 0).any(axis=1)]


def _ways(scene: Scene, domain: int, inside: Bools, members: Ints, lifted: Ints, free: Ints) -> Iterator[Found]:
    counts = np.where(inside, lifted, 0)
    lawful = _reprieved(scene, domain, inside, members, counts)
    if lawful:
        yield lawful
    for order in orders(scene.running, inside, members, np.maximum(lifted - free, 0)):
        found = _reprieved(scene, domain, inside, _within(scene, order, lawful), counts)
        if found:
            yield found


def _within(scene: Scene, order: Ints, lawful: Found | None) -> Ints:
    """The order without anybody whom the law would spare before it counts: these are put back first."""
    if lawful is None:
        return order
    dear = scene.law.grade[order] > lawful.merit[0]
    return np.concatenate((order[~dear], order[dear]))


def _reprieved(scene: Scene, domain: int, inside: Bools, order: Ints, lifted: Ints) -> Found | None:
    """The outcome of one order; queues that would lose too much have theirs put back before others, and again."""
    for _ in range(_TRIES):
        gone = np.zeros(len(scene.running), np.bool_)
        gone[order] = True
        counts = lifted.copy()
        spare = scene.gives[order].sum(axis=0) - scene.least
        held, size = scene.running.held, scene.taker.size
        reprieve(scene.stock, held, scene.need, inside, counts, size, Returning(order, gone, scene.gives, spare))
        lift(scene.stock, scene.running.held, order[~gone[order]], 1)
        victims = scene.order[gone[scene.order]]
        broken = scene.judge(victims) if scene.judge else None
        if broken is None or not broken.any():
            return Found(_merit(scene, victims), domain, victims, counts)
        reluctant = broken[scene.running.queue[order]]
        again = np.concatenate((order[~reluctant], order[reluctant]))
        if np.array_equal(again, order):
            return None
        order = again
    return None


def _merit(scene: Scene, victims: Ints) -> tuple[int, ...]:
    """What the law compares of a whole set; the smallest wins."""
    worst = int(scene.law.grade[victims].max(initial=np.iinfo(np.int64).min))
    oldest = int(scene.running.placed[victims].min(initial=np.iinfo(np.int64).max))
    return worst, *scene.law.costs[victims].sum(axis=0).tolist(), -oldest


def _every_way(scene: Scene, domain: int, inside: Bools, members: Ints, judge: Judge) -> tuple[Found | None, bool]:
    """The best of all sets of members, where these are few; and whether that was possible."""
    released = scene.gives[members], scene.least
    chosen, complete = smallest(
        scene.stock, scene.running, scene.need, inside, members, scene.taker.size, judge, released
    )
    if chosen is None:
        return None, complete
    kept = members[~np.isin(members, chosen)]
    lift(scene.stock, scene.running.held, kept, -1)
    counts = count(scene.stock, scene.need, inside, scene.taker.size)
    lift(scene.stock, scene.running.held, kept, 1)
    victims = scene.order[np.isin(scene.order, chosen)]
    return Found(_merit(scene, victims), domain, victims, counts), complete
