"""Replicas that may not stand beside each other: which node of a domain takes the one that it holds, and of what role.

Called by place.py for gangs with such a wish. Pure over counts and domains.
Holds: no domain is taken twice; what `spread_out` says of how many replicas find a domain is the most there can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_scheduler.domain.fleet.counts import Counts
from muster_scheduler.domain.fleet.topology import NOWHERE

Domains = NDArray[np.int32]


class Spread(NamedTuple):
    """How many replicas find a domain of their own, and int64[roles, n], how many of each role each node takes."""

    replicas: int
    taken: Counts


def one_each(counts: Counts, apart: Domains, among: Domains | None, rank: Counts) -> Counts:
    """int64[n]: 1 for one node of each domain that has room, 0 for all others.

    counts: int64[n], what each node could take. among: int32[n], larger parts of the pool, in each of which a domain
    counts anew; None: the pool is one part. rank: int64[n], of several nodes of a domain the one with the lowest.
    """
    rows = np.flatnonzero((counts > 0) & (apart != NOWHERE))
    part = np.zeros(rows.size, np.int32) if among is None else among[rows]
    order = np.lexsort((rows, rank[rows], apart[rows], part))
    rows, part = rows[order], part[order]
    first = np.ones(rows.size, np.bool_)
    first[1:] = (apart[rows[1:]] != apart[rows[:-1]]) | (part[1:] != part[:-1])
    taken = np.zeros_like(counts)
    taken[rows[first]] = 1
    return taken


def spread_out(counts: Counts, sizes: Sequence[int], apart: Domains, rank: Counts) -> Spread:
    """As many replicas as can be, each in a domain of its own: `sizes[r]` of role r at most.

    counts: int64[roles, n], what each node could take of each role. rank: as in `one_each`.
    """
    nodes = [one_each(each, apart, None, rank) > 0 for each in counts]  # the node that each domain gives a role
    known = np.unique(np.concatenate([apart[each] for each in nodes]))
    can = np.array([np.isin(known, apart[each]) for each in nodes])  # bool[roles, domains]
    kinds, kind, supply = np.unique(can, axis=1, return_inverse=True, return_counts=True)
    flow = _flow(sizes, supply.tolist(), kinds.tolist())
    taken = np.zeros_like(counts)
    for number in range(kinds.shape[1]):
        alike, begin = known[kind.reshape(-1) == number], 0
        for role, amounts in enumerate(flow):
            given = alike[begin : begin + amounts[number]]
            taken[role, nodes[role] & np.isin(apart, given)] = 1
            begin += amounts[number]
    return Spread(sum(map(sum, flow)), taken)


def _flow(sizes: Sequence[int], supply: list[int], can: list[list[bool]]) -> list[list[int]]:
    """How many domains of each kind each role gets: the most in all, by augmenting paths (Ford and Fulkerson)."""
    flow = [[0] * len(supply) for _ in sizes]
    left = list(supply)
    for role, size in enumerate(sizes):
        need = size
        while need and (path := _path(role, flow, left, can)):
            last = path[-1][1]
            given = [flow[giver][kind] for (_, kind), (giver, _) in pairwise(path)]
            amount = min(need, left[last], *given)
            for taker, kind in path:
                flow[taker][kind] += amount
            for (_, kind), (giver, _) in pairwise(path):
                flow[giver][kind] -= amount
            left[last] -= amount
            need -= amount
    return flow


def _path(role: int, flow: list[list[int]], left: list[int], can: list[list[bool]]) -> list[tuple[int, int]]:
    """Who takes of which kind so that the role gets one more: each takes what the next gives up, the last what is left.

    Empty where there is no way.
    """
    ways = [[(role, kind)] for kind in range(len(left)) if can[role][kind]]
    seen = {way[-1][1] for way in ways}
    for way in ways:  # grows while it is read: the shortest ways first
        kind = way[-1][1]
        if left[kind]:
            return way
        givers = [other for other in range(len(flow)) if flow[other][kind]]
        more = ((giver, other) for giver in givers for other in range(len(left)) if can[giver][other])
        for step in more:
            if step[1] not in seen:
                seen.add(step[1])
                ways.append([*way, step])
    return []
