"""Workloads that are set aside because the scheduler failed on them: the others are decided without them.

Called by the handlers, who caught the failure and know which workload the cycle attended to. Holds: what is set aside
keeps what it has (its devices stay charged, its reports are taken in) and is attended to by no cycle until it is
released, or its owner changes its spec.
"""

from __future__ import annotations

from muster_kernel.lifecycle import WAITING
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.books.claims import drop_claim
from muster_scheduler.domain.books.world import World

QUARANTINED = Reason(WaitingReason.QUARANTINED)


def set_aside(world: World, found: Quarantined) -> None:
    """Set a workload aside; one that waits gets the reason."""
    workload = world.workloads[found.workload]
    world.journal.put(world.quarantined, workload.id, found)
    world.touched.quarantined[workload.id] = None
    world.touched.workloads[workload.id] = None  # an abort looks again whether it belongs into the queue
    world.waiting.remove(workload.id)
    drop_claim(world, workload)
    if workload.phase in WAITING:
        world.set(workload, told_at=0)  # this is news, however soon after the last
        world.tell(workload, QUARANTINED)


def release_place(world: World, place: str) -> bool:
    """Look at a node pool or cluster again. False where it is not set aside."""
    if world.places_aside.pop(place, None) is None:
        return False
    kind, _, name = place.partition("/")
    if kind == "pool":
        world.waiting.wake_pool(name)
    return True


def release(world: World, workload_id: str) -> bool:
    """Let a workload in again, or look at a node pool or cluster again. False where it is not set aside."""
    if release_place(world, workload_id):
        return True
    if world.journal.drop(world.quarantined, workload_id) is None:
        return False
    world.touched.quarantined[workload_id] = None
    workload = world.workloads.get(workload_id)
    if workload is not None:
        world.touched.workloads[workload_id] = None
        world.watch(workload)
        if workload.independent and workload.active:
            world.journal.put(world.hungry, workload_id, None)
    return True
