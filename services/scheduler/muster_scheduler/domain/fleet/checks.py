"""Whether what a node counts agrees with what its entries and devices hold. For tests and `check()` alone."""

from __future__ import annotations

from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Holder, Kind, Share
from muster_scheduler.domain.fleet.nodes import Device, Node


def check_node(node: Node, promised: frozenset[Holder]) -> None:
    """Raises AssertionError where they do not, or something is given twice; `promised`: holders of claims."""
    cpu = sum(grant.cpu for grant in node.entries.values())
    memory = sum(grant.memory for grant in node.entries.values())
    slots = sum(grant.slots for grant in node.entries.values())
    if (cpu, memory, slots) != (node.used_cpu, node.used_memory, node.used_slots):
        raise AssertionError(f"{node.key} counts {node.used_cpu}, {node.used_memory}, {node.used_slots} as used")
    extra: dict[str, int] = {}
    for grant in node.entries.values():
        for name, amount in grant.extra:
            extra[name] = extra.get(name, 0) + amount
    if extra != node.used_extra:
        raise AssertionError(f"{node.key} counts {node.used_extra} as used, its entries {extra}")
    charged = {(h, s.device): s for h, grant in node.entries.items() for s in grant.shares}
    booked = {(h, device.uuid): s for device in node.devices for h, s in device.entries.items()}
    if charged != booked:
        raise AssertionError(f"{node.key}: node and devices disagree: {set(charged) ^ set(booked)}")
    for device in node.devices:
        leaving = any(holder in promised for holder in device.entries)
        groups = (
            [s for h, s in device.entries.items() if h not in promised],
            [s for h, s in device.entries.items() if h in promised],
        )
        for shares in groups if leaving else (list(device.entries.values()),):
            _check_device(node, device, shares)


def _check_device(node: Node, device: Device, shares: list[Share]) -> None:
    kinds = {("shared" if s.kind in {Kind.PORTION, Kind.MEMORY} else s.kind.value) for s in shares}
    if len(kinds) > 1:
        raise AssertionError(f"{node.key} {device.uuid} serves {sorted(kinds)} at once")
    if kinds == {"whole"} and len(shares) > 1:
        raise AssertionError(f"{node.key} {device.uuid} is given as a whole {len(shares)} times")
    used = sum(s.bytes for s in shares)
    if kinds == {"shared"} and (sum(s.milli for s in shares) > MILLI or (device.memory and used > device.memory)):
        raise AssertionError(f"{node.key} {device.uuid} is over-given: {shares}")
    mask = 0
    for share in shares:
        if mask & share.mask:
            raise AssertionError(f"{node.key} {device.uuid}: overlapping slices {shares}")
        mask |= share.mask
