"""Where a gang goes: all of it into one (cluster, node pool), or none of it.

Called by the cycle for heads of the queue, by preemption under a mark of the journal, and by explanations.
Deterministic: roles go largest first, nodes in the order of the capacity index, devices tightest first.
Holds: on failure the inventory is exactly as before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from muster_kernel.reasons import Constraint
from muster_scheduler.domain.asked.courses import Planned
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Grant, Role, Shape, charge_of, replica_count, total_charge
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.claims import claim_holder
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.pools import Strategy
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import reluctant
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Mig, Node
from muster_scheduler.domain.fleet.taking import grants_of
from muster_scheduler.domain.placement.ahead import find_ahead
from muster_scheduler.domain.placement.cluster_choice import able
from muster_scheduler.domain.placement.gang import (
    GangGround,
    by_columns,
    charge_gang,
    charge_one,
    wish_of,
)
from muster_scheduler.domain.placement.grounds import ReplicaGround, narrowed, shared_out
from muster_scheduler.domain.placement.slicing import asks_for_memory, charge_there, sliced, ways
from muster_scheduler.domain.steps import Steps

_NODES_A_VISIT: Final = 100  # counted at once, they cost what one node costs that is tested alone


@dataclass(slots=True)
class Budget:
    """Work that one cycle may do: exact tests of nodes, and simulated evictions. Never wall time.

    A visit costs some 2 us, a simulated eviction 10 to 20: the cycle works for some tens of milliseconds, or for one
    gang.
    """

    visits: int = 20_000
    evictions: int = 1_000
    steps: Steps = field(default_factory=Steps)

    @property
    def spent(self) -> bool:
        """Whether the cycle has to come back later."""
        return self.visits <= 0


def charge_before(world: World, request: Request, pool: str) -> int:
    """What the gang is counted as before it is placed in a pool, in 1/7,000 GPU.

    A memory request costs a part of the device that it gets; until that is known, of the pool's largest device. Where
    it gets a slice, it costs what that costs; of several that it may get, the dearest.
    """
    if not asks_for_memory(request.roles):
        return total_charge(request.roles)
    clusters = [c for c in world.inventory.clusters_with(pool) if able(request, world.clusters.get(c))]
    carving = [cluster for cluster in clusters if sliced(world, cluster, pool)]
    slices = max((charge_there(world, request.roles, cluster, pool) for cluster in carving), default=0)
    if carving and len(carving) == len(clusters):
        return slices
    sharing = (world.inventory.largest_device(cluster, pool) for cluster in clusters if cluster not in carving)
    largest = max(sharing, default=0)
    return max(slices, sum(role.size * charge_of(role.shape, largest) for role in request.roles))


def amount_before(world: World, request: Request, pool: str) -> Amount:
    """What the gang takes of its quotas before it is placed in a pool."""
    cpu = sum(role.size * role.shape.cpu for role in request.roles)
    return Amount(charge_before(world, request, pool), cpu, sum(r.size * r.shape.memory for r in request.roles))


def mig_of(world: World, cluster: str) -> Mig:
    """What the cluster does with MIG."""
    known = world.clusters.get(cluster)
    return known.profile.mig if known and known.profile else Mig.NONE


def place_gang(
    world: World, workload: Workload, roles: tuple[Role, ...], cluster: str, pool: str, budget: Budget
) -> tuple[Planned, ...] | None:
    """Charges every replica of the gang to nodes of one (cluster, pool) and says where; None where not all fit."""
    for way in ways(world, roles, cluster, pool):
        planned = _place_as(world, workload, way, cluster, pool, budget)
        if planned is not None:
            return planned
    return None


def _place_as(
    world: World, workload: Workload, roles: tuple[Role, ...], cluster: str, pool: str, budget: Budget
) -> tuple[Planned, ...] | None:
    capacity = world.inventory.capacity(cluster, pool)
    if capacity is None:
        return None
    units = charge_before(world, workload.request, pool) if workload.request else 0
    mig, asked, wish = mig_of(world, cluster), asked_of(world, workload, units), wish_of(workload.request)
    filling = world.pools.named(cluster, pool)
    if replica_count(roles) > (1 if wish.anywhere else 0) and by_columns(roles, mig):  # nobody is close to nothing
        budget.visits -= 1 + len(capacity.nodes) // _NODES_A_VISIT
        return charge_gang(
            world, workload, roles, GangGround(capacity, asked, wish, world.now, filling, world.inventory.nodes)
        )
    ground = ReplicaGround(capacity, mig, asked, world.now, filling)
    for each in narrowed(world, workload, ground):
        planned = _place_on(world, workload, roles, each, budget)
        if planned is not None:
            return planned
    return None


def _place_on(
    world: World, workload: Workload, roles: tuple[Role, ...], ground: ReplicaGround, budget: Budget
) -> tuple[Planned, ...] | None:
    mark = world.journal.mark()
    planned: list[Planned] = []
    grounds = _grounds(roles, ground, budget)
    for role in sorted(roles, key=_largest_first):
        found = _place_role(world, workload, role, grounds[role.name], budget) if grounds else None
        if found is None:
            world.journal.rollback(mark)
            return None
        planned += found
    return tuple(planned)


def _grounds(roles: tuple[Role, ...], ground: ReplicaGround, budget: Budget) -> dict[str, ReplicaGround]:
    """Where each role is looked for; empty where not all of them find a place."""
    if ground.apart is None or not roles[1:]:  # alone, or nobody: there is nothing to share out
        return dict.fromkeys((role.name for role in roles), ground)
    budget.visits -= len(roles) * len(ground.capacity.nodes)
    return shared_out(roles, ground, ground.apart)


def _largest_first(role: Role) -> tuple[int, int, int, str]:
    return -role.charge, -role.shape.cpu, -role.shape.memory, role.name


def _place_role(
    world: World,
    workload: Workload,
    role: Role,
    ground: ReplicaGround,
    budget: Budget,
) -> list[Planned] | None:
    planned: list[Planned] = []
    refused: set[int] = set()
    while len(planned) < role.size:
        found = _first_that_fits(role.shape, ground, refused, budget)
        if found is None:
            return None
        node, grant = found
        while True:
            rank = len(planned)
            world.inventory.charge(claim_holder(workload, role.name, rank), node.key, grant)
            planned.append(Planned(role.name, rank, node.key, grant))
            ground.leave(node)
            if ground.apart is not None or len(planned) == role.size or not ground.fills(role.shape, Strategy.BINPACK):
                break
            again = fit(node, role.shape, ground.mig)
            if isinstance(again, Constraint):
                refused.add(node.ordinal)
                break
            grant = again
    return planned


def _first_that_fits(
    shape: Shape,
    ground: ReplicaGround,
    refused: set[int],
    budget: Budget,
) -> tuple[Node, Grant] | None:
    """The first node in the pool's order; one that asks to be taken last only where there is no other."""
    if ground.within is None:
        found = find_ahead(ground.capacity, ground.filling, ground.asked, shape, ground.now)
        if found is not None:
            budget.visits -= 1 + len(ground.capacity.nodes) // _NODES_A_VISIT
            return found
    if by_columns((Role("", 1, shape, 0),), ground.mig):
        return _sought(shape, ground, budget)
    last: tuple[Node, Grant] | None = None
    for node in ground.capacity.candidates(shape, emptiest=ground.fills(shape, Strategy.SPREAD)):
        if node.ordinal in refused:
            continue
        budget.visits -= 1
        grant = fit(node, shape, ground.mig) if ground.admits(node) else Constraint.NODE_UNAVAILABLE
        if isinstance(grant, Constraint):
            refused.add(node.ordinal)
        elif not reluctant(ground.asked, node):
            return node, grant
        else:
            last = last or (node, grant)
    return last


