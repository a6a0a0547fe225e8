"""What changed on nodes and in queues of one pool, as blocked classes see it: whom it helps, and how.

Made by waking.py for each pool of which something was given back, began to leave, or is held by somebody beyond his
share now. Answers are bounds that cost microseconds: of whom they say no, a search for room would say so too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import numpy as np

from muster_kernel.quantities import GPU, MILLI, UNITS_PER_MILLI
from muster_kernel.reasons import FOR_ROOM, IN_VAIN, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quotas import LIMITED, Amount
from muster_scheduler.domain.asked.requests import Grant, Kind, Role, Shape, total_charge
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.buckets import Help
from muster_scheduler.domain.books.classes import ClassKey, asked_by
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World, amount_of
from muster_scheduler.domain.fleet.columns import CLOSED, SLICED
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.placement.place import mig_of
from muster_scheduler.domain.placement.slicing import asks_for_memory, fit_there
from muster_scheduler.domain.room.bounds import Pool, may_take
from muster_scheduler.domain.room.listing import departing, tree_of
from muster_scheduler.domain.room.sites import leaving_of
from muster_scheduler.domain.room.values import Tree
from muster_scheduler.domain.turning.offers import Offers, Whom, whom_of
from muster_scheduler.domain.turning.reweighing import Reweighed, reweighed

_QUOTA: Final = LIMITED | {
    WaitingReason.OVER_QUOTA,
    WaitingReason.CPU_OVER_QUOTA,
    WaitingReason.MEMORY_OVER_QUOTA,
    WaitingReason.USER_OVER_LIMIT,
    WaitingReason.USER_RUNS_ENOUGH,
}


class Change:
    """Nodes and projects of one pool of which something changed, as blocked classes see it; answers are remembered."""

    def __init__(
        self,
        world: World,
        pool: str,
        nodes: Iterable[tuple[str, str]],
        projects: Iterable[str],
        standings: Callable[[str], Standing],
    ) -> None:
        self._world, self._pool, self._standings = world, pool, standings
        self._keys = nodes
        self._leavers: dict[str, tuple[Workload, ...]] = {}
        self._projects = set(projects)
        self._departments = {found.name for name in self._projects if (found := world.queues.department_of(name))}
        self._fits: dict[Shape, bool] = {}
        self._offers: list[Offers] = []  # of the first nodes
        self._free: dict[str, Amount] | None = None
        self._moved: Reweighed | None = None
        self._takes: dict[tuple[str, Role, bool], bool] = {}
        self.givers: frozenset[str] | None = None

    @cached_property
    def _nodes(self) -> list[Node]:
        """Walked only where somebody could use one of them: those who hold too much may hold it on thousands."""
        known = map(self._world.inventory.nodes.get, dict.fromkeys(self._keys))
        return [node for node in known if node is not None and node.pool == self._pool]  # it may be in another by now

    @cached_property
    def _tree(self) -> Tree:
        return tree_of(self._world, self._standings(self._pool))

    @cached_property
    def _clusters(self) -> list[str]:
        return sorted({node.cluster for node in self._nodes})

    def helps(self, key: ClassKey, reason: Reason) -> Help:
        """What it is to a class that is blocked for this reason."""
        if reason.code in IN_VAIN:
            return Help.NONE
        # In several pools another thing stands in the way in each; the reason tells the first.
        alone, related = len(key.pools) == 1, self._related(key)
        if reason.code in _QUOTA and alone:
            room = reason.code in LIMITED and self.makes_room(key)  # below a limit: what its own queues hold gives way
            return Help.ALL if room or related else Help.NONE
        # A queue that holds less may come to hold no more than it deserves, and so to pass what is reserved.
        passes = related and (reason.code is WaitingReason.RESERVED or (not alone and self._bounded(key)))
        if (
            reason.code not in _QUOTA | FOR_ROOM
            or passes
            or (self._eased(key, related=related) and self._reclaims(key) and self._may_take(key, here=False))
        ):
            return Help.ALL
        return Help.PLACE if self._fit(key) or self.makes_room(key) else Help.NONE

    @property
    def reweighs(self) -> bool:
        """Whether fair shares are such now that somebody may take from others who could not before."""
        shares = self._reweighed()
        return bool(shares.rose) or shares.fell

    def eases(self, key: ClassKey, reason: Reason) -> Help:
        """Whether other fair shares alone let a class take from others."""
        if reason.code not in FOR_ROOM | LIMITED or not self._eased(key, related=False):
            return Help.NONE
        return Help.ALL if self._reclaims(key) and self._may_take(key, here=False) else Help.NONE

    def takes(self, key: ClassKey, reason: Reason) -> Help:
        """Whether it may reclaim what others hold on these nodes, or take it from its own project."""
        barred = reason.code in _QUOTA - LIMITED and len(key.pools) == 1
        if reason.code in IN_VAIN or barred or key.returning:
            return Help.NONE
        return Help.ALL if self._reclaims(key) and self._offered(key) else Help.NONE

    def makes_room(self, key: ClassKey) -> bool:
        """Whether room may be made on these nodes, or by moving others to them."""
        return self._offered(key) or self._could_move(key)

    @cached_property
    def _stretched(self) -> bool:
        """Whether elastic gangs run on nodes of this pool, which others may ask for what they can do without."""
        gangs = map(self._world.workloads.__getitem__, self._world.elastic)
        return any(gang.pool == self._pool or self._stands_here(gang) for gang in gangs)

    def _stands_here(self, gang: Workload) -> bool:
        nodes = map(self._world.inventory.nodes.get, (replica.node for replica in gang.surplus()))
        return any(node is not None and node.pool == self._pool for node in nodes)

    def _related(self, key: ClassKey) -> bool:
        department = self._world.queues.department_of(key.project)
        return key.project in self._projects or (department is not None and department.name in self._departments)

    def _bounded(self, key: ClassKey) -> bool:
        """Whether a quota of its project or department can keep it out at all: not where nothing is limited."""
        books, department = self._world.queues, self._world.queues.department_of(key.project)
        over = department.quotas.get(self._pool) if department else None
        lines = (*books.quota(key.project, self._pool).lines, *(over.lines if over else ()))
        return not key.preemptible or any(line.most is not None for line in lines)

    def _eased(self, key: ClassKey, *, related: bool) -> bool:
        """Whether its queues hold less than they did or may hold more, or others may hold less than they do."""
        shares = self._reweighed()
        if related or shares.fell:
            return True
        department = self._world.queues.department_of(key.project)
        return key.project in shares.rose or (department is not None and department.name in shares.rose)

    def _fit(self, key: ClassKey) -> bool:
        roles = [role for role in key.roles if role.size]
        return any(self._fits_one(role.shape) for role in roles) and all(self._fits_whole(role) for role in roles)

    def _fits_whole(self, role: Role) -> bool:
        """Whether all nodes together have the idle devices for a role: without them a gang is not worth a try."""
        if role.shape.kind is not Kind.WHOLE:
            return True
        found = (self._world.inventory.capacity(cluster, self._pool) for cluster in self._clusters)
        return any(each is not None and each.room_for(role.shape.devices, role.size) for each in found)

    def _fits_one(self, shape: Shape) -> bool:
        known = self._fits.get(shape)
        if known is None:
            known = any(
                node.open and isinstance(fit_there(self._world, node, shape, mig_of(self._world, node.cluster)), Grant)
                for node in self._nodes
            )
            self._fits[shape] = known
        return known

    def _offered(self, key: ClassKey) -> bool:
        """Whether a replica would find its place on one of the nodes, if those left whom the class may ask to."""
        whom = whom_of(key, reclaims=self._reclaims(key))
        if not (whom.others or self._asks_own(whom)) and not self._enough_in_sum(key, self._free_in_sum()):
            return False
        if whom.others and not self._may_take(key, here=True):
            whom = whom._replace(others=False)
        shapes = [role.shape for role in key.roles if role.size]
        return any(offers.to(whom).holds(shape) for offers in self._offers_of_nodes() for shape in shapes)

    def _may_take(self, key: ClassKey, *, here: bool) -> bool:
        """Whether others may have so much to lose that it finds room; here: on one of these nodes."""
        roles = [role for role in key.roles if role.size]
        if len(roles) != 1 or self._stretched:
            return True
        asked = key.project, roles[0], here
        if asked not in self._takes:
            if here and self._takes.get((key.project, roles[0], False)) is False:
                return False  # nowhere, and so not here
            clusters = self._clusters if here else self._world.inventory.clusters_with(self._pool)
            self._takes[asked] = any(
                self._may_take_in(cluster, key.project, roles[0], here=here) for cluster in clusters
            )
        return self._takes[asked]

    def _may_take_in(self, cluster: str, project: str, role: Role, *, here: bool) -> bool:
        standing, capacity = self._standings(self._pool), self._world.inventory.capacity(cluster, self._pool)
        row = standing.projects.get(project)
        if row is None or capacity is None or self._leaving(cluster):
            return row is not None
        nodes = [node.ordinal for node in self._nodes if node.cluster == cluster and node.ordinal >= 0]
        place = Pool(self._world, capacity, standing, self._tree)
        return may_take(place, row, role, total_charge((role,)), nodes if here else None)

    def _offers_of_nodes(self) -> Iterator[Offers]:
        """Node by node, made as they are asked for: of those who hold too much, the first few mostly tell enough."""
        known = self._offers
        for at, node in enumerate(self._nodes):
            if at == len(known):
                known.append(Offers(self._world, node, self._givers(), self._away))
            yield known[at]

    @cached_property
    def _away(self) -> frozenset[str]:
        return frozenset(each.id for cluster in self._clusters for each in self._leaving(cluster))

    def _could_move(self, key: ClassKey) -> bool:
        """Whether a cluster has enough free in sum, those gone who leave anyway: moving makes nothing more free."""
        free = self._free_in_sum()
        moves = (cluster for cluster in self._clusters if _somebody_moves(self._world, cluster, self._pool))
        return not key.returning and self._enough_in_sum(key, {cluster: free[cluster] for cluster in moves})

    def _enough_in_sum(self, key: ClassKey, free: Mapping[str, Amount]) -> bool:
        asked = _at_least(key)
        return any(all(map(int.__ge__, amount, asked)) for amount in free.values())

    def _asks_own(self, whom: Whom) -> bool:
        """Whether work of its own project may have to leave for it somewhere, or surplus of anybody's."""
        return self._stretched or any(whom.project in offers.own for offers in self._offers_of_nodes())

    def _leaving(self, cluster: str) -> tuple[Workload, ...]:
        """Who leaves anyway and is promised to nobody."""
        if cluster not in self._leavers:
            self._leavers[cluster] = tuple(leaving_of(self._world, cluster, self._pool))
        return self._leavers[cluster]

    def _free_in_sum(self) -> dict[str, Amount]:
        if self._free is None:
            self._free = {at: free_in_sum(self._world, at, self._pool, self._leaving(at)) for at in self._clusters}
        return self._free

    def _reclaims(self, key: ClassKey) -> bool:
        """Whether its project would stay within its share, or what it deserves, of a resource that others have over."""
        standing = self._standings(self._pool)
        row = standing.projects.get(key.project)
        if row is None or not self._givers():
            return False
        held = self._world.queues.account(key.project, self._pool).held.plus(_at_least(key))
        return any(
            shares is not None and has <= max(shares[row].fair, shares[row].deserved)
            for shares, has in zip(standing.shares, held, strict=True)
        )

    def _givers(self) -> frozenset[str]:
        if self.givers is None:
            self.givers = beyond(self._world, self._standings(self._pool))
        return self.givers

    def _reweighed(self) -> Reweighed:
        if self._moved is None:
            standing = self._standings(self._pool)
            before = self._world.waiting.weighed.renew(self._pool, standing.shares)
            self._moved = reweighed(standing, before, self._givers())
        return self._moved


