"""One pool of one cluster as a head of the queue sees it while room is made there, and what a room is.

Called by evictions.py and moving.py. Holds: columns of a site are without those who leave anyway and are promised to
nobody; what is charged here for a run is named by a claim, and given back with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from muster_scheduler.domain.asked.courses import Claim, Planned
from muster_scheduler.domain.asked.quotas import Amount, Level
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.asked.workloads import Replica, Request, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.topology import Topology
from muster_scheduler.domain.fleet.usable import Mask
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal
from muster_scheduler.domain.placement.cluster_choice import clusters_for
from muster_scheduler.domain.placement.gang import by_columns, charge_runs, wish_of
from muster_scheduler.domain.placement.place import Budget, amount_before, mig_of
from muster_scheduler.domain.placement.slicing import ways
from muster_scheduler.domain.room.listing import departing, held_of, staying
from muster_scheduler.domain.room.shadow import shut
from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.room.values import Fits, Taker


class Room(NamedTuple):
    """The outcome for one taker: where it goes, and who has to leave for it (of those who leave for none before it).

    moves: those of the victims who only move, each with the claim on its new place. shrinks: elastic gangs, and how
    many of the replicas that they can do without each gives up. over_limit: a limit of its project or department was in
    its way, and no lack of places.
    """

    taker: Workload
    claim: Claim
    victims: tuple[str, ...]
    moves: tuple[tuple[Workload, Claim], ...] = ()
    shrinks: tuple[tuple[str, int], ...] = ()
    over_limit: bool = False


class Site(NamedTuple):
    """One pool of one cluster as the taker sees it.

    columns: those who leave anyway are gone already; of nodes that are kept for another, nothing is free.
    """

    world: World
    cluster: str
    pool: str
    capacity: Capacity
    columns: Columns
    leaving: tuple[Workload, ...]
    roles: tuple[Role, ...]
    topology: Topology
    wish: Wish
    mask: Mask

    def place(self, columns: Columns) -> tuple[Placement, ...] | Refusal:
        """Where the taker would go on these columns."""
        return place_gang(columns, self.topology, self.roles, self.wish, self.mask)


class Ask(NamedTuple):
    """What one class of waiting workloads asks of a site. members: in their order, all alike.

    units: what one member is charged there. fits: None where counting replicas of the taker's shape tells all. over:
    by how much limits are in its way, whose queues could give it back; empty where none is.
    """

    site: Site
    members: tuple[Workload, ...]
    request: Request
    units: Amount
    taker: Taker
    fits: Fits | None
    budget: Budget
    over: Mapping[Level, Amount]


def sites_of(world: World, workload: Workload, pools: Sequence[str] | None = None) -> Iterator[Site]:
    """The pools and clusters that an admitted workload may use now, in its order; pools: only these of them.

    Where it may get slices of cards of several models, a site for each.
    """
    request = workload.request
    if request is None:
        return
    wish = wish_of(request)
    every = tuple(role for role in request.roles if role.size)
    for pool in request.pools if pools is None else pools:
        for cluster in clusters_for(world, workload, request, pool):
            capacity = world.inventory.capacity(cluster, pool)
            found = [roles for roles in ways(world, every, cluster, pool) if by_columns(roles, mig_of(world, cluster))]
            if capacity is None or not every or not found:
                continue
            leaving = tuple(leaving_of(world, cluster, pool))
            columns = without(world, capacity, capacity.columns, leaving, departing)
            asked = asked_of(world, workload, amount_before(world, request, pool).gpu)
            columns, asked = shut(world, capacity, columns, asked.kept), asked._replace(kept=frozenset())
            said, usable = world.pools.named(cluster, pool), capacity.usable
            topology = usable.topology_for(said.levels_for(wish), said.levels_apart(wish))
            mask = usable.mask(asked, world.now)
            for roles in found:
                yield Site(world, cluster, pool, capacity, columns, leaving, roles, topology, wish, mask)


def leaving_of(world: World, cluster: str, pool: str) -> Iterator[Workload]:
    """Who leaves that pool anyway and is promised to nobody."""
    departing = world.departing
    free = sorted(name for name in departing.of((cluster, pool)) if not departing.promised(name))
    found = map(world.workloads.__getitem__, free)
    yield from (w for w in found if world.leaving(w) and w.remaining)


def without(
    world: World,
    capacity: Capacity,
    columns: Columns,
    gone: Sequence[Workload],
    part: Callable[[Workload], list[Replica]] = staying,
) -> Columns:
    """A copy of the columns that this part of each of these has left; the same ones where nobody has."""
    if not gone:
        return columns
    scratch = columns.scratch()
    lift(stock_of(scratch), held_of(world, capacity, gone, part), np.arange(len(gone)), 1)
    return scratch


def preemptible_of(site: Site, projects: Iterable[str]) -> list[Workload]:
    """The running preemptible workloads of these projects that are past their minimum run time, by project and id."""
    workloads, placed = site.world.workloads, site.world.placed
    settled = site.world.now - site.world.limits.minimum_run
    found: list[Workload] = []
    for project in projects:
        for other in map(workloads.__getitem__, sorted(placed.get((site.cluster, site.pool, project), ()))):
            request = other.request
            if request is not None and request.preemptible and other.active and other.course.placed <= settled:
                found.append(other)
    return found


def charge_placements(
    site: Site, workload: Workload, roles: tuple[Role, ...], placements: Iterable[Placement], run: tuple[int, int]
) -> tuple[Planned, ...]:
    """Charges every replica of a coming run to where it will stand. run: its generation and attempt."""
    return charge_runs(site.world.inventory, site.capacity, (workload.id, *run), roles, placements)


def claim_of(site: Site, planned: tuple[Planned, ...], waits_for: set[str], run: tuple[int, int]) -> Claim:
    """The claim also waits for those who leave anyway from its nodes."""
    touched = {each.node for each in planned}
    awaited = {w.id for w in site.leaving if any(r.node in touched for r in departing(w))}
    return Claim(site.cluster, site.pool, planned, tuple(sorted(awaited | waits_for)), run)


def next_run(workload: Workload) -> tuple[int, int]:
    """Revision and attempt of the run that a waiting workload is about to begin."""
    return workload.revision, workload.attempt
