"""Unhealthy GPUs in an answer: of which nodes they are what lacks, and whom it would help if they were healthy again.

Called by explain.py for nodes without enough free devices. A cycle sees an unhealthy GPU as one that is not there;
whoever asks why has to learn of it, or the fleet seems to be full.
Holds: it reads nodes and changes none; what it says of a node was tried on a copy.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Final

from muster_kernel.reasons import Constraint
from muster_scheduler.domain.asked.requests import Grant, Shape, replica_count
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import excluded
from muster_scheduler.domain.fleet.nodes import Device, Mig, Mode, Node
from muster_scheduler.domain.placement.cluster_choice import clusters_for
from muster_scheduler.domain.placement.place import amount_before, mig_of
from muster_scheduler.domain.placement.slicing import fit_there

_NAMED: Final = 3  # nodes


def unhealthy_on(world: World, node: Node, shape: Shape, mig: Mig) -> int:
    """How many unhealthy GPUs a node has, if it would hold the shape with them healthy and does not without; else 0."""
    sick = sum(1 for device in node.devices if device.mode is Mode.UNHEALTHY)
    if not sick or not shape.devices or not isinstance(fit_there(world, node, shape, mig), Constraint):
        return 0
    return sick if isinstance(fit_there(world, _healed(node), shape, mig), Grant) else 0


def disputed_on(world: World, node: Node) -> dict[str, Node]:
    """The unhealthy GPUs of a node that are closed since another node, which is given, has them as well."""
    found: dict[str, Node] = {}
    for device in node.devices:
        owner = world.inventory.owner(device.uuid) if device.mode is Mode.UNHEALTHY else None
        other = world.inventory.nodes.get(owner) if owner and owner != node.key else None
        if other is not None and other.device(device.uuid) is not None:
            found[device.uuid] = other
    return found


def healthy_again(world: World, workload: Workload, request: Request, pool: str) -> list[str]:
    """The nodes of a pool of which each could hold a single replica if its GPUs were healthy; of a gang nothing."""
    if replica_count(request.roles) != 1:
        return []
    shape = next(role.shape for role in request.roles if role.size)
    asked = asked_of(world, workload, amount_before(world, request, pool).gpu)
    found: list[str] = []
    for cluster in clusters_for(world, workload, request, pool):
        capacity, mig = world.inventory.capacity(cluster, pool), mig_of(world, cluster)
        open_to = (n for n in (capacity.nodes if capacity else ()) if excluded(asked, n, world.now) is None)
        found += [_said(world, node, sick) for node in open_to if (sick := unhealthy_on(world, node, shape, mig))]
    return found[:_NAMED]


def _healed(node: Node) -> Node:
    healed = copy(node)
    healed.devices = [_healthy(device) if device.mode is Mode.UNHEALTHY else device for device in node.devices]
    return healed


def _healthy(device: Device) -> Device:
    healthy = replace(device, healthy=True)
    healthy.tally()
    return healthy


def _said(world: World, node: Node, sick: int) -> str:
    twice = disputed_on(world, node)
    if len(twice) == sick:
        return _reported_once(node, twice)
    return f"the {'unhealthy GPU' if sick == 1 else f'{sick} unhealthy GPUs'} of {node.name} were healthy"


def _reported_once(node: Node, twice: dict[str, Node]) -> str:
    """That the other nodes had its GPUs no longer, and nothing held them there."""
    others = sorted({(other.cluster, other.name) for other in twice.values()})
    where = " and ".join(f"{name} of cluster {cluster}" for cluster, name in others)
    charged = any(device.entries for uuid, other in twice.items() if (device := other.device(uuid)))
    held = ", and what runs on them there had ended" if charged else ""
    return f"the GPUs of {node.name} that {where} reports too were reported by {node.name} alone{held}"
