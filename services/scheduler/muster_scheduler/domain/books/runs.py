"""Many grants written into one node at the cost of one: what a gang or a batch of single replicas puts there.

Called by the inventory, which notes the undo and tells the capacity index. Devices are counted anew once each.
Holds: what takes back is the exact inverse of what puts; nobody in a run held anything of the node before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from muster_scheduler.domain.asked.requests import Amounts, Grant, Holder, Share
from muster_scheduler.domain.fleet.nodes import Device, Node

Charge = tuple[Holder, Grant]
_SEVERAL: Final = 3


def put_run(node: Node, charges: Sequence[Charge]) -> None:
    """Books every grant. Raises KeyError for a share of a device that the node does not have."""
    for holder, grant in charges:
        node.entries[holder] = grant
        _count(node, grant, 1)
    _tally(_booked(node, charges))


def put_many(nodes: Sequence[Node], holders: Sequence[Holder], grants: Sequence[Grant]) -> None:
    """Books one grant a row, each on its node; a node may come many times. As `put_run` otherwise."""
    beyond: list[tuple[Node, Holder, Grant]] = []
    for node, holder, grant in zip(nodes, holders, grants, strict=True):
        cpu, memory, shares, slots, _, extra = grant
        node.entries[holder] = grant
        node.used_cpu += cpu
        node.used_memory += memory
        if shares or slots or extra:
            beyond.append((node, holder, grant))
    _put_devices(beyond)


def take_back_many(nodes: Sequence[Node], holders: Sequence[Holder], grants: Sequence[Grant]) -> None:
    """Undoes `put_many`."""
    for node, holder, grant in zip(nodes, holders, grants, strict=True):
        take_back_run(node, ((holder, grant),))


def _put_devices(rows: Iterable[tuple[Node, Holder, Grant]]) -> None:
    """Books what grants have beside CPU and memory."""
    touched: dict[str, Device] = {}
    for node, holder, grant in rows:
        node.used_slots += grant.slots
        if grant.extra:
            count_extra(node, (), grant.extra)
        find = finder(node, len(grant.shares))
        for share in grant.shares:
            device = find(share.device)
            if device is None:
                raise KeyError(share.device)
            device.entries[holder] = share
            touched[device.uuid] = device
    _tally(touched.values())


def finder(node: Node, devices: int) -> Callable[[str], Device | None]:
    """Who finds so many of a node's devices by their UUID: for one alone a look at each is the cheapest."""
    if devices < _SEVERAL:
        return node.device
    return {device.uuid: device for device in node.devices}.get


def take_back_run(node: Node, charges: Sequence[Charge]) -> None:
    """Undoes `put_run`."""
    for holder, grant in charges:
        del node.entries[holder]
        _count(node, grant, -1)
    _tally(_removed(node, charges))


def _booked(node: Node, charges: Sequence[Charge]) -> Iterable[Device]:
    devices = _devices(node, charges)
    touched: dict[str, Device] = {}
    for holder, share in _shares(charges):
        device = touched[share.device] = devices[share.device]
        device.entries[holder] = share
    return touched.values()


def _removed(node: Node, charges: Sequence[Charge]) -> Iterable[Device]:
    devices = _devices(node, charges)
    touched: dict[str, Device] = {}
    for holder, share in _shares(charges):
        device = touched[share.device] = devices[share.device]
        del device.entries[holder]
    return touched.values()


def _devices(node: Node, charges: Sequence[Charge]) -> dict[str, Device]:
    if not any(grant.shares for _, grant in charges):
        return {}
    return {device.uuid: device for device in node.devices}


def _shares(charges: Sequence[Charge]) -> Iterable[tuple[Holder, Share]]:
    return ((holder, share) for holder, grant in charges for share in grant.shares)


def _tally(devices: Iterable[Device]) -> None:
    for device in devices:
        device.tally()


def _count(node: Node, grant: Grant, times: int) -> None:
    node.used_cpu += times * grant.cpu
    node.used_memory += times * grant.memory
    node.used_slots += times * grant.slots
    if grant.extra:
        count_extra(node, (), tuple((name, times * amount) for name, amount in grant.extra))


def count_extra(node: Node, before: Amounts, after: Amounts) -> None:
    """Moves what is used of named resources; one of which nothing is used any more is not named."""
    for name, change in [*((name, -amount) for name, amount in before), *after]:
        used = node.used_extra.get(name, 0) + change
        if used:
            node.used_extra[name] = used
        else:
            node.used_extra.pop(name, None)
