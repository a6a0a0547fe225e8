"""Claims: room that has been made for a workload, is promised to it, and is being waited for.

Called by the course of workloads (who leaves tells those who wait for it) and by the cycle, which starts claims.
Holds: what a claim promises is charged, to the run that it is for, until that begins or the claim is given up.
"""

from __future__ import annotations

from muster_scheduler.domain.asked.courses import Claim, Planned
from muster_scheduler.domain.asked.requests import Holder
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.world import World


def tell_claims(world: World, workload: Workload, *, remaining: bool) -> None:
    """Those who wait for this workload's room wait no longer, once all of it that was to leave is gone."""
    if workload.active:
        if workload.leaving or workload.id not in world.departing:
            return
        world.departing.end(workload.id)
    elif remaining:
        return
    for claimant_id in world.departing.claimants(workload.id):
        claimant = world.workloads[claimant_id]
        claim = claimant.claim
        if claim is not None:
            left = tuple(other for other in claim.waits_for if other != workload.id)
            world.departing.cease(claimant_id, (workload.id,))
            world.set(claimant, claim=claim._replace(waits_for=left))
            if not left:
                world.journal.put(world.ready, claimant_id, None)


def drop_claim(world: World, workload: Workload) -> None:
    """Gives up the room that was being made for a workload."""
    claim = workload.claim
    if claim is None:
        return
    for planned in claim.planned:
        world.inventory.release(promised_holder(workload, claim, planned), planned.node)
        world.free(workload.project, claim.cluster, claim.pool, planned.node)
    world.account(workload, claim.pool, (planned.grant for planned in claim.planned), -1)
    world.departing.cease(workload.id, claim.waits_for)
    world.set(workload, claim=None)
    world.journal.drop(world.claims, workload.id)
    world.journal.drop(world.ready, workload.id)


def promised_holder(workload: Workload, claim: Claim, planned: Planned) -> Holder:
    """The holder of one planned replica: of the run that the claim is for, which may be the next one."""
    return Holder(workload.id, *claim.run, planned.role, planned.rank, 0)


def claim_holder(workload: Workload, role: str, index: int, k: int = 0) -> Holder:
    """The holder that a replica of the workload's next (or current) run is."""
    return Holder(workload.id, workload.revision, workload.attempt, role, index, k)


def waits_for_nobody(claim: Claim | None) -> bool:
    """Whether a claim's room is free by now."""
    return claim is not None and not claim.waits_for
