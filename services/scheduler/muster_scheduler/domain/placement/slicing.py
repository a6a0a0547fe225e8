"""Requests for GPU memory in node pools that want them as MIG slices: each becomes the smallest profile that holds it.

Called by whoever places, counts or explains the roles of a workload in one pool of one cluster. What is placed then is
a slice as any other: it is charged its sevenths, carved on demand, and its agent is told profile and start.
Holds: roles stay what they are, the very same tuple, where they ask for no GPU memory, where nobody said so of the
pool, and where the cluster does not carve on demand. Cards of several models are tried one model after the other: the
replicas of a gang work in step, and one with a weaker slice would hold up all the others. A replica that joins later
(a service's, a trial, one above the least of an elastic gang) may get another model's.
"""

from __future__ import annotations

from muster_kernel.mig import Card, memory_of, smallest_for
from muster_kernel.reasons import Constraint
from muster_scheduler.domain.asked.requests import Grant, Kind, Role, Shape, charge_of, total_charge
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Mig, Node

Roles = tuple[Role, ...]


def asks_for_memory(roles: Roles) -> bool:
    """Whether any of them asks for GPU memory."""
    for role in roles:  # noqa: SIM110 - asked of every head: any() costs twice as much
        if role.shape.kind is Kind.MEMORY:
            return True
    return False


def sliced(world: World, cluster: str, pool: str) -> bool:
    """Whether requests for GPU memory get slices in that pool of that cluster."""
    if not world.pools.named(cluster, pool).memory_as_slices:
        return False
    known = world.clusters.get(cluster)
    return known is not None and known.profile is not None and known.profile.mig is Mig.DYNAMIC


def ways(world: World, roles: Roles, cluster: str, pool: str) -> tuple[Roles, ...]:
    """The roles as they can be placed there, the cheapest first; none where no slice of any card there holds them."""
    if not asks_for_memory(roles) or not sliced(world, cluster, pool):
        return (roles,)
    capacity = world.inventory.capacity(cluster, pool)
    cut = {_cut(roles, card, total) for card, total in (capacity.cards if capacity else ())}
    return tuple(sorted((way for way in cut if way is not None), key=_cheapest))


def charge_there(world: World, roles: Roles, cluster: str, pool: str) -> int:
    """What the roles cost there at most before they have their devices, in 1/7,000 GPU."""
    if not asks_for_memory(roles):
        return total_charge(roles)
    if sliced(world, cluster, pool):
        return max(map(total_charge, ways(world, roles, cluster, pool)), default=total_charge(roles))
    largest = world.inventory.largest_device(cluster, pool)
    return sum(role.size * charge_of(role.shape, largest) for role in roles)


def fit_there(world: World, node: Node, shape: Shape, mig: Mig) -> Grant | Constraint:
    """What a replica of `shape` would hold of `node` as its pool gives it, or the constraint that keeps it out."""
    if shape.kind is not Kind.MEMORY or not sliced(world, node.cluster, node.pool):
        return fit(node, shape, mig)
    found: Grant | Constraint = Constraint.DEVICE_TOO_SMALL
    for (role,) in ways(world, (Role("", 1, shape, 0),), node.cluster, node.pool):
        found = fit(node, role.shape, mig)
        if isinstance(found, Grant):
            return found
    return found


def largest_slice(world: World, cluster: str, pool: str) -> int | None:
    """Bytes of the largest slice that a request for GPU memory can get there; None where it gets none at all."""
    if not sliced(world, cluster, pool):
        return None
    capacity = world.inventory.capacity(cluster, pool)
    sizes = (
        memory_of(card, profile, total)
        for card, total in (capacity.cards if capacity else ())
        for profile in card.profiles.values()
    )
    return max(sizes, default=0)


def _cut(roles: Roles, card: Card, total: int) -> Roles | None:
    """The roles with slices of this card, of `total` bytes; None where one of them needs more than it gives."""
    cut: list[Role] = []
    for role in roles:
        shape = role.shape
        if shape.kind is Kind.MEMORY:
            profile = smallest_for(card, shape.bytes, total)
            if profile is None:
                return None
            shape = shape._replace(kind=Kind.SLICE, bytes=0, profile=profile.name)
        cut.append(role._replace(shape=shape, charge=charge_of(shape)))
    return tuple(cut)


def _cheapest(way: Roles) -> tuple[int, list[tuple[int, str]]]:
    """By what it charges, then by the memory of its slices, as their names say it."""
    names = [role.shape.profile for role in way]
    return total_charge(way), [(len(name), name) for name in names]
