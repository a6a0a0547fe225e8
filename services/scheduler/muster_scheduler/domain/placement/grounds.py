"""Where replicas are looked for one after the other: the nodes that come into question, and those of each role.

Called by place.py for what columns cannot answer: named resources, fixed MIG layouts, single replicas.
Holds: where replicas have to stand apart, no node is refused to a role unless no other way to share out the domains
would place the gang there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from muster_scheduler.domain.asked.requests import Grant, Role, Shape
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.counts import Counts
from muster_scheduler.domain.fleet.eligibility import Eligibility, excluded
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Mig, Node
from muster_scheduler.domain.fleet.topology import NOWHERE
from muster_scheduler.domain.fleet.usable import Mask
from muster_scheduler.domain.gangs.apart import Domains, spread_out
from muster_scheduler.domain.placement.gang import GangGround, domains, places_alone, wish_of


class ReplicaGround(NamedTuple):
    """Where nodes are looked for, one replica after the other.

    filling: how the pool is filled. within: the only nodes that come into question, bool[n]; None: all of the pool.
    apart: int32[n], the domains that hold one replica each; None where replicas may stand beside each other.
    """

    capacity: Capacity
    mig: Mig
    asked: Eligibility
    now: int
    filling: NodePool
    within: Mask | None = None
    apart: Domains | None = None

    def fills(self, shape: Shape, strategy: Strategy) -> bool:
        """Whether replicas of this shape are placed by that strategy."""
        return self.filling.strategy(shape) is strategy

    def leave(self, node: Node) -> None:
        """A replica stands on the node: none that has to be apart from it comes into its domain any more."""
        if self.apart is not None and self.within is not None:
            self.within[self.apart == self.apart[node.ordinal]] = False

    def admits(self, node: Node) -> bool:
        """Whether the node may be used at all, whatever it has free."""
        if self.within is not None and not self.within[node.ordinal]:
            return False
        return excluded(self.asked, node, self.now) is None


def narrowed(world: World, workload: Workload, ground: ReplicaGround) -> Iterator[ReplicaGround]:
    """The grounds to try one after the other: the domains in which it wishes to be, or has to."""
    wish = wish_of(workload.request)
    whole = GangGround(ground.capacity, ground.asked, wish, ground.now, ground.filling, world.inventory.nodes)
    if wish.apart is not None:
        apart = places_alone(workload, whole)
        alone = apart != NOWHERE
        for within in domains(workload, whole):
            yield ground._replace(within=alone.copy() if within is None else within & alone, apart=apart)
    if not wish.strictly_apart:
        for within in domains(workload, whole):
            yield ground._replace(within=within)


def shared_out(roles: tuple[Role, ...], ground: ReplicaGround, apart: Domains) -> dict[str, ReplicaGround]:
    """The ground of each role, in which each replica finds a domain of its own; empty where there is no way.

    A role that took the only domain of another would keep the gang out beside room for it. Nodes that ask to be taken
    last are left out if that can be.
    """
    usable, sizes = ground.capacity.usable, [role.size for role in roles]
    mask = usable.mask(ground.asked, ground.now)
    mask = mask if ground.within is None else mask & ground.within
    holds, idle = _holding(roles, ground, mask), ground.capacity.columns.idle.astype(np.int64)
    spread = ground.fills(max(roles, key=lambda role: (role.charge, role.name)).shape, Strategy.SPREAD)
    rank = -idle if spread else idle
    for nodes in usable.in_turn(ground.asked, mask):
        found = spread_out(holds, sizes, _numbered(np.where(nodes, apart, NOWHERE), rank), rank)
        if found.replicas == sum(sizes):
            grounds = (ground._replace(within=taken > 0) for taken in found.taken)
            return {role.name: own for role, own in zip(roles, grounds, strict=True)}
    return {}


def _holding(roles: tuple[Role, ...], ground: ReplicaGround, mask: Mask) -> Counts:
    """int64[roles, n]: 1 where a node of the mask holds a replica of the role."""
    holds = np.zeros((len(roles), mask.size), np.int64)
    for row, role in zip(holds, roles, strict=True):
        for n in np.flatnonzero(mask):
            row[n] = isinstance(fit(ground.capacity.nodes[n], role.shape, ground.mig), Grant)
    return holds


def _numbered(apart: Domains, rank: Counts) -> Domains:
    """The same domains by other numbers: the one with the lowest rank first, since low numbers are given first."""
    rows = np.flatnonzero(apart != NOWHERE)
    order = rows[np.lexsort((rows, rank[rows]))]
    number = {int(domain): n for n, domain in reversed(list(enumerate(apart[order])))}
    return np.array([number.get(int(domain), NOWHERE) for domain in apart], np.int32)
