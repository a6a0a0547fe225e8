"""Room that others have to give: what equal workloads ask of a site, who of those who run there leaves, and the claim.

Called by evictions.py once nobody can do with less or move, and by answers/attempts.py, which tells why a way is
barred. Other queues are asked first (room/reclaim.py), then lower work of the own project (room/preempt.py).
Holds: nobody is named who could stay with the taker fitting; of several members that are let in at once, whoever leaves
is named by the first who waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from muster_scheduler.domain.asked.quotas import NOTHING, Amount, Level
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.models import bar, beyond_limits, counted_singly
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World, owner_of
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.taking import Run
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal
from muster_scheduler.domain.placement.place import Budget, amount_before
from muster_scheduler.domain.room import values
from muster_scheduler.domain.room.bounds import Pool, may_take
from muster_scheduler.domain.room.listing import running_of, taker_of, tree_of
from muster_scheduler.domain.room.preempt import preempt
from muster_scheduler.domain.room.reclaim import givers, reclaim
from muster_scheduler.domain.room.several import Seats, reclaim_for
from muster_scheduler.domain.room.sites import (
    Ask,
    Room,
    Site,
    charge_placements,
    claim_of,
    next_run,
    preemptible_of,
    without,
)
from muster_scheduler.domain.room.values import Question

_TOGETHER: Final = 256  # members of a class that are let in by one search
_NOBODY_ELSE: Final = values.NoRoom(values.Obstacle.NOTHING, (0, 0))  # others could not give it anything


def first_of(world: World, key: ClassKey, most: int) -> tuple[Workload, ...]:
    """The first members of a class."""
    return tuple(world.workloads[each] for each in world.waiting.members(key, most))


def ask_of(site: Site, members: tuple[Workload, ...], budget: Budget) -> Ask | None:
    """What equal workloads ask of a site; None where there are none, or something bars even the first for good.

    A limit of its project or department does not, where those who hold it could be asked to leave.
    """
    request = members[0].request if members else None
    if request is None:
        return None
    units = amount_before(site.world, request, site.pool)
    over: Mapping[Level, Amount] = {}
    if bar(site.world, members[0], units, site.pool) is not None:
        found = beyond_limits(site.world, members[0], units, site.pool)
        if found is None:
            return None
        over = found
    taker = taker_of(request, site.roles, 0, units, site.mask, _domains(site))
    countable = len(site.roles) == 1 and not site.wish.group and not site.wish.strictly_apart
    return Ask(site, members, request, units, taker, None if countable else _placeable(site), budget, over)


def by_taking(ask: Ask, key: ClassKey, standing: Standing) -> tuple[Room, ...]:
    """Room that others have to give: other queues first, then lower work of the own project."""
    world, row = ask.site.world, standing.projects.get(ask.members[0].project)
    if row is None:
        return ()
    tree = tree_of(world, standing)
    placed = ask._replace(taker=ask.taker._replace(queue=row, floors=_floors(ask, standing, row)))
    made: tuple[Room, ...] | values.NoRoom = _NOBODY_ELSE
    if _may_give(placed, standing, tree):
        made = from_others(placed._replace(members=first_of(world, key, _TOGETHER)), standing, tree)
    if isinstance(made, values.NoRoom) and tree.loose[row].any():
        made = from_own(placed, standing)
    return () if isinstance(made, values.NoRoom) else made


def _may_give(ask: Ask, standing: Standing, tree: values.Tree) -> bool:
    """Whether other queues may have room for it; where its project is at a limit, only its own work has."""
    site = ask.site
    if Level.PROJECT in ask.over:
        return False
    if len(site.roles) > 1 or site.leaving:
        return True
    return may_take(Pool(site.world, site.capacity, standing, tree), ask.taker.queue, site.roles[0], ask.units.gpu)


def _floors(ask: Ask, standing: Standing, row: int) -> tuple[values.Floor, ...]:
    """What has to be given back below each limit that is in the way."""
    table = standing.table
    below = {
        Level.PROJECT: np.arange(len(table.parent)) == row,
        Level.DEPARTMENT: (table.parent == table.parent[row]) & (table.parent[row] != values.TOP),
    }
    return tuple(values.Floor(below[level], np.array(least, np.int64)) for level, least in sorted(ask.over.items()))


def from_others(ask: Ask, standing: Standing, tree: values.Tree) -> tuple[Room, ...] | values.NoRoom:
    """Room that other queues give, or why they give none. The taker's queue is a row of the tree."""
    asked = givers(tree, ask.taker)
    if isinstance(asked, values.NoRoom):
        return asked
    candidates = preemptible_of(ask.site, (standing.queues[q].name for q in np.flatnonzero(asked)))
    question = _question(ask, candidates, standing)
    if ask.taker.size == 1 and ask.fits is None and not ask.site.wish.required and not ask.over:
        number = _admissible(ask)
        ask.budget.evictions -= number.bit_length() * len(candidates)  # so often others are asked at most, or nearly
        seats = reclaim_for(question, tree, number)
        return tuple(_seated(ask, seats, candidates)) if isinstance(seats, Seats) else seats
    made = reclaim(question, tree)
    return made if isinstance(made, values.NoRoom) else (_room(ask, [candidates[v] for v in made.victims]),)


