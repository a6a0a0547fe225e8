"""Making room in the books: who has to leave for a head of the queue, its claim, and their farewell.

Called by the cycle for a head that has quota but no place. For each (cluster, node pool) that it may use, in its order:
is it enough to wait for those who leave anyway; may other queues be asked (room/reclaim.py); may its own project
(room/preempt.py)? What is found becomes a claim: the room is counted once, with the taker, from then on.
Holds: nobody is evicted unless the taker then fits, nobody whose stay would leave it fitting; what is promised is
promised once; a workload that was evicted evicts nobody in order to come back.
An integer that every eviction lowers and nothing else raises while nothing arrives, ends or fails: `may_still_evict`,
the waiting workloads that have not been evicted for their present turn. A taker leaves it by being placed, a victim
does not join it; so evictions come to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from muster_kernel.lifecycle import WAITING, LifecycleEvent
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.capacity import Capacity
from muster_scheduler.domain.columns import Columns
from muster_scheduler.domain.course import advance, claim_holder
from muster_scheduler.domain.decisions import Claimed, Preempted
from muster_scheduler.domain.eligibility import eligibility_of
from muster_scheduler.domain.gangs import Placement, Refusal, place_gang
from muster_scheduler.domain.placement import Budget, amount_before, clusters_for, mig_of
from muster_scheduler.domain.placing import by_columns, wish_of
from muster_scheduler.domain.quotas import NOTHING, Amount
from muster_scheduler.domain.requests import Role
from muster_scheduler.domain.room import values
from muster_scheduler.domain.room.listing import held_of, running_of, taker_of, tree_of
from muster_scheduler.domain.room.preempt import preempt
from muster_scheduler.domain.room.reclaim import givers, reclaim
from muster_scheduler.domain.room.search import Question
from muster_scheduler.domain.room.several import Seats, reclaim_for
from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.standing import Standing
from muster_scheduler.domain.taking import Run, grants_of
from muster_scheduler.domain.topology import Topology, Wish
from muster_scheduler.domain.usable import Mask
from muster_scheduler.domain.waiting import ClassKey
from muster_scheduler.domain.workloads import Claim, Ending, Planned, Request, Workload
from muster_scheduler.domain.world import World, owner_of


class Room(NamedTuple):
    """The outcome for one taker: where it goes, and who has to leave for it (of those who leave for none before it)."""

    taker: Workload
    claim: Claim
    victims: tuple[str, ...]


class OthersLeave(NamedTuple):
    """Nobody needs to be evicted: it fits as soon as those have left who are leaving already."""

    workloads: int


class Site(NamedTuple):
    """One pool of one cluster as the taker sees it. columns: those who leave anyway are gone already."""

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


Standings = Callable[[str], Standing]


def make_room(world: World, key: ClassKey, standings: Standings, budget: Budget) -> tuple[Room, ...] | OthersLeave:
    """Looks for room for a class, in its pools in their order; empty where none can be made.

    Members of a class that may evict are let in one by one, or, where a single replica is all of each, as many at once
    as can be. Rooms are charged as claims; nothing else changes.
    """
    head = next(iter(world.waiting.members(key)[:1]), None)
    waits: OthersLeave | None = None
    for site in _sites(world, world.workloads[head]) if head else ():
        if site.leaving and not isinstance(site.place(site.columns), Refusal):
            waits = waits or OthersLeave(len(site.leaving))
            continue
        if key.returning:
            continue
        found = _in_site(site, key, standings, budget) if _someone_gives(world, key, site.pool) else ()
        if found:
            return found
    return waits or ()


def _sites(world: World, workload: Workload) -> Iterator[Site]:
    request = workload.request
    if request is None:
        return
    asked, wish = eligibility_of(world.queues, workload), wish_of(request)
    roles = tuple(role for role in request.roles if role.size)
    for pool in request.pools:
        for cluster in clusters_for(world, request, pool):
            capacity = world.inventory.capacity(cluster, pool)
            if capacity is None or not roles or not by_columns(roles, mig_of(world, cluster)):
                continue
            leaving = tuple(_leaving(world, cluster, pool))
            columns = _without(world, capacity, capacity.columns, leaving)
            levels = world.pools.named(cluster, pool).levels_for(wish)
            topology, mask = capacity.usable.topology(levels), capacity.usable.mask(asked, world.now)
            yield Site(world, cluster, pool, capacity, columns, leaving, roles, topology, wish, mask)


def _leaving(world: World, cluster: str, pool: str) -> Iterator[Workload]:
    """Who leaves that pool anyway and is promised to nobody."""
    promised = {other for c in world.claims if (claim := world.workloads[c].claim) for other in claim.waits_for}
    for other_id in sorted(world.departing):
        other = world.workloads[other_id]
        here = (other.cluster, other.pool) == (cluster, pool)
        if here and world.leaving(other) and other_id not in promised and other.remaining:
            yield other


def _without(world: World, capacity: Capacity, columns: Columns, gone: Sequence[Workload]) -> Columns:
    """A copy of the columns that these have left; the same ones where nobody has."""
    if not gone:
        return columns
    scratch = columns.scratch()
    lift(stock_of(scratch), held_of(world, capacity, gone), np.arange(len(gone)), 1)
    return scratch


def _someone_gives(world: World, key: ClassKey, pool: str) -> bool:
    """Whether preemptible work of the own project, or of another beyond its quota, could be asked at all.

    Nobody's fair share is below what it deserves and wants, so within its quota a queue has nothing to give.
    """
    for (project, where), account in world.queues.accounts.items():
        loose = any(held > bound for held, bound in zip(account.held, account.bound, strict=True))
        if where != pool or not loose:
            continue
        lines = world.queues.quota(project, pool).lines
        beyond = (
            line.deserved is not None and held > line.deserved for line, held in zip(lines, account.held, strict=True)
        )
        if project == key.project or any(beyond):
            return True
    return False


def _in_site(site: Site, key: ClassKey, standings: Standings, budget: Budget) -> tuple[Room, ...]:
    world, standing = site.world, standings(site.pool)
    row = standing.projects.get(key.project)
    members = [world.workloads[each] for each in world.waiting.members(key)]
    request = members[0].request
    if row is None or request is None:
        return ()
    units = amount_before(world, request, site.pool)
    if world.queues.refusal(owner_of(members[0]), site.pool, units) is not None:
        return ()
    tree = tree_of(world, standing)
    taker = taker_of(request, site.roles, row, units, site.mask, _domains(site))
    fits = None if _countable(site) else _placeable(site)
    asked = givers(tree, taker)
    if not isinstance(asked, values.Refusal):
        candidates = _preemptible(site, (standing.queues[q].name for q in np.flatnonzero(asked)))
        question = _question(site, candidates, standing, taker, fits, budget)
        if taker.size == 1 and fits is None and not site.wish.required:
            seats = reclaim_for(question, tree, _admissible(world, members, site.pool, units))
            if isinstance(seats, Seats):
                return tuple(_seated(site, members, seats, candidates))
        else:
            made = reclaim(question, tree)
            if isinstance(made, values.Room):
                return (_room(site, members[0], [candidates[v] for v in made.victims]),)
    own = [w for w in _preemptible(site, (key.project,)) if _yields(w, request)] if tree.loose[row].any() else []
    if not own:
        return ()
    made = preempt(_question(site, own, standing, taker, fits, budget), preemptible=request.preemptible)
    return (_room(site, members[0], [own[v] for v in made.victims]),) if isinstance(made, values.Room) else ()


def _admissible(world: World, members: list[Workload], pool: str, each: Amount) -> int:
    """How many of these equal workloads the quotas of their project and department admit, the first one at least."""
    project = world.queues.projects.get(members[0].project)
    if project is None or project.user_limits:
        return 1  # users may differ within a class: each by itself
    owner, fewest, most = owner_of(members[0]), 1, len(members)
    while fewest < most:
        tried = (fewest + most + 1) // 2
        if world.queues.refusal(owner, pool, NOTHING.plus(each, tried)) is None:
            fewest = tried
        else:
            most = tried - 1
    return fewest


def _question(
    site: Site,
    candidates: list[Workload],
    standing: Standing,
    taker: values.Taker,
    fits: values.Fits | None,
    budget: Budget,
) -> Question:
    budget.evictions -= len(candidates)
    running = running_of(site.world, site.capacity, candidates, standing.projects)
    return Question(site.columns, running, taker, fits)


def _countable(site: Site) -> bool:
    return len(site.roles) == 1 and not site.wish.group


def _placeable(site: Site) -> values.Fits:
    def fits(columns: Columns) -> bool:
        return not isinstance(site.place(columns), Refusal)

    return fits


def _domains(site: Site) -> values.Ints | None:
    level = site.topology.level(site.wish.required)
    return None if level is None else site.topology.domain[level].astype(np.int64)


def _preemptible(site: Site, projects: Iterable[str]) -> list[Workload]:
    """The running preemptible workloads of these projects that are past their minimum run time, by project and id."""
    world = site.world
    found: list[Workload] = []
    for project in projects:
        for other_id in sorted(world.placed.get((site.cluster, site.pool, project), {})):
            other = world.workloads[other_id]
            settled = other.placed + world.limits.minimum_run <= world.now
            if settled and other.active and other.request is not None and other.request.preemptible:
                found.append(other)
    return found


def _yields(other: Workload, request: Request) -> bool:
    return not request.preemptible or (other.request is not None and other.request.priority < request.priority)


def _seated(site: Site, members: list[Workload], seats: Seats, candidates: list[Workload]) -> Iterator[Room]:
    """A room for each member that has a seat; a victim goes for the first who waits for it."""
    named: set[str] = set()
    (role,) = site.roles
    for member, seat in zip(members, seats.seats, strict=False):
        planned = _charged(site, member, role, Run(seat.node, 0, 1, seat.mask, seat.start))
        waits_for = {candidates[v].id for v in seat.waits_for}
        yield _claimed(site, member, tuple(planned), waits_for, tuple(sorted(waits_for - named)))
        named |= waits_for


def _room(site: Site, workload: Workload, victims: list[Workload]) -> Room:
    """Charges the taker where it will stand; those who leave stay charged until they are gone."""
    placements = site.place(_without(site.world, site.capacity, site.columns, victims))
    if isinstance(placements, Refusal):
        raise AssertionError(f"{workload.id} fitted with {len(victims)} victims and no longer does")  # noqa: TRY004
    planned: list[Planned] = []
    for role, placement in zip(site.roles, placements, strict=True):
        for run in placement.runs:
            planned += _charged(site, workload, role, run)
    names = tuple(victim.id for victim in victims)
    return _claimed(site, workload, tuple(planned), set(names), names)


def _charged(site: Site, workload: Workload, role: Role, run: Run) -> Iterator[Planned]:
    node = site.capacity.nodes[run.node]
    for rank, grant in enumerate(list(grants_of(node, role.shape, run)), run.first):
        site.world.inventory.charge(claim_holder(workload, role.name, rank), node.key, grant)
        yield Planned(role.name, rank, node.key, grant)


def _claimed(
    site: Site, workload: Workload, planned: tuple[Planned, ...], waits_for: set[str], victims: tuple[str, ...]
) -> Room:
    """The claim also waits for those who leave anyway from its nodes."""
    touched = {each.node for each in planned}
    awaited = {w.id for w in site.leaving if any(r.charged and r.node in touched for r in w.everyone())}
    return Room(workload, Claim(site.cluster, site.pool, planned, tuple(sorted(awaited | waits_for))), victims)


def carry_out(world: World, room: Room) -> None:
    """Books the claim for the taker and sends the victims away: their room is counted once, with the taker."""
    workload, planned = room.taker, room.claim.planned
    world.account(workload, room.claim.pool, (p.grant for p in planned))
    world.set(workload, claim=room.claim)
    world.journal.put(world.claims, workload.id, None)
    world.waiting.remove(workload.id)
    world.decide(Claimed(workload.id, room.claim.cluster, planned, room.claim.waits_for))
    for victim_id in room.victims:
        victim = world.workloads[victim_id]
        for replica in victim.everyone():
            world.unaccount(victim, replica)
        world.set(victim, ending=Ending.PREEMPTED, preempted_by=workload.id)
        world.decide(Preempted(victim.id, victim.attempt, workload.id))
        advance(world, victim, LifecycleEvent.PREEMPTED, ChangeReason.PREEMPTED, f"by {workload.name or workload.id}")


def may_still_evict(world: World) -> int:
    """How many waiting workloads have not been evicted for their present turn: every eviction lowers it."""
    waiting = (w for w in world.workloads.values() if w.phase in WAITING and w.claim is None)
    return sum(1 for w in waiting if not w.preempted_by)
