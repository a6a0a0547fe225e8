"""How many replicas each node takes: the fewest domains level by level, then nodes by the pool's strategy.

Called by place.py with the counts of one role. Works on places: nodes, or domains that take whole groups of replicas.
Holds: exactly what is needed is taken, no place takes more than its count; on each level all but one of the chosen
domains are filled, the largest first, and the last is the fullest that still holds the rest (as Kueue does).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_scheduler.domain.fleet.counts import Counts
from muster_scheduler.domain.fleet.topology import NOWHERE, Topology


class NodeOrder(StrEnum):
    """Which nodes of a domain a gang takes. FEWEST: for gangs that asked to be close together."""

    FEWEST = "fewest"
    TIGHTEST = "tightest"
    EVENLY = "evenly"


class Supply(NamedTuple):
    """Where one role could go. A unit is one replica, or one group of them where a place is a group's domain.

    topology: of the places. counts: int64[places], units that each could take. need: units in all.
    idle: int[places], idle devices: of places that are equal otherwise, the one with the fewest is taken.
    """

    topology: Topology
    counts: Counts
    need: int
    idle: Counts

    def rooms(self, level: int) -> Counts:
        """Units that each domain of a level could take: int64[domains]."""
        return _rooms(self.topology, level, self.counts)[:-1]

    def inside(self, level: int, domain: int) -> Supply:
        """The same, of one domain alone."""
        return self._replace(counts=np.where(self.topology.domain[level] == domain, self.counts, 0))


def _rooms(topology: Topology, level: int, counts: Counts) -> Counts:
    """int64[domains + 1]: the last one stands for nodes in no domain. Exact: sums stay far below 2^53."""
    domains = topology.size(level)
    ids = topology.domain[level]
    ids = np.where(ids == NOWHERE, domains, ids)
    return np.bincount(ids, weights=counts, minlength=domains + 1).astype(np.int64)


def grouped(topology: Topology, level: int, group: int, supply: Supply) -> Supply:
    """The supply in groups of `group` replicas, each inside one domain of `level`: places are these domains."""
    first = _first_nodes(topology, level)
    outer = Topology(
        topology.keys[:level], topology.domain[:level, first], topology.names[:level], np.arange(first.size)
    )
    return Supply(outer, supply.rooms(level) // group, supply.need // group, np.zeros(first.size, np.int64))


def _first_nodes(topology: Topology, level: int) -> NDArray[np.int64]:
    """int64[domains]: one node of each domain of a level."""
    _, first = np.unique(topology.domain[level], return_index=True)
    return first[-topology.size(level) :] if topology.size(level) else first[:0]


def choose(supply: Supply, level: int, order: NodeOrder) -> Counts:
    """Units that each place takes, int64[places], of places that are all inside one domain of `level` (-1: the pool).

    The supply has room for all that is needed.
    """
    taken = np.zeros_like(supply.counts)
    left, need = supply.counts, supply.need
    for inner in range(level + 1, len(supply.topology.keys)):
        domains = supply.topology.size(inner)
        rooms = _rooms(supply.topology, inner, left)
        filled, last, need = _fewest(rooms[:-1], need, np.arange(domains))
        ids = supply.topology.domain[inner]
        if filled.size:
            taken += np.where(np.isin(ids, filled), left, 0)
        left = np.where(ids == last, left, 0)
    return taken + _nodes(left, supply.idle, need, order)


def choose_beside(supply: Supply, level: int, used: Sequence[int]) -> Counts:
    """As `choose`, on the fewest places: those that other roles of the gang use already come first."""
    beside = np.zeros_like(supply.counts)
    beside[list(used)] = supply.counts[list(used)]
    some = min(supply.need, int(beside.sum()))
    taken = np.zeros_like(supply.counts)
    for counts, need in ((beside, some), (supply.counts - beside, supply.need - some)):
        if need:
            taken += choose(supply._replace(counts=counts, need=need), level, NodeOrder.FEWEST)
    return taken


def _fewest(rooms: Counts, need: int, ties: Counts) -> tuple[Counts, int, int]:
    """The fewest domains with room for `need`: those to fill, the one for the rest (NOWHERE: none), and the rest.

    Ties go to the lowest of `ties`, then to the lowest number.
    """
    order = np.lexsort((ties, -rooms))
    total = np.cumsum(rooms[order])
    full = int(np.searchsorted(total, need))
    if full == order.size:  # the rest goes to nodes without a label
        return order, NOWHERE, need - int(total[-1] if full else 0)
    rest = need - int(total[full - 1] if full else 0)
    holding = order[full:][rooms[order[full:]] >= rest]
    least = rooms[holding[-1]]
    last = int(holding[np.argmax(rooms[holding] == least)])
    return order[:full], last, rest


def _nodes(counts: Counts, idle: Counts, need: int, order: NodeOrder) -> Counts:
    match order:
        case NodeOrder.FEWEST:
            filled, last, rest = _fewest(counts, need, idle)
            taken = np.zeros_like(counts)
            taken[filled] = counts[filled]
            taken[last] += rest
            return taken
        case NodeOrder.TIGHTEST:
            return _tightest(counts, idle, need)
        case NodeOrder.EVENLY:
            return _evenly(counts, need)


def _tightest(counts: Counts, idle: Counts, need: int) -> Counts:
    """Nodes with the fewest idle devices first, filled one after the other: whole nodes stay whole for others."""
    order = np.argsort(idle, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    taken = np.zeros_like(counts)
    taken[order] = np.clip(need - before, 0, counts[order])
    return taken


def _evenly(counts: Counts, need: int) -> Counts:
    """No node takes two more than another that still has room; those that take one more are the emptiest."""
    low, high = 0, need
    while low < high:  # the highest water line that does not take too much
        line = (low + high + 1) // 2
        low, high = (line, high) if int(np.minimum(counts, line).sum()) <= need else (low, line - 1)
    taken = np.minimum(counts, low)
    emptiest = np.argsort(-counts, kind="stable")
    more = emptiest[counts[emptiest] > low][: need - int(taken.sum())]
    taken[more] += 1
    return taken
