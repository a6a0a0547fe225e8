"""Could it ever fit? The fleet's own nodes, imagined empty, and the real placement run on them.

Called when a class is blocked for want of room, to tell "never" from "not now", and by an explanation, to try what
would fit. Cached by the capacity index, which is a new object whenever nodes change.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_kernel.quantities import GPU
from muster_kernel.reasons import Constraint
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.requests import Grant, Kind, Role, Shape
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.idle_trial import Beside, Trial
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.fleet.eligibility import ANY_NODE, Eligibility, mismatch
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Device, Mig, Node, NodeState
from muster_scheduler.domain.placement.gang import GangGround, by_columns, lacking, wish_of
from muster_scheduler.domain.placement.place import Budget, mig_of, place_gang
from muster_scheduler.domain.placement.slicing import asks_for_memory, largest_slice, ways

_LARGEST: Final = 2_000  # nodes; in a larger pool the question is answered with "perhaps"


def try_out(world: World, workload: Workload, roles: tuple[Role, ...], cluster: str, pool: str) -> Trial | None:
    """What would become of the gang if the nodes of the pool that it may use were idle.

    None: there is no such pool, or it is too large to try.
    """
    capacity = world.inventory.capacity(cluster, pool)
    if capacity is None or len(capacity.nodes) > _LARGEST:
        return None
    slice_bytes = largest_slice(world, cluster, pool) if asks_for_memory(roles) else None
    if slice_bytes is None:
        return _known(world, workload, roles, cluster, pool, capacity)
    tried = [_known(world, workload, way, cluster, pool, capacity) for way in ways(world, roles, cluster, pool)]
    if not tried:
        tried = [_without_slices(roles, capacity.nodes)]
    best = max(tried, key=lambda trial: (trial.fits, trial.short is None, trial.room))
    short = next((role for role in roles if best.short and role.name == best.short.name), None)
    of_models = not best.fits and short is None and _of_models(world, workload, roles, cluster, pool, capacity)
    return best._replace(short=short, largest_slice=slice_bytes, of_models=of_models)


def _of_models(
    world: World, workload: Workload, roles: tuple[Role, ...], cluster: str, pool: str, capacity: Capacity
) -> bool:
    """Whether slices of several models together are enough for each role, and those of one are not; remembered.

    By the pool's columns, each role by itself.
    """
    cuts = tuple(tuple(way for (way,) in ways(world, (role,), cluster, pool)) for role in roles)
    if all(len(cut) == 1 for cut in cuts):
        return False
    asked = _asked(world, workload)
    known = capacity.of_models.get((cuts, asked))
    if known is None:
        made = _idle(world, _usable(capacity, asked), cluster, pool).inventory.capacity(cluster, pool)
        known = capacity.of_models[cuts, asked] = made is not None and _only_mixed(made, cuts)
    return known


def _only_mixed(idle: Capacity, cuts: tuple[tuple[Role, ...], ...]) -> bool:
    """Whether idle nodes hold each role where every node gives slices of its own model, and one of them only so."""
    only_so = False
    for cut in cuts:
        counts = np.array([counts_of(idle.columns, role.shape, role.size) for role in cut])
        if counts.max(axis=0).sum() < cut[0].size:
            return False
        only_so |= bool(counts.sum(axis=1).max() < cut[0].size)
    return only_so


def _without_slices(roles: tuple[Role, ...], nodes: list[Node]) -> Trial:
    """What becomes of a gang of which a role asks for more than any slice has."""
    short = next(role for role in roles if role.shape.kind is Kind.MEMORY)
    return Trial(False, None, _units(nodes), short, short.shape.devices, *_hosts(nodes))


def _known(
    world: World, workload: Workload, roles: tuple[Role, ...], cluster: str, pool: str, capacity: Capacity
) -> Trial:
    """As `try_out`, of roles as they are placed there; remembered."""
    asked, wish = _asked(world, workload), wish_of(workload.request)
    key = roles, asked, wish, world.pools.named(cluster, pool).levels, mig_of(world, cluster)
    known = capacity.trials.get(key)
    if known is None:
        alone = Workload("", request=workload.request)
        known = capacity.trials[key] = _try(world, alone, roles, _usable(capacity, asked), cluster, pool)
    return known


def _asked(world: World, workload: Workload) -> Eligibility:
    """Of which nodes it may be, whenever that is."""
    return eligibility_of(world.queues, workload, world.limits.grace)._replace(avoided=frozenset(), runs=None)


def _usable(capacity: Capacity, asked: Eligibility) -> list[Node]:
    return [node for node in capacity.nodes if mismatch(asked, node) is None]


def _idle(world: World, nodes: list[Node], cluster: str, pool: str) -> World:
    """These nodes without anybody, in a fleet of its own: nothing is changed where something is tried on it.

    Of what is said of the pool only its levels are part of the answer.
    """
    empty = World(world.limits)
    empty.clusters = world.clusters
    empty.pools.put(NodePool(0, cluster, pool, 0, levels=world.pools.named(cluster, pool).levels))
    empty.inventory.put_nodes([emptied(node) for node in nodes])
    return empty


def _try(
    world: World, workload: Workload, roles: tuple[Role, ...], nodes: list[Node], cluster: str, pool: str
) -> Trial:
    if _fits_one(workload, roles, nodes, mig_of(world, cluster)):
        return Trial(True, None, _units(nodes), None, 0, *_hosts(nodes))
    empty = _idle(world, nodes, cluster, pool)
    idle, said = list(empty.inventory.nodes.values()), empty.pools.named(cluster, pool)
    fits = place_gang(empty, workload, roles, cluster, pool, Budget()) is not None
    mig = mig_of(world, cluster)
    short = None
    if not fits:  # and so nothing was placed: the nodes are idle still
        alone = (r for r in roles if all(isinstance(fit(node, r.shape, mig), Constraint) for node in idle))
        short = next(alone, None)
    made = empty.inventory.capacity(cluster, pool)
    return Trial(
        fits,
        None if fits or made is None else _apart(workload, roles, made, said),
        _units(nodes),
        short,
        max((devices_for(node, short.shape) for node in idle), default=0) if short else 0,
        *_hosts(nodes),
        _room(roles, made, mig) if made and not fits and short is None else 0,
        _beside(idle, short.shape) if short else Beside(),
    )


def _beside(idle: list[Node], shape: Shape) -> Beside:
    hosts = [node for node in idle if node.cpu >= shape.cpu and node.memory >= shape.memory]
    holding = [node for node in idle if devices_for(node, shape) >= shape.devices]
    return Beside(max((devices_for(node, shape) for node in hosts), default=0), *_hosts(holding))


def _room(roles: tuple[Role, ...], idle: Capacity, mig: Mig) -> int:
    """How many replicas idle nodes hold of a gang of one role; 0 where columns cannot tell."""
    placed = [role for role in roles if role.size]
    if len(placed) != 1 or not by_columns(roles, mig):
        return 0
    return int(counts_of(idle.columns, placed[0].shape, placed[0].size).sum())


def _fits_one(workload: Workload, roles: tuple[Role, ...], nodes: list[Node], mig: Mig) -> bool:
    """Whether it is a single replica that an idle node holds: then no fleet has to be imagined for it."""
    placed = [role for role in roles if role.size]
    if len(placed) != 1 or placed[0].size > 1 or not wish_of(workload.request).anywhere:
        return False
    return any(isinstance(fit(emptied(node), placed[0].shape, mig), Grant) for node in nodes)


def _units(nodes: list[Node]) -> int:
    """What they have, in 1/7,000 GPU."""
    return sum(GPU * max(len(node.devices), node.slots) for node in nodes)


def _hosts(nodes: list[Node]) -> tuple[int, int]:
    """The most milli-CPU and the most bytes that one of them has."""
    return max((node.cpu for node in nodes), default=0), max((node.memory for node in nodes), default=0)


def _apart(workload: Workload, roles: tuple[Role, ...], capacity: Capacity, pool: NodePool) -> Reason | None:
    """Why no idle nodes hold what has to run close together or apart, where nothing else keeps it out."""
    wish = wish_of(workload.request)
    ground = GangGround(capacity, ANY_NODE, wish, 0, pool, {})
    return None if wish.anywhere else lacking(workload, [(roles, ground)], idle=True)


def devices_for(node: Node, shape: Shape) -> int:
    """How many of a node's devices are of the sort that the shape takes, whoever holds them now."""
    if shape.kind is Kind.WHOLE and node.slots:
        return node.slots
    return sum(1 for device in node.devices if device.mig == (shape.kind is Kind.SLICE))


def emptied(node: Node) -> Node:
    """The node with nobody on it, neither us nor others, and taking work.

    Pods of others count against its limit of replicas, and may leave: it takes one replica at least.
    """
    devices = [Device(d.uuid, d.model, d.memory, d.slot, mig=d.mig, layout=d.layout) for d in node.devices]
    for device in devices:
        device.tally()
    return Node(
        node.cluster,
        node.name,
        node.pool,
        state=NodeState.READY,
        cpu=node.cpu,
        memory=node.memory,
        devices=devices,
        slots=node.slots,
        slot_model=node.slot_model,
        extra=node.extra,
        most_replicas=max(1, node.most_replicas),
        labels=node.labels,
    )
