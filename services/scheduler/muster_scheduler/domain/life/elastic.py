"""Elastic gangs: a gang needs so many replicas and uses more while nobody else waits for the room.

Called by the cycle: at its end (grow), for a head that has no place or no quota (shed); and by reports, where one of
those replicas ended alone. The gang itself, replicas 0 to least - 1, is placed, counted and restarted like any other;
the surplus, from `least` on, is charged as preemptible work and yields to every gang that waits, whoever's it is.
Holds: a gang grows only when nobody has waited for room in its pool for a while, one replica after the other, whoever
has the least surplus first; it shrinks from the highest index; an index that comes back has another k. Each change of
size needs somebody who came or went, so with nobody waiting it ends at `most` or at what there is room for.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_kernel.reasons import FailureClass
from muster_scheduler.domain.asked.limits import FAULT_LIMIT, SAME_FAULT
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.workloads import Replica, ReplicaState, Workload
from muster_scheduler.domain.books.claims import claim_holder
from muster_scheduler.domain.books.course import lost
from muster_scheduler.domain.books.times import grows_again_at
from muster_scheduler.domain.books.world import World, owner_of
from muster_scheduler.domain.decisions import Scaled
from muster_scheduler.domain.life.failures import faults_in_a_row, ran_for
from muster_scheduler.domain.life.service import leave
from muster_scheduler.domain.placement.cluster_choice import ready
from muster_scheduler.domain.placement.place import Budget, place_replica
from muster_scheduler.domain.placement.slicing import charge_there

_AT_ONCE: Final = 256  # replicas that are added in one cycle
_ALONE: Final = frozenset({FailureClass.INFRASTRUCTURE, FailureClass.OURS, FailureClass.START})


def begin(world: World, workload: Workload) -> None:
    """Notes that an elastic gang has its place; it grows from there."""
    if workload.surplus_wanted:
        world.journal.put(world.elastic, workload.id, None)


def stretch(world: World, budget: Budget) -> None:
    """Gives elastic gangs what nobody waits for, one replica after the other; the least stretched gang first."""
    if not world.elastic:
        return
    promised = {claim.pool for each in world.claims if (claim := world.workloads[each].claim) is not None}
    gangs = [world.workloads[each] for each in sorted(world.elastic)]
    hungry = {each.id: each for each in gangs if world.attends(each.id) and _may_grow(world, each, promised)}
    before = {each: len(gang.replicas) for each, gang in hungry.items()}
    for _ in range(_AT_ONCE):
        if not hungry or budget.spent:
            break
        chosen = min(hungry.values(), key=lambda each: (len(each.surplus()), each.submitted, each.id))
        world.attending = chosen.id
        added = _add(world, chosen, budget)
        if not added:
            world.waiting.stuck[chosen.id] = chosen.pool
        if not added or missing(chosen) is None:
            del hungry[chosen.id]
    for each in hungry:
        world.timers.at(world.now, each)
    for each, size in before.items():
        world.attending = each
        _resized(world, world.workloads[each], size)
    world.attending = ""


def _may_grow(world: World, gang: Workload, promised: AbstractSet[str]) -> bool:
    """Whether it lacks replicas, runs undisturbed, and nobody has waited for long enough; keeps its clock."""
    if gang.faults >= FAULT_LIMIT and grows_again_at(gang) <= world.now and undisturbed(gang):
        world.set(gang, faults=0)
    pressed = bool(world.waiting.pressing.get(gang.pool)) or gang.pool in promised
    if not pressed and gang.calm_since and gang.id in world.waiting.stuck:
        return False
    calm = not pressed and missing(gang) is not None and gang.faults < FAULT_LIMIT and undisturbed(gang)
    if calm != bool(gang.calm_since):
        world.set(gang, calm_since=world.now if calm else 0)
        if calm:
            world.timers.at(world.now + world.limits.grow_after, gang.id)
    due = calm and gang.calm_since + world.limits.grow_after <= world.now
    return due and ready(world, world.clusters.get(gang.cluster))


def undisturbed(gang: Workload) -> bool:
    """Whether all of its replicas run, as far as anybody has heard."""
    return gang.phase is Phase.RUNNING and not any(each.ended or lost(each) for each in gang.replicas.values())


def pressing(world: World, pool: str) -> int:
    """How many wait for room in a pool, with those for whom it is being made: no gang grows there meanwhile."""
    claims = (world.workloads[each].claim for each in world.claims)
    promised = sum(1 for claim in claims if claim is not None and claim.pool == pool)
    return world.waiting.pressing.get(pool, 0) + promised


def missing(workload: Workload) -> int | None:
    """The lowest index that it would use and has not; None where it has all."""
    request = workload.request
    if request is None or request.stretch is None:
        return None
    role, least, most = request.stretch
    return next((rank for rank in range(least, most) if (role, rank) not in workload.replicas), None)


def stretched(workload: Workload) -> Role | None:
    """The role of which it may have more than its gang needs."""
    request = workload.request
    if request is None or request.stretch is None:
        return None
    return next((role for role in request.roles if role.name == request.stretch.role), None)


def _add(world: World, workload: Workload, budget: Budget) -> bool:
    """Places one more replica, as preemptible work. Whether there was room and quota for it."""
    rank, role = missing(workload), stretched(workload)
    if rank is None or role is None:
        return False
    units = charge_there(world, (role._replace(size=1),), workload.cluster, workload.pool)
    amount = Amount(units, role.shape.cpu, role.shape.memory)
    if world.queues.refusal(owner_of(workload, surplus=True), workload.pool, amount) is not None:
        return False
    k = workload.replacements.get((role.name, rank), (0, 0))[0]
    found = place_replica(world, workload, role, rank, k, budget)
    if found is None:
        return False
    world.take(workload, [Replica(claim_holder(workload, role.name, rank, k), *found)])
    return True


def shed(world: World, workload: Workload, count: int) -> None:
    """Takes away so many of the replicas that its gang can do without, the highest index first."""
    before = len(workload.replicas)
    for replica in workload.surplus()[:count]:
        _let_go(world, workload, replica)
    _resized(world, workload, before)


def shed_all(world: World, shrinks: Iterable[tuple[str, int]]) -> None:
    """The same for several gangs: their ids, and how many each gives up."""
    for gang, count in shrinks:
        shed(world, world.workloads[gang], count)


def yield_quota(world: World, workload: Workload, pool: str, amount: Amount) -> bool:
    """Whether gangs of its department gave up what keeps a waiting workload from its quota; else nothing changes.

    amount: what it asks for in that pool.
    """
    mark, cuts = world.journal.mark(), dict[str, int]()
    if world.queues.refusal(owner_of(workload), pool, amount) is None:
        return False
    gangs = [gang for each in sorted(world.elastic) if _shares_quota(gang := world.workloads[each], workload, pool)]
    spare = [(len(gang.surplus()) - at, gang.id, each) for gang in gangs for at, each in enumerate(gang.surplus())]
    for _, giver, replica in sorted(spare, key=lambda each: (-each[0], each[1])):
        world.unaccount(world.workloads[giver], replica)
        cuts[giver] = cuts.get(giver, 0) + 1
        if world.queues.refusal(owner_of(workload), pool, amount) is None:
            shed_all(world, cuts.items())
            return True
    world.journal.rollback(mark)
    return False


def _shares_quota(gang: Workload, workload: Workload, pool: str) -> bool:
    return gang.phase in ACTIVE and gang.pool == pool and gang.department == workload.department


def leave_node(world: World, workload: Workload, node: tuple[str, str]) -> bool:
    """Sends away what runs on a node, if its gang can do without all of it; else nothing changes."""
    here = [replica for replica in workload.replicas.values() if replica.node == node]
    if not all(workload.beyond(replica.holder.role, replica.holder.rank) for replica in here):
        return False
    before = len(workload.replicas)
    for replica in here:
        _let_go(world, workload, replica)
    _resized(world, workload, before)
    return bool(here)


def lose(world: World, workload: Workload) -> None:
    """Replicas that its gang can do without have failed for no fault of their own: it goes on without them."""
    before = len(workload.replicas)
    for replica in [each for each in workload.surplus() if goes_alone(workload, each)]:
        _count_fault(world, workload, replica)
        _let_go(world, workload, replica)
    _resized(world, workload, before)


def drop_surplus(world: World, workload: Workload, replica: Replica) -> None:
    """Send one replica away that its gang can do without."""
    before = len(workload.replicas)
    _let_go(world, workload, replica)
    _resized(world, workload, before)


def _count_fault(world: World, gang: Workload, replica: Replica) -> None:
    """Counts the fault that ended a replica; what others it ends within SAME_FAULT is not counted again."""
    if gang.faults and world.now - gang.fault_at < SAME_FAULT:
        return
    lasted = max(ran_for(replica, world.now), world.now - max(gang.placed, gang.fault_at))
    world.set(gang, faults=faults_in_a_row(gang.faults, lasted), fault_at=world.now)


def goes_alone(workload: Workload, replica: Replica) -> bool:
    """Whether the gang goes on without this replica, which has failed."""
    failed = replica.state is ReplicaState.FAILED and replica.news.failure in _ALONE
    return failed and workload.beyond(replica.holder.role, replica.holder.rank)


def _let_go(world: World, workload: Workload, replica: Replica) -> None:
    holder = replica.holder
    key = (holder.role, holder.rank)
    world.unaccount(workload, replica)
    world.journal.drop(workload.replicas, key)
    leave(world, workload, replica)
    world.set(workload, replacements={**workload.replacements, key: (holder.k + 1, 0)})


def _resized(world: World, workload: Workload, before: int) -> None:
    """Tells the agent and everybody else, where its size is another one now."""
    after = len(workload.replicas)
    if after != before:
        world.set(workload, resized=world.now, calm_since=0 if after < before else workload.calm_since)
        world.decide(Scaled(workload.id, before, after))
        world.rewrite(workload)
        world.watch(workload)  # the node that a replica came to may have an end
