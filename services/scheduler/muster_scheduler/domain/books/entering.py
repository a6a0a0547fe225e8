"""Workloads that come from rows, into the state and out of it again, with all that they are charged.

Called where a state is read back from the database, and where a standby follows the one that leads.
Holds: after `take_out` nothing of a workload is left, and after `put_in` the truth is the same as if the workload had
come about here. Past use is a row of its own and is not counted again.
"""

from __future__ import annotations

from muster_kernel.lifecycle import ACTIVE, FINAL, Phase
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.books.claims import promised_holder
from muster_scheduler.domain.books.usual import learn
from muster_scheduler.domain.books.world import World, amount_of, owner_of


def charge_replica(world: World, workload: Workload, replica: Replica) -> None:
    """Charges what a replica holds to its node and to its project."""
    if replica.charged:
        world.inventory.charge(replica.holder, replica.node, replica.grant)
    _account(world, workload, replica, 1)
    note_place(world, workload)


def charge_claim(world: World, workload: Workload) -> None:
    """Charges what a workload's claim promises."""
    claim = workload.claim
    if claim is None:
        return
    world.claims[workload.id] = None
    for planned in claim.planned:
        world.inventory.charge(promised_holder(workload, claim, planned), planned.node, planned.grant)
    world.queues.charge(owner_of(workload), claim.pool, amount_of(planned.grant for planned in claim.planned))


def note_place(world: World, workload: Workload) -> None:
    """Notes that the workload holds something in its pool."""
    world.placed.setdefault((workload.cluster, workload.pool, workload.project), {})[workload.id] = None


def has_place(workload: Workload) -> bool:
    """Whether a workload is in a pool, even where it holds nothing there."""
    return workload.phase in ACTIVE or workload.phase is Phase.UNKNOWN


def may_leave(workload: Workload) -> bool:
    """Whether it leaves; also one that does not, and does again when it is heard of or ends otherwise."""
    return workload.remaining and bool(workload.leaving or not workload.active)


def take_out(world: World, workload_id: str) -> None:
    """Removes a workload and all that is charged to it, and whatever follows from it."""
    workload = world.workloads.pop(workload_id, None)
    if workload is None:
        return
    for replica in workload.everyone():
        if replica.charged:
            world.inventory.release(replica.holder, replica.node)
        _account(world, workload, replica, -1)
    _take_claim_out(world, workload)
    world.leave_pool(workload)
    if workload.reservation is not None:
        place = workload.reservation.cluster, workload.reservation.pool
        if world.reserved.get(place) == workload_id:
            del world.reserved[place]
    world.waiting.remove(workload_id)


def put_in(world: World, workload: Workload, before: Phase | None) -> None:
    """Takes a workload in as its rows have it. before: the phase in which it was known here; None: it was not."""
    world.workloads[workload.id] = workload
    if has_place(workload):
        note_place(world, workload)
    for replica in workload.everyone():
        charge_replica(world, workload, replica)
    charge_claim(world, workload)
    if workload.claim is not None:
        world.departing.wait(workload.id, workload.claim)
        if not workload.claim.waits_for:
            world.ready[workload.id] = None
    if workload.reservation is not None:
        world.reserved[workload.reservation.cluster, workload.reservation.pool] = workload.id
    if workload.id in world.placed.get((workload.cluster, workload.pool, workload.project), ()):
        _note_there(world, workload)
    if workload.phase in FINAL:
        world.over.at(workload.finished, workload.id)
    if workload.phase is Phase.COMPLETED and before is not Phase.COMPLETED:
        learn(world.usual, world.journal, workload)
    world.look_again(workload)
    world.watch(workload)


def _note_there(world: World, workload: Workload) -> None:
    """Of one that holds something: whether it may lack replicas, may grow, has lost some, or leaves."""
    if workload.independent and workload.active:
        world.hungry[workload.id] = None
    if workload.replicas and workload.surplus_wanted:
        world.elastic[workload.id] = None
    if workload.below_since:
        world.short[workload.id] = None
    if may_leave(workload):
        world.departing.begin(workload)


def _take_claim_out(world: World, workload: Workload) -> None:
    claim = workload.claim
    world.claims.pop(workload.id, None)
    world.ready.pop(workload.id, None)
    if claim is None:
        return
    for planned in claim.planned:
        world.inventory.release(promised_holder(workload, claim, planned), planned.node)
    amount = amount_of(planned.grant for planned in claim.planned)
    world.queues.charge(owner_of(workload), claim.pool, amount, -1)
    world.departing.cease(workload.id, claim.waits_for)


def _account(world: World, workload: Workload, replica: Replica, times: int) -> None:
    if replica.accounted:
        surplus = workload.beyond(replica.holder.role, replica.holder.rank)
        amount = amount_of((replica.grant,))
        world.queues.charge(owner_of(workload, surplus=surplus), workload.pool, amount, times)
