"""Consolidation in the books: preemptible work moves to where it fits as well, so that a waiting gang finds its place.

Called by evictions.py before anybody is asked to give way. Looks at the nodes that have most to offer already, and at
what would have to move from them (room/consolidate.py). A mover is taken down and holds a claim on its new place from
that moment on: it starts there as soon as it and all who move with it are gone.
Holds: nobody moves unless the taker and everybody who moves have their places; no more is held afterwards than before,
but for the taker; a workload that may not be interrupted, or that would end by it, does not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from muster_scheduler.domain.asked.courses import Claim
from muster_scheduler.domain.asked.requests import Kind, Role
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.runs import take_all
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal
from muster_scheduler.domain.placement.gang import wish_of
from muster_scheduler.domain.placement.place import amount_before
from muster_scheduler.domain.placement.slicing import asks_for_memory, ways
from muster_scheduler.domain.room.consolidate import TRIES, consolidate
from muster_scheduler.domain.room.holes import Crowd, Holes
from muster_scheduler.domain.room.listing import running_of
from muster_scheduler.domain.room.reclaim import free_of
from muster_scheduler.domain.room.sites import Ask, Room, Site, charge_placements, claim_of, next_run
from muster_scheduler.domain.room.values import NoRoom, Question, Taker

_NODES: Final = (8, 64)  # from so many nodes work may move, those with most free first: mostly the first few will do
_TAKER: Final = -1


class _Homes:
    """Where the taker and the movers go: what `consolidate` asks, and what it was told last."""

    def __init__(self, site: Site, movers: list[Workload]) -> None:
        self._site = site
        self._movers = movers
        self.found: dict[int, tuple[Placement, ...]] = {}

    def roles(self, row: int) -> tuple[Role, ...]:
        """The roles of the taker, or of a mover."""
        return self._site.roles if row == _TAKER else roles_of(self._site, self._movers[row])

    def settle(self, columns: Columns, row: int) -> bool:
        """Places and takes, if there is a place."""
        placements = self._site.place(columns) if row == _TAKER else self._place(columns, self._movers[row])
        if isinstance(placements, Refusal):
            return False
        for role, placement in zip(self.roles(row), placements, strict=True):
            take_all(columns, role.shape, placement.runs)
        self.found[row] = placements
        return True

    def _place(self, columns: Columns, mover: Workload) -> tuple[Placement, ...] | Refusal:
        site, request = self._site, mover.request
        if request is None:
            raise ValueError(f"{mover.id} runs without having been admitted")
        wish, usable = wish_of(request), site.capacity.usable
        asked = asked_of(site.world, mover, amount_before(site.world, request, site.pool).gpu)
        said = site.world.pools.named(site.cluster, site.pool)
        topology = usable.topology_for(said.levels_for(wish), said.levels_apart(wish))
        return place_gang(columns, topology, roles_of(site, mover), wish, usable.mask(asked, site.world.now))


def roles_of(site: Site, workload: Workload) -> tuple[Role, ...]:
    """The roles of which it has replicas, with slices of the profiles that it holds; none where it holds others."""
    roles = tuple(role for role in workload.request.roles if role.size) if workload.request else ()
    if not asks_for_memory(roles):
        return roles
    held = {share.profile for each in workload.everyone() for share in each.grant.shares}
    found = ways(site.world, roles, site.cluster, site.pool)
    return next((way for way in found if {r.shape.profile for r in way if r.shape.devices} == held), ())


def by_moving(ask: Ask) -> tuple[Room, ...]:
    """The room that moving others makes for the first member; empty where it makes none."""
    site = ask.site
    if ask.taker.shape.kind is not Kind.NONE and ask.units.gpu > free_of(site.columns, ask.taker)[0]:
        return ()
    looked_at, crowds = 0, _worth_clearing(ask, [_crowd(site, node) for node in _best(site, ask.taker)])
    for nodes in _NODES:
        movers = _movers(crowds[:nodes])
        room = _moved(ask, movers) if len(movers) > looked_at else ()
        if room:
            return room
        looked_at = len(movers)
    return ()


def _moved(ask: Ask, movers: list[Workload]) -> tuple[Room, ...]:
    """The room that moving some of these makes."""
    site, workload = ask.site, ask.members[0]
    ask.budget.evictions -= TRIES * len(movers)
    homes = _Homes(site, movers)
    running = running_of(site.world, site.capacity, movers, dict.fromkeys((each.project for each in movers), 0))
    made = consolidate(Question(site.columns, running, ask.taker, ask.fits), homes.settle)
    if isinstance(made, NoRoom):
        return ()
    names = tuple(movers[row].id for row in made.victims)
    planned = charge_placements(site, workload, site.roles, homes.found[_TAKER], next_run(workload))
    claim = claim_of(site, planned, set(names), next_run(workload))
    moves = tuple((movers[row], _claim(site, movers[row], homes, row, set(names))) for row in made.victims)
    return (Room(workload, claim, names, moves),)


def _claim(site: Site, mover: Workload, homes: _Homes, row: int, names: set[str]) -> Claim:
    run = (mover.revision, mover.attempt + 1)
    planned = charge_placements(site, mover, homes.roles(row), homes.found[row], run)
    return claim_of(site, planned, names, run)


def _best(site: Site, taker: Taker) -> list[Node]:
    """The nodes that have most to offer, as many as are looked at."""
    columns = site.columns
    devices = np.maximum(columns.milli, 0).sum(axis=1) + 1000 * columns.idle.astype(np.int64)
    free = np.where(taker.eligible, columns.cpu if taker.shape.kind is Kind.NONE else devices, 0)
    best = np.argsort(-free, kind="stable")[: _NODES[-1]]
    return [site.capacity.nodes[n] for n in best.tolist() if free[n] > 0]


def _crowd(site: Site, node: Node) -> Crowd:
    """Who may move from a node, by id."""
    found = sorted({holder.workload for holder in node.entries})
    named = (each for name in found if (each := site.world.workloads.get(name)) is not None)
    return Crowd(node, tuple(each for each in named if _may_move(site, each)))


def _worth_clearing(ask: Ask, crowds: list[Crowd]) -> list[Crowd]:
    """Those of the nodes from which enough might move away for the taker, where that can be told."""
    shape, columns = ask.taker.shape, ask.site.columns
    if ask.taker.size > 1 or shape.kind is not Kind.WHOLE or not crowds:
        return crowds
    holes = Holes(columns)
    return [crowd for crowd in crowds if holes.wide_enough(crowd, shape.devices)]


def _movers(crowds: Sequence[Crowd]) -> list[Workload]:
    """Who may move from these nodes, by id."""
    found = {mover.id: mover for crowd in crowds for mover in crowd.movers}
    return [found[name] for name in sorted(found)]


def _may_move(site: Site, workload: Workload) -> bool:
    request = workload.request
    if request is None or not request.preemptible or not workload.active or workload.independent:
        return False
    if (workload.cluster, workload.pool) != (site.cluster, site.pool) or workload.leaving or workload.rolling:
        return False
    settled = workload.placed + site.world.limits.minimum_run <= site.world.now
    return settled and not _would_end(workload, request) and bool(roles_of(site, workload))


def _would_end(workload: Workload, request: Request) -> bool:
    limit = request.preemption_limit
    return request.terminate_after_preemption or (limit is not None and workload.preemptions >= limit)
