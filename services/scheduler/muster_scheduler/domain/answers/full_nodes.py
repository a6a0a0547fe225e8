"""Nodes that take no more replicas, in an answer: which limits would have to be higher for a workload to start.

Called by explain.py. The limits of nodes are lifted in the books, the gang is placed, and all is taken back.
Holds: the state afterwards is the state before; at most `_NAMED` nodes are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from muster_scheduler.domain.answers.rivals import taken_first
from muster_scheduler.domain.answers.trying import has_room_in, taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.asked.requests import replica_count
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import excluded
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Node
from muster_scheduler.domain.placement.cluster_choice import clusters_for
from muster_scheduler.domain.placement.place import amount_before

_NAMED: Final = 3


def with_more_replicas(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> list[str]:
    """Return, by cluster, that the full nodes of a pool allowed more pods, if the workload would start then."""
    asked = asked_of(world, workload, amount_before(world, request, pool).gpu)
    replicas, found = replica_count(request.roles), list[str]()
    for cluster in clusters_for(world, workload, request, pool):
        capacity = world.inventory.capacity(cluster, pool)
        nodes = capacity.nodes if capacity else ()
        full = [node for node in nodes if node.free_replicas < replicas and excluded(asked, node, world.now) is None]
        if not full or has_room_in(world, workload, request, cluster, pool):
            continue
        with taken_back(world):
            world.inventory.imagine([_without_limit(node) for node in full])
            if has_room_in(world, workload, request, cluster, pool):
                found.append(f"{_in_words(full)}{taken_first(world, workload, pool, [cluster], viewer)}")
    return found[:_NAMED]


def _without_limit(node: Node) -> Node:
    devices = [replace(device, entries={}) for device in node.devices]
    return replace(node, most_replicas=UNBOUNDED, devices=devices)


def _in_words(nodes: Sequence[Node]) -> str:
    """Return the condition for a person, with the names of at most `_NAMED` nodes."""
    names = [node.name for node in nodes]
    shown = names if len(names) <= _NAMED else [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    listed = f"{', '.join(shown[:-1])} or {shown[-1]}" if len(shown) > 1 else shown[0]
    return f"{listed} allowed more pods (maxPods of the kubelet), or pods of others there ended"
