"""Slot groups: devices and MIG slices that a cluster counts and does not tell apart, as the inventory has them.

Called for the nodes of a report before the inventory takes them, and for the records of assignments.
Whole devices are a number of the node (`Node.slots`). MIG slices need devices, since placement, quotas and explanations
know slices by their device: the slices of a node are put on as few devices as can have them. The kubelet alone decides
on which physical card a slice is (reference/kubernetes.md 7.2).
Holds: of each resource no more is offered than the node has, minus what others hold, minus what replicas hold; a slice
that a replica holds does not move; a report that is applied twice to the same inventory gives the same devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from muster_kernel.mig import CARDS, Card, compute_of, starts_that_fit
from muster_kernel.slots import is_mig_profile, mig_family, mig_profile, mig_resource
from muster_scheduler.domain.asked.requests import Kind, Share
from muster_scheduler.domain.fleet.nodes import Device, Node, SlotGroup

MOST_SLICES: Final = 128
"""Offered units of one family on one node at most: sixteen cards with seven slices have 112."""
_PREFIX: Final = "slots:"
_SEVENTHS: Final = 7
_TRIES: Final = 4  # numbers of devices that are tried before the slices are put where they fit first

Piece = tuple[str, int]
"""A slice as (profile, start)."""
Layout = tuple[Piece, ...]


class SlotDevice(NamedTuple):
    """The name of a device of a slot group. `family` is a resource, or `VENDOR/mig-*` for all MIG resources."""

    cluster: str
    node: str
    family: str
    number: int

    def __str__(self) -> str:
        """Return the name that the inventory uses; the name of a reported device never begins like this."""
        return f"{_PREFIX}{self.cluster}/{self.node}/{self.family}/{self.number}"


def is_slot(device: str) -> bool:
    """Return whether a device of the inventory belongs to a slot group."""
    return device.startswith(_PREFIX)


def resource_of(share: Share) -> str:
    """Return the resource of which a share of such a device is one unit."""
    family = share.device.removeprefix(_PREFIX).split("/", 2)[2].rpartition("/")[0]
    return mig_resource(family, share.profile)


def counts_of(shares: Sequence[Share]) -> tuple[tuple[str, int], ...]:
    """Return what a replica holds of its node's slot groups, as (resource, units) by resource."""
    return tuple(sorted(Counter(map(resource_of, shares)).items()))


def add_devices(node: Node, known: Node | None) -> list[str]:
    """Add to a reported node what its slot groups offer; return what cannot be true in them, for people.

    known: the node in the inventory. The groups do not change, so that a report can be applied again.
    """
    node.devices = [device for device in node.devices if not is_slot(device.uuid)]
    groups = [group for group in node.groups if not group.profile or is_mig_profile(group.profile)]
    wrong = [
        f"node {node.name} of cluster {node.cluster} has slots of {group.profile[:60]!r}, and no MIG profile has that "
        "form: they are left out"
        for group in node.groups
        if group not in groups
    ]
    if not groups:
        return wrong
    held = {device.uuid: device for device in known.devices if device.entries and is_slot(device.uuid)} if known else {}
    if any(group.profile for group in groups):
        node.slots = node.foreign_slots = 0
        _add_slices(node, groups, held, known.used_slots if known else 0)
    else:
        # Devices that replicas hold by name were placed while the node had slices.
        named = [share for device in held.values() for share in device.entries.values() if share.kind is Kind.WHOLE]
        node.slots = max(0, sum(group.units for group in groups) - len(named))
        node.foreign_slots = sum(group.foreign for group in groups)
        node.slot_model = groups[0].model
    return wrong


def _add_slices(node: Node, groups: Sequence[SlotGroup], held: Mapping[str, Device], used: int) -> None:
    """Add the devices of a node with MIG slices. used: units held as a number, from before the node had slices."""
    families: dict[str, list[SlotGroup]] = {}
    for group in groups:
        families.setdefault(_family(group), []).append(group)
    for family, members in sorted(families.items()):
        names = [str(SlotDevice(node.cluster, node.name, family, number)) for number in range(MOST_SLICES)]
        make = _sliced if members[0].profile else _whole
        for device in make(names, members, held, used if family in {group.resource for group in members} else 0):
            device.slot = len(node.devices)
            device.tally()
            node.devices.append(device)


def _family(group: SlotGroup) -> str:
    """Return what the resources have in common whose slices may be on one device."""
    return mig_family(group.resource) if group.profile and mig_profile(group.resource) else group.resource


