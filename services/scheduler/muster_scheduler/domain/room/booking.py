"""Room that was found becomes a claim: it is counted once, with its taker, and those who give it are sent away.

Called by the cycle with what room/evictions.py found.
"""

from __future__ import annotations

from collections.abc import Container

from muster_kernel.lifecycle import LifecycleEvent
from muster_kernel.reasons import ChangeReason, PreemptionCause
from muster_scheduler.domain.asked.courses import Claim
from muster_scheduler.domain.asked.workloads import Ending, Workload
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.reserving import let_go
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Claimed, Preempted
from muster_scheduler.domain.room.sites import Room


def carry_out(world: World, room: Room) -> None:
    """Books the claim for the taker and sends the victims away: their room is counted once, with the taker."""
    world.waiting.remove(room.taker.id)
    _book(world, room.taker, room.claim)
    movers = {mover.id for mover, _ in room.moves}
    for victim_id in room.victims:
        victim = world.workloads[victim_id]
        for replica in victim.everyone():
            world.unaccount(victim, replica)
        world.set(victim, ending=Ending.PREEMPTED, preempted_by=room.taker.id)
        cause = _cause(room, victim, movers)
        world.decide(Preempted(victim.id, victim.attempt, room.taker.id, cause))
        advance(world, victim, LifecycleEvent.PREEMPTED, ChangeReason.PREEMPTED, f"it {cause.sentence}")
    for mover, claim in room.moves:
        _book(world, mover, claim)


def _cause(room: Room, victim: Workload, movers: Container[str]) -> PreemptionCause:
    """Why the victim has to leave; a text of it never names the taker, whom the victim's readers may not know."""
    if victim.id in movers:
        return PreemptionCause.CONSOLIDATION
    if room.over_limit:
        return PreemptionCause.LIMIT
    return PreemptionCause.PREEMPTION if victim.project == room.taker.project else PreemptionCause.RECLAIM


def _book(world: World, workload: Workload, claim: Claim) -> None:
    let_go(world, workload)
    world.account(workload, claim.pool, (p.grant for p in claim.planned))
    world.set(workload, claim=claim)
    world.entered(workload, claim.pool)
    world.journal.put(world.claims, workload.id, None)
    world.departing.wait(workload.id, claim)
    if not claim.waits_for:
        world.journal.put(world.ready, workload.id, None)
    world.decide(Claimed(workload.id, claim.cluster, claim.planned, claim.waits_for))