def _at_least(key: ClassKey) -> Amount:
    """What a member asks for, and no more than it would be charged: of GPU memory nobody knows before it has a card."""
    asked = asked_by(key)
    return asked._replace(gpu=0) if asks_for_memory(key.roles) else asked


def beyond(world: World, standing: Standing) -> frozenset[str]:
    """The queues of a pool that hold more of something than their share, or than they deserve."""
    table = standing.refreshed(world.queues)
    over = (table.held > np.minimum(table.fair, table.deserved)).any(axis=1)
    return frozenset(standing.queues[row].name for row in np.flatnonzero(over))


def _somebody_moves(world: World, cluster: str, pool: str) -> bool:
    """Whether anybody runs there who could be moved."""
    places = (members for (at, where, _), members in world.placed.items() if (at, where) == (cluster, pool))
    running = (world.workloads[name] for members in places for name in members)
    return any(w.active and w.request is not None and w.request.preemptible for w in running)


def free_in_sum(world: World, cluster: str, pool: str, leaving: tuple[Workload, ...]) -> Amount:
    """No more than this is free there in sum once those have left who leave anyway."""
    capacity = world.inventory.capacity(cluster, pool)
    if capacity is None:
        return Amount()
    columns = capacity.columns
    milli = np.where(columns.mode == SLICED, MILLI, np.where(columns.mode == CLOSED, 0, np.maximum(columns.milli, 0)))
    anonymous = int(columns.idle[~columns.mode.any(axis=1)].sum())
    gpu = int(milli.sum()) * UNITS_PER_MILLI + anonymous * GPU
    cpu, memory = (int(np.maximum(column, 0).sum()) for column in (columns.cpu, columns.memory))
    return Amount(gpu, cpu, memory).plus(amount_of(each.grant for w in leaving for each in departing(w)))
