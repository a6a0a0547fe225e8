"""Could it ever fit? The fleet's own nodes, imagined empty, and the real placement run on them.

Called when a class is blocked for want of room, to tell "never" from "not now", and cached by the capacity index, which
is a new object whenever nodes change.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.quantities import GPU
from muster_scheduler.domain.nodes import Device, Node, NodeState
from muster_scheduler.domain.placement import Budget, place_gang
from muster_scheduler.domain.requests import Role
from muster_scheduler.domain.workloads import Workload
from muster_scheduler.domain.world import World

_LARGEST: Final = 2_000  # nodes; in a larger pool the question is answered with "perhaps"


def largest_possible(world: World, workload: Workload, cluster: str, pool: str) -> tuple[bool, int] | None:
    """Whether the gang would fit into the idle pool, and what the pool has, in 1/7,000 GPU. None: not tried out."""
    capacity = world.inventory.capacity(cluster, pool)
    request = workload.request
    if capacity is None or request is None or len(capacity.nodes) > _LARGEST:
        return None
    known = capacity.trials.get(request.roles)
    if known is None:
        known = capacity.trials[request.roles] = _try(world, workload, request.roles, capacity.nodes, cluster, pool)
    return known


def _try(
    world: World, workload: Workload, roles: tuple[Role, ...], nodes: list[Node], cluster: str, pool: str
) -> tuple[bool, int]:
    empty = World(world.limits)
    empty.clusters = world.clusters
    empty.inventory.put_nodes(_emptied(node) for node in nodes)
    fits = place_gang(empty, Workload(workload.id), roles, cluster, pool, Budget()) is not None
    return fits, sum(GPU * max(len(node.devices), node.slots) for node in nodes)


def _emptied(node: Node) -> Node:
    """The node with nobody on it, neither us nor others, and taking work."""
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
    )