def from_own(ask: Ask, standing: Standing) -> tuple[Room, ...] | values.NoRoom:
    """Room that lower work of the own project gives, or why it gives none."""
    own = [w for w in preemptible_of(ask.site, (ask.members[0].project,)) if _yields(w, ask.request)]
    if not own:
        return values.NoRoom(values.Obstacle.NOTHING, (0, int(ask.taker.units[0])))
    made = preempt(_question(ask, own, standing), preemptible=ask.request.preemptible)
    return made if isinstance(made, values.NoRoom) else (_room(ask, [own[v] for v in made.victims]),)


def _admissible(ask: Ask) -> int:
    """How many of these equal workloads the quotas of their project and department admit, the first one at least."""
    queues = ask.site.world.queues
    if counted_singly(queues, ask.members[0].project):
        return 1
    owner, fewest, most = owner_of(ask.members[0]), 1, len(ask.members)
    while fewest < most:
        tried = (fewest + most + 1) // 2
        if queues.refusal(owner, ask.site.pool, NOTHING.plus(ask.units, tried)) is None:
            fewest = tried
        else:
            most = tried - 1
    return fewest


def _question(ask: Ask, candidates: list[Workload], standing: Standing) -> Question:
    ask.budget.evictions -= len(candidates)
    running = running_of(ask.site.world, ask.site.capacity, candidates, standing.projects)
    return Question(ask.site.columns, running, ask.taker, ask.fits)


def _placeable(site: Site) -> values.Fits:
    def fits(columns: Columns) -> bool:
        return not isinstance(site.place(columns), Refusal)

    return fits


def _domains(site: Site) -> values.Ints | None:
    level = site.topology.level(site.wish.required)
    return None if level is None else site.topology.domain[level].astype(np.int64)


def _yields(other: Workload, request: Request) -> bool:
    return not request.preemptible or (other.request is not None and other.request.priority < request.priority)


def _seated(ask: Ask, seats: Seats, candidates: list[Workload]) -> Iterator[Room]:
    """A room for each member that has a seat; a victim goes for the first who waits for it."""
    site = ask.site
    named: set[str] = set()
    (role,) = site.roles
    for member, seat in zip(ask.members, seats.seats, strict=False):
        placement = Placement(role.name, (Run(seat.node, 0, 1, seat.mask, seat.start),))
        planned = charge_placements(site, member, site.roles, (placement,), next_run(member))
        waits_for = {candidates[v].id for v in seat.waits_for}
        yield Room(member, claim_of(site, planned, waits_for, next_run(member)), tuple(sorted(waits_for - named)))
        named |= waits_for


def _room(ask: Ask, victims: list[Workload]) -> Room:
    """Charges the taker where it will stand; those who leave stay charged until they are gone."""
    site, workload = ask.site, ask.members[0]
    placements = site.place(without(site.world, site.capacity, site.columns, victims))
    if isinstance(placements, Refusal):
        raise AssertionError(f"{workload.id} fitted with {len(victims)} victims and no longer does")  # noqa: TRY004
    names = tuple(victim.id for victim in victims)
    planned = charge_placements(site, workload, site.roles, placements, next_run(workload))
    claim = claim_of(site, planned, set(names), next_run(workload))
    return Room(workload, claim, names, over_limit=bool(ask.over))
