"""Devices that a driver lists by ResourceSlices (resource.k8s.io/v1), as devices with UUIDs (kubernetes.md 7.1).

Called by the Kubernetes back end after each change of a slice. Pure.
Holds: a pool counts only once all slices of its newest generation are there; a device without a UUID, and one that is
only a part of a card, is never offered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.kubernetes.amounts import quantity
from muster_kernel.cards import card_of

Json = Mapping[str, Any]
_TYPE: Final = "type"
_NO_NEW: Final = "NoSchedule"
_NOTHING: Final = "NoExecute"
_DIGITS: Final = re.compile(r"([0-9]+)")
GONE: Final = "its driver does not list it any more"


@dataclass(frozen=True, slots=True)
class DeviceNames:
    """How the drivers of a cluster name what Muster needs, as the cluster file says.

    driver: whose slices list the devices. device_class: of the claims for them. uuid, model: attributes; memory: a
    capacity; each may be `DOMAIN/NAME`, and belongs to the driver's own domain otherwise. whole: values of the
    attribute `type` that a whole device has; a device without this attribute is whole.
    """

    driver: str = "gpu.nvidia.com"
    device_class: str = "gpu.nvidia.com"
    uuid: str = "uuid"
    model: str = "productName"
    memory: str = "memory"
    whole: tuple[str, ...] = ("gpu",)

    def qualified(self, name: str) -> tuple[str, str]:
        """Return the domain and the bare name of an attribute or a capacity."""
        domain, found, bare = name.partition("/")
        return (domain, bare) if found else (self.driver, name)


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """By what an allocation names a device; its driver is known."""

    pool: str
    name: str


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device of a slice. taint: the key of a taint that closes it. evicts: what has it must not go on."""

    key: DeviceKey
    uuid: str
    model: str
    memory: int
    taint: str = ""
    evicts: bool = False


@dataclass(frozen=True, slots=True)
class DeviceSlice:
    """A part of a pool. count: the slices that the pool has in this generation. parts: devices that are not whole."""

    node: str
    pool: str
    generation: int
    count: int
    devices: tuple[ListedDevice, ...]
    parts: int = 0


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """All devices of a node that its complete pools list, and those of pools that are not listed now.

    pools: names of the complete ones. missing: UUIDs of the devices that no pool lists now. parts: devices that are
    left out since they are only parts of a card.
    """

    devices: tuple[ListedDevice, ...] = ()
    pools: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    parts: int = 0


def slice_of(raw: Json, names: DeviceNames) -> DeviceSlice | None:
    """Return a slice of its JSON; None for another driver's, and for one whose devices belong to no single node.

    Raises ValueError, KeyError or TypeError for one that is not whole.
    """
    spec = raw["spec"]
    node, pool = spec.get("nodeName", ""), spec["pool"]
    if spec["driver"] != names.driver or not node:
        return None
    listed = spec.get("devices") or ()
    whole = [one for one in listed if _attribute(one, _TYPE, names) in {"", *names.whole}]
    named = [found for one in whole if (found := _device(one, pool["name"], names)) is not None]
    return DeviceSlice(
        node=node,
        pool=pool["name"],
        generation=int(pool.get("generation", 0)),
        count=int(pool["resourceSliceCount"]),
        devices=tuple(named),
        parts=len(listed) - len(whole),
    )


def devices_of(slices: Iterable[DeviceSlice], before: NodeDevices | None = None) -> NodeDevices:
    """Return the devices of one node, of its slices.

    before: what it had. A driver that starts again takes its slices away for a while, and a pool that it publishes anew
    is not complete at first: what such a pool had is kept as missing.
    """
    pools: dict[str, list[DeviceSlice]] = {}
    for one in slices:
        pools.setdefault(one.pool, []).append(one)
    complete: list[DeviceSlice] = []
    for _, members in sorted(pools.items()):
        newest = max(one.generation for one in members)
        current = [one for one in members if one.generation == newest]
        if {one.count for one in current} == {len(current)}:
            complete += current
    listed = frozenset(one.pool for one in complete)
    devices = {device.uuid: device for one in complete for device in one.devices}
    known = before.devices if before is not None else ()
    missing = {each.uuid: each for each in known if each.key.pool not in listed and each.uuid not in devices}
    return NodeDevices(
        tuple(sorted((devices | missing).values(), key=lambda each: (each.key.pool, _natural(each.key.name)))),
        listed,
        frozenset(missing),
        sum(one.parts for one in complete),
    )


def without_missing(here: NodeDevices) -> NodeDevices:
    """Return a node without the devices that no pool lists now."""
    listed = tuple(each for each in here.devices if each.uuid not in here.missing)
    return replace(here, devices=listed, missing=frozenset())


def reported(here: NodeDevices) -> tuple[Device, ...]:
    """Return the devices of a node as the inventory has them."""
    return tuple(
        Device(
            uuid=device.uuid,
            model=device.model,
            memory_bytes=device.memory,
            slot=slot,
            healthy=not (trouble := _trouble(device, here.missing)),
            trouble=trouble,
        )
        for slot, device in enumerate(here.devices)
    )


def _trouble(device: ListedDevice, missing: Collection[str]) -> str:
    if device.uuid in missing:
        return GONE
    return f"its driver has tainted it: {device.taint}" if device.taint else ""


def _device(raw: Json, pool: str, names: DeviceNames) -> ListedDevice | None:
    """Return a device of its JSON; None where no attribute says its UUID."""
    uuid = _attribute(raw, names.uuid, names)
    if not uuid:
        return None
    amount = _found(raw.get("capacity"), names.memory, names).get("value")
    memory = int(quantity(str(amount))) if amount else 0
    taints = {one["effect"]: one["key"] for one in raw.get("taints") or ()}
    return ListedDevice(
        key=DeviceKey(pool, raw["name"]),
        uuid=uuid,
        model=card_of(_attribute(raw, names.model, names), memory),
        memory=memory,
        taint=taints.get(_NOTHING) or taints.get(_NO_NEW) or "",
        evicts=_NOTHING in taints,
    )


def _attribute(raw: Json, name: str, names: DeviceNames) -> str:
    """Return an attribute's text; empty where the device has none."""
    return str(_found(raw.get("attributes"), name, names).get("string", ""))


def _found(said: Json | None, name: str, names: DeviceNames) -> Json:
    """Return the value of an attribute, whose name may be written with its domain or, for the driver's own, without."""
    domain, bare = names.qualified(name)
    entries = said or {}
    found: Json = entries.get(f"{domain}/{bare}") or (entries.get(bare) if domain == names.driver else None) or {}
    return found


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Order gpu-2 before gpu-10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name))
