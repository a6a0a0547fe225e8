"""Making room: lower-priority preemptible work of the same project and node pool gives way, and only if that helps.

Called by the cycle for a head that has quota but no place. Works on the live inventory under marks of the journal:
release the victims, place the requester, put back everybody who need not have gone.
Holds: nobody is evicted unless the requester then fits; nobody is evicted whose return would leave the requester
fitting; who leaves anyway is counted before anybody is made to leave; what is promised is promised once.
An integer that every eviction lowers: the sum over running workloads of their priority rank below the taker's. A
workload that was evicted has a lower priority than its taker (or its taker is non-preemptible and is itself never
evicted), so with arrivals frozen the evictions are finite.
"""

from __future__ import annotations

from typing import NamedTuple

from muster_kernel.lifecycle import LifecycleEvent
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.course import advance
from muster_scheduler.domain.decisions import Claimed, Preempted
from muster_scheduler.domain.placement import Budget, clusters_for, place_gang
from muster_scheduler.domain.requests import Grant, Holder
from muster_scheduler.domain.workloads import Claim, Ending, Planned, Request, Workload
from muster_scheduler.domain.world import World


class Room(NamedTuple):
    """The outcome: where the requester goes, and who has to leave for it."""

    claim: Claim
    victims: tuple[str, ...]


class OthersLeave(NamedTuple):
    """Nobody needs to be evicted: it fits as soon as those have left who are leaving already."""

    workloads: int


_Held = tuple[Holder, tuple[str, str], Grant]


def make_room(world: World, workload: Workload, budget: Budget) -> Room | OthersLeave | None:
    """Looks for room in the workload's pools, in its order. A Room is charged as a claim; nothing else changes."""
    request = workload.request
    if request is None:
        return None
    waits: OthersLeave | None = None
    for pool in request.pools:
        for cluster in clusters_for(world, request, pool):
            if budget.evictions <= 0:
                return waits
            found = _in_pool(world, workload, request, cluster, pool, budget)
            if isinstance(found, Room):
                return found
            waits = waits or found
    return waits


def _in_pool(
    world: World, workload: Workload, request: Request, cluster: str, pool: str, budget: Budget
) -> Room | OthersLeave | None:
    leaving, victims = _candidates(world, workload, request, cluster, pool)
    if not victims:
        return None
    mark = world.journal.mark()
    freed: dict[str, list[_Held]] = {other.id: _lift(world, other) for other in leaving}
    if leaving and _fits(world, workload, request, cluster, pool, budget):
        world.journal.rollback(mark)
        return OthersLeave(len(leaving))
    chosen = _enough(world, workload, request, cluster, pool, victims, freed, budget)
    if chosen is None:
        world.journal.rollback(mark)
        return None
    evicted = _reprieve(world, workload, request, cluster, pool, chosen, freed, budget)
    planned = place_gang(world, workload, request.roles, cluster, pool, budget)
    if planned is None:
        raise AssertionError(f"{workload.id} fitted with {len(evicted)} victims and no longer does")
    touched = {p.node for p in planned}
    waits_for = {other for other, held in freed.items() if any(node in touched for _, node, _ in held)}
    for held in freed.values():
        for holder, node, grant in held:
            world.inventory.charge(holder, node, grant)
    names = tuple(victim.id for victim in evicted)
    return Room(Claim(cluster, pool, planned, tuple(sorted(waits_for | set(names)))), names)


def _candidates(
    world: World, workload: Workload, request: Request, cluster: str, pool: str
) -> tuple[list[Workload], list[Workload]]:
    """Who leaves that pool anyway and is promised to nobody, and who may be made to, the first to go first."""
    promised = {other for c in world.claims if (claim := world.workloads[c].claim) for other in claim.waits_for}
    leaving, victims = [], []
    for other_id in sorted(world.placed.get((cluster, pool), {})):
        other = world.workloads[other_id]
        if world.leaving(other):
            if other_id not in promised and other.remaining:
                leaving.append(other)
        elif other.active and _may_take(workload, request, other):
            victims.append(other)
    victims.sort(key=_first_to_go)
    return leaving, victims


def _may_take(workload: Workload, request: Request, other: Workload) -> bool:
    theirs = other.request
    if theirs is None or not theirs.preemptible or other.project != workload.project:
        return False
    return theirs.priority < request.priority or (not request.preemptible and theirs.priority <= request.priority)


def _first_to_go(victim: Workload) -> tuple[int, int, str]:
    priority = victim.request.priority if victim.request else 0
    return priority, -victim.placed, victim.id


def _lift(world: World, other: Workload) -> list[_Held]:
    """Releases what a workload holds, and says what that was."""
    held = [(r.holder, r.node, r.grant) for r in other.everyone() if r.charged]
    for holder, node, _ in held:
        world.inventory.release(holder, node)
    return held


def _fits(world: World, workload: Workload, request: Request, cluster: str, pool: str, budget: Budget) -> bool:
    mark = world.journal.mark()
    fits = place_gang(world, workload, request.roles, cluster, pool, budget) is not None
    world.journal.rollback(mark)
    return fits


def _enough(
    world: World,
    workload: Workload,
    request: Request,
    cluster: str,
    pool: str,
    victims: list[Workload],
    freed: dict[str, list[_Held]],
    budget: Budget,
) -> list[Workload] | None:
    """Lifts victims, one, two more, four more, until the requester fits; the reprieve puts back what was too many."""
    chosen: list[Workload] = []
    step = 1
    while len(chosen) < len(victims) and budget.evictions > 0:
        for victim in victims[len(chosen) : len(chosen) + step]:
            freed[victim.id] = _lift(world, victim)
            chosen.append(victim)
            budget.evictions -= 1
        if _fits(world, workload, request, cluster, pool, budget):
            return chosen
        step *= 2
    return None


def _reprieve(
    world: World,
    workload: Workload,
    request: Request,
    cluster: str,
    pool: str,
    chosen: list[Workload],
    freed: dict[str, list[_Held]],
    budget: Budget,
) -> list[Workload]:
    """Puts back, the most deserving first, every victim with whom the requester still fits."""
    evicted: list[Workload] = []
    for victim in reversed(chosen):
        mark = world.journal.mark()
        for holder, node, grant in freed[victim.id]:
            world.inventory.charge(holder, node, grant)
        if _fits(world, workload, request, cluster, pool, budget):
            del freed[victim.id]
        else:
            world.journal.rollback(mark)
            evicted.append(victim)
    return evicted


def carry_out(world: World, workload: Workload, room: Room) -> None:
    """Books the claim for the taker and sends the victims away: their room is counted once, with the taker."""
    request = workload.request
    if request is None:
        return
    planned: tuple[Planned, ...] = room.claim.planned
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