def _sought(shape: Shape, ground: ReplicaGround, budget: Budget) -> tuple[Node, Grant] | None:
    """By the pool's index: without the nodes that ask to be taken last, and with them where it has to be."""
    capacity = ground.capacity
    mask = capacity.usable.mask(ground.asked, ground.now)
    if ground.within is not None:
        mask &= ground.within
    for eligible in capacity.usable.in_turn(ground.asked, mask):
        run, visits = capacity.seeker.find(shape, eligible, spread=ground.fills(shape, Strategy.SPREAD))
        budget.visits -= 1 + visits // _NODES_A_VISIT
        if run is not None:
            node = capacity.nodes[run.node]
            (grant,) = grants_of(node, shape, run)
            return node, grant
    return None


def place_replica(
    world: World, workload: Workload, role: Role, index: int, k: int, budget: Budget
) -> tuple[tuple[str, str], Grant] | None:
    """Charges one more replica in the workload's own (cluster, pool) and says where; None where it does not fit."""
    for (way,) in ways(world, (role,), workload.cluster, workload.pool):
        found = _place_replica_as(world, workload, way, index, k, budget)
        if found is not None:
            return found
    return None


def _place_replica_as(
    world: World, workload: Workload, role: Role, index: int, k: int, budget: Budget
) -> tuple[tuple[str, str], Grant] | None:
    capacity = world.inventory.capacity(workload.cluster, workload.pool)
    if capacity is None:
        return None
    units = charge_of(role.shape, capacity.largest)
    mig, asked = mig_of(world, workload.cluster), asked_of(world, workload, units)
    wish, filling = wish_of(workload.request), world.pools.named(workload.cluster, workload.pool)
    if not wish.anywhere and by_columns((role,), mig):
        budget.visits -= 1 + len(capacity.nodes) // _NODES_A_VISIT
        return charge_one(
            world,
            workload,
            role,
            index,
            k,
            GangGround(capacity, asked, wish, world.now, filling, world.inventory.nodes),
        )
    ground = ReplicaGround(capacity, mig, asked, world.now, filling)
    tries = (_first_that_fits(role.shape, each, set(), budget) for each in narrowed(world, workload, ground))
    found = next((each for each in tries if each is not None), None)
    if found is None:
        return None
    node, grant = found
    world.inventory.charge(claim_holder(workload, role.name, index, k), node.key, grant)
    return node.key, grant
