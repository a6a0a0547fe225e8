"""Placement in pools whose strategy looks ahead: the board of the pool is asked, where it knows the shape.

Called by place.py for one replica at a time; gangs, slices and device memory are packed. The cycle renews the mixes
before it places anybody.
Holds: a board reads columns alone, which say what the books say; the mix that it looks ahead to is part of the truth,
renewed at most once an hour (every minute while little has come), so that scores can be kept in between; when it is
renewed follows from the truth and the time alone, never from who happens to be tried.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Final

from muster_scheduler.domain.asked.quarantine import pool_place
from muster_scheduler.domain.asked.requests import Grant, Shape
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.columns import NodeType, empty
from muster_scheduler.domain.fleet.eligibility import Eligibility
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.taking import grants_of
from muster_scheduler.domain.strategies.board import Board
from muster_scheduler.domain.strategies.mix import Mix, asked_of, mix_of, popularity_in
from muster_scheduler.domain.strategies.outlook import Outlook, fgd, foresight
from muster_scheduler.domain.strategies.popularity import Asked, Popularity, popularity_of

OFTEN: Final = 60 * SECOND
SELDOM: Final = 3600 * SECOND
_FEW: Final = 200  # replicas: a mix of fewer says little
_SAMPLE: Final = 4096  # workloads of a pool that are looked at, the latest
_STATES: Final = 1 << 16
_OUTLOOKS: Final[dict[Strategy, Callable[[Popularity], Outlook]]] = {
    Strategy.FGD: fgd,
    Strategy.FORESIGHT: foresight,
}


def look_at_arrivals(world: World) -> None:
    """Gives every pool whose strategy looks ahead a mix of today, where its own is of long ago."""
    for number, pool in sorted(world.pools.known.items()):
        if not world.attends_place(pool_place(pool.name)):
            continue
        if (pool.gpu in _OUTLOOKS or pool.cpu in _OUTLOOKS) and _is_old(pool, world.now):
            mix = mix_of(_arrivals(world, pool.cluster, pool.name))
            if mix or pool.mix:  # a pool to which nobody came has none, however often it is looked at
                world.pools.put(pool._replace(mix=mix, mixed=world.now))
                world.touched.pools[number] = None
    world.attending_place = ""


def _is_old(pool: NodePool, now: int) -> bool:
    few = sum(member.number for member in pool.mix) < _FEW
    return not pool.mix or now >= pool.mixed + (OFTEN if few else SELDOM)


def _arrivals(world: World, cluster: str, pool: str) -> Iterator[tuple[Shape, frozenset[str] | None, int]]:
    """The shapes of what waits for the pool and of what runs in it."""
    for key, bucket in world.waiting.buckets.items():
        for first in world.waiting.members(key, 1) if pool in key.pools else ():
            yield from _shapes(world, world.workloads[first], bucket.count)
    members = (each for place, each in world.placed.items() if place[:2] == (cluster, pool))
    for workload_id in heapq.nlargest(_SAMPLE, (one for each in members for one in each)):
        yield from _shapes(world, world.workloads[workload_id], 1)


def _shapes(world: World, workload: Workload, times: int) -> Iterator[tuple[Shape, frozenset[str] | None, int]]:
    types = eligibility_of(world.queues, workload, world.limits.grace).types
    for role in workload.request.roles if workload.request else ():
        yield role.shape, types, role.size * times


def find_ahead(
    capacity: Capacity, filling: NodePool, asked: Eligibility, shape: Shape, now: int
) -> tuple[Node, Grant] | None:
    """The node, and what it gives, by the pool's outlook. None: it fits nowhere, or the pool's strategy has no view."""
    strategy, wanted = filling.strategy(shape), asked_of(shape)
    if strategy not in _OUTLOOKS or wanted is None or not filling.mix:
        return None
    board = _board(capacity, strategy, filling.mix)
    mask = capacity.usable.mask(asked, now)
    runs = (board.choose(wanted, nodes) for nodes in capacity.usable.in_turn(asked, mask))
    run = next((each for each in runs if each is not None), None)
    if run is None:
        return None
    node = capacity.nodes[run.node]
    return node, next(grants_of(node, shape, run))


def _board(capacity: Capacity, strategy: Strategy, mix: Mix) -> Board:
    columns = capacity.columns  # first: rows that have changed are written, and told to the boards
    known = capacity.boards.get(strategy)
    if known is None or known[0] != mix:
        outlook = _OUTLOOKS[strategy](popularity_in(mix, columns.types))
        known = capacity.boards[strategy] = mix, Board(columns, outlook, _STATES)
    return known[1]


def warm_up() -> None:
    """Compiles the boards' kernels, which takes seconds where no earlier process has: before the first decision."""
    columns = empty(("a", "b"), (NodeType("", (), ()),))
    wanted = Asked(0, 0, 0, 0)
    for make in _OUTLOOKS.values():
        Board(columns, make(popularity_of([(wanted, (True,))], [1])), 8).choose(wanted, columns.open)