def _whole(
    names: Sequence[str], groups: Sequence[SlotGroup], held: Mapping[str, Device], used: int
) -> Iterator[Device]:
    """Yield a device for each unit: those that replicas hold, those that are free, those of others."""
    group = groups[0]
    ours = [name for name in names if name in held]
    others = [name for name in names if name not in held]
    left = max(0, min(group.units, MOST_SLICES) - used - len(ours))
    free = max(0, left - group.foreign)
    for name in (*ours, *others[:free]):
        yield Device(name, group.model, group.memory, 0)
    for name in others[free:left]:
        yield Device(name, group.model, group.memory, 0, foreign=True)


def _sliced(
    names: Sequence[str], groups: Sequence[SlotGroup], held: Mapping[str, Device], used: int
) -> Iterator[Device]:
    """Yield devices with the slices that replicas hold, where they hold them, and with those that are free."""
    model, memory = groups[0].model, max(group.memory for group in groups)
    taken = [_pieces(held[name]) if name in held else () for name in names]
    while taken and not taken[-1]:
        taken.pop()
    ours = Counter(profile for pieces in taken for profile, _ in pieces)
    free: list[str] = []
    for group in groups:
        units = min(group.units, MOST_SLICES - len(free))
        free += [group.profile] * max(0, units - group.foreign - ours[group.profile] - used)
    for name, layout in zip(names, _packed(model, tuple(taken), tuple(sorted(free))), strict=False):
        if layout:
            yield Device(name, model, memory, 0, mig=True, layout=layout)


def _pieces(device: Device) -> Layout:
    return tuple(sorted({(share.profile, share.start) for share in device.entries.values() if share.profile}))


@lru_cache(maxsize=1024)  # most nodes of a cluster are alike
def _packed(model: str, taken: tuple[Layout, ...], free: tuple[str, ...]) -> tuple[Layout, ...]:
    """Return the layouts of devices that have what is taken and what is free.

    A few numbers of devices are tried, from the least that could have all memory slices on, each slice on the emptiest
    device: that gives the layouts that operators cut. Otherwise each slice goes where it fits first.
    """
    geometry = CARDS.get(model)
    largest_first = sorted(free, key=lambda profile: (-_size(geometry, profile), profile))
    whole = geometry.slices if geometry else _SEVENTHS
    slices = sum(_size(geometry, profile) for profile in (*free, *(name for pieces in taken for name, _ in pieces)))
    least = max(len(taken), -(-slices // whole))
    for count in range(least, least + _TRIES):
        devices = [list(pieces) for pieces in taken] + [[] for _ in range(count - len(taken))]
        if all(_put(devices, geometry, profile) for profile in largest_first):
            return tuple(tuple(sorted(pieces)) for pieces in devices)
    devices = [list(pieces) for pieces in taken]
    for profile in largest_first:
        if not _put(devices, geometry, profile):
            fresh: list[list[Piece]] = [[]]
            if _put(fresh, geometry, profile):  # a slice that no device can have is not offered
                devices += fresh
    return tuple(tuple(sorted(pieces)) for pieces in devices)


def _put(devices: list[list[Piece]], geometry: Card | None, profile: str) -> bool:
    """Put a slice on the emptiest device that can have it; return whether one can."""
    for pieces in sorted(devices, key=lambda pieces: sum(_size(geometry, name) for name, _ in pieces)):
        start = _start(pieces, geometry, profile)
        if start is not None:
            pieces.append((profile, start))
            return True
    return False


def _start(pieces: Sequence[Piece], geometry: Card | None, profile: str) -> int | None:
    """Return the first memory slice that it can have there: as high as possible, since large profiles need low ones."""
    if geometry is None or (known := geometry.profile(profile)) is None:
        # Of a card whose geometry is not known, sevenths alone count.
        used = {start for _, start in pieces}
        room = sum(compute_of(name) for name, _ in pieces) + compute_of(profile) <= _SEVENTHS
        return next((start for start in range(_SEVENTHS) if start not in used), None) if room else None
    taken = 0
    for name, start in pieces:
        other = geometry.profile(name)
        taken |= other.mask(start) if other and start in other.starts else 1 << start
    return max(starts_that_fit(known, taken, sum(name == profile for name, _ in pieces)), default=None)


def _size(geometry: Card | None, profile: str) -> int:
    """Return how much of a card a slice takes: its memory slices, or its sevenths where the geometry is not known."""
    known = geometry.profile(profile) if geometry else None
    return known.memory if known else compute_of(profile)
