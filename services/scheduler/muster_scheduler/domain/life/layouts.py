"""Changes of a node's MIG layout: closed, empty, told to the agent, answered (kubernetes.md 7.4).

Called by `State` for an operator's order and at the end of each transaction, by inventories.py for an agent's answer
and for nodes that have gone, and by the handlers when a term begins.
Holds: the agent is told only once nothing of ours is left on the node; each change that was told ends in a tombstone.
"""

from __future__ import annotations

from typing import Final

from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import EndWish, Wish
from muster_scheduler.domain.events import NodeLayoutOrdered
from muster_scheduler.domain.fleet.layouts import LayoutChange, is_held_by_others
from muster_scheduler.domain.fleet.nodes import Node

TAKEN_BACK: Final = "TakenBack"
ANSWERED: Final = "Answered"
NODE_GONE: Final = "NodeGone"
_FOREIGN: Final = "another tenant of the cluster holds a device of the node"


def on_layout_ordered(world: World, event: NodeLayoutOrdered) -> None:
    """An operator orders a layout of a node, or takes the change back that is under way (no `config`)."""
    node = world.inventory.nodes.get((event.cluster, event.node))
    if node is None:
        return
    if not event.config:
        end(world, node, TAKEN_BACK)
    elif node.layout is None:
        _set(world, node, LayoutChange(event.config, event.by, world.now))
        for workload_id in sorted({holder.workload for holder in node.entries}):
            world.watch(world.workloads[workload_id])


def tell_due(world: World) -> None:
    """Tell agents of each change whose node is empty by now; it fails where another tenant has come meanwhile."""
    for key in sorted(world.inventory.changing):
        node = world.inventory.nodes[key]
        change = node.layout
        if change is None or change.applying or node.entries or not node.present:
            continue
        if is_held_by_others(node):
            end(world, node, ANSWERED, _FOREIGN)
            continue
        _set(world, node, change._replace(applying=True))
        world.decide(Wish(node.cluster, node.name, change.config, change.revision))


def tell_again(world: World, cluster: str = "") -> None:
    """Tell agents once more of each change that they were told of: another epoch or instance counts now.

    cluster: of this cluster alone; empty: of all.
    """
    for key in sorted(world.inventory.changing):
        change = world.inventory.nodes[key].layout
        if change is not None and change.applying and cluster in {"", key[0]}:
            world.decide(Wish(*key, change.config, change.revision))


def end(world: World, node: Node, reason: str, failure: str = "") -> None:
    """End a node's change, if it has one: the node opens. failure: why it has not the layout, for people."""
    change = node.layout
    if change is None:
        return
    if change.applying:
        world.decide(EndWish(node.cluster, node.name, change.revision, reason))
    _set(world, node, None, failure)


def _set(world: World, node: Node, change: LayoutChange | None, failure: str = "") -> None:
    world.inventory.change_layout(node, change, failure)
    world.touched.nodes[node.key] = None
    world.waiting.wake_pool(node.pool)
