"""Inventory that contradicts itself: what cannot be true is left out or closed and said; the rest of the report counts.

Called by the fleet for the nodes of a report, before the books take them. Works on these nodes in place: a report is
its reader's own.
Holds: afterwards no device is open on two nodes, and none whose MIG layout no card could have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster_kernel.mig import overlap_free
from muster_scheduler.domain.books.inventory import Inventory, NodeKey
from muster_scheduler.domain.fleet.nodes import Device, Node
from muster_scheduler.domain.fleet.slots import is_slot


def settle(inventory: Inventory, nodes: Sequence[Node]) -> list[str]:
    """Leaves out and closes what contradicts itself or the books. What it was, for people."""
    found: list[str] = []
    for node in nodes:
        found += _without_repeats(node)
    owners = _owners(inventory, nodes)
    for node in nodes:
        found += _closed(node, owners)
    return found


def _without_repeats(node: Node) -> list[str]:
    found: list[str] = []
    known: dict[str, Device] = {}
    for device in node.devices:
        if not device.uuid:
            found.append(f"{_place(node.key)} reports a device without a name: it is left out")
        elif device.uuid in known:
            found.append(f"{_place(node.key)} reports device {device.uuid} twice: the first one counts")
        else:
            known[device.uuid] = device
    node.devices[:] = known.values()
    return found


def _owners(inventory: Inventory, nodes: Sequence[Node]) -> dict[str, NodeKey]:
    """On which node each reported device is open: where it was, as long as that node has it; else the first one's."""
    having = {node.key: {device.uuid for device in node.devices if device.healthy} for node in nodes}
    owners: dict[str, NodeKey] = {}
    for node in nodes:
        for device in node.devices:
            before = inventory.owner(device.uuid)
            if before is None or _left(inventory, device.uuid, before, having):
                owners.setdefault(device.uuid, node.key)
            else:
                owners[device.uuid] = before
    return owners


def _left(inventory: Inventory, uuid: str, owner: NodeKey, having: Mapping[NodeKey, set[str]]) -> bool:
    """Whether the report takes a device away from the node on which it was, and nothing is charged to it there."""
    device = inventory.nodes[owner].device(uuid)
    return owner in having and uuid not in having[owner] and (device is None or not device.entries)


def _closed(node: Node, owners: Mapping[str, NodeKey]) -> list[str]:
    found: list[str] = []
    for device in node.devices:
        trouble = _trouble(node, device, owners[device.uuid])
        if trouble and device.healthy:
            device.healthy = False
            device.tally()
            found.append(f"{_place(node.key)}, device {device.uuid}: {trouble}; it is given to nobody")
    return found


def _trouble(node: Node, device: Device, owner: NodeKey) -> str:
    if owner != node.key:
        return f"{_place(owner)} has it as well"
    if device.layout and not device.mig:
        return "it has MIG slices, and MIG is off"
    if is_slot(device.uuid):  # its slices may be on several cards
        return ""
    if device.layout and device.card is not None and not overlap_free(device.card, device.layout):
        slices = ", ".join(f"{profile} at {start}" for profile, start in device.layout)
        return f"no {device.model} can have the slices {slices[:200]}"
    return ""


def _place(key: NodeKey) -> str:
    return f"node {key[1]} of cluster {key[0]}"
