"""Slot groups with MIG slices, as the cards that the books know: devices and slices that a cluster counts only.

Called for the nodes of a report before the books take them, and where an agent is told what a replica holds.
A cluster whose plugin names no devices says how many slices of a profile a node has, and how many others hold. The
books know slices on cards, so the slices of a node are put on the least number of cards that can have them. Which
physical card a slice is on, its kubelet decides.
Holds: of each profile the cards have what the node has, less what others hold; a slice that a replica holds stays where
it is; a node without MIG slices keeps its plain count of devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from muster_kernel.mig import CARDS, Card, compute_of, starts_that_fit
from muster_kernel.slots import MIG_RESOURCE, mig_resource
from muster_scheduler.domain.asked.requests import Share
from muster_scheduler.domain.fleet.nodes import Device, Node, SlotGroup

MOST_UNITS: Final = 256
"""Units of one resource that a node with MIG slices may have; what is above is not offered."""
_PREFIX: Final = "slots:"
_SEVENTHS: Final = 7

Piece = tuple[str, int]
"""A slice as (profile, start)."""
Layout = tuple[Piece, ...]


class Name(NamedTuple):
    """The name of a card that stands for slots; `family` is a resource, or `VENDOR/mig-*` for all MIG resources."""

    cluster: str
    node: str
    family: str
    number: int

    def __str__(self) -> str:
        """As the books have it; no agent names a device like this."""
        return f"{_PREFIX}{self.cluster}/{self.node}/{self.family}/{self.number}"


def is_slot(device: str) -> bool:
    """Whether a device of the books stands for slots."""
    return device.startswith(_PREFIX)


def resource_of(share: Share) -> str:
    """The resource of which a share of such a card is one unit."""
    family = share.device.removeprefix(_PREFIX).split("/", 2)[2].rpartition("/")[0]
    return mig_resource(family, share.profile)


def counts_of(shares: Sequence[Share]) -> tuple[tuple[str, int], ...]:
    """What a replica holds of its node's slot groups, as (resource, units) by resource."""
    return tuple(sorted(Counter(map(resource_of, shares)).items()))


def spread(node: Node, known: Node | None) -> None:
    """Gives a reported node with MIG slot groups the cards that stand for them. known: the node in the books."""
    if not node.groups:
        return
    held = {device.uuid: device for device in known.devices if device.entries} if known else {}
    used = known.used_slots if known else 0  # held as plain counts, from before there were slices
    families: dict[str, list[SlotGroup]] = {}
    for group in node.groups:
        families.setdefault(_family(group), []).append(group)
    for family, groups in sorted(families.items()):
        names = [Name(node.cluster, node.name, family, number) for number in range(MOST_UNITS)]
        sliced = bool(groups[0].profile)
        for card in _sliced(names, groups, held) if sliced else _whole(names, groups[0], held, used):
            card.slot = len(node.devices)
            card.tally()
            node.devices.append(card)


def _family(group: SlotGroup) -> str:
    """What the resources have in common whose slices may lie on one card."""
    vendor, _, word = group.resource.partition("/")
    return f"{vendor}/{MIG_RESOURCE}*" if group.profile and word.startswith(MIG_RESOURCE) else group.resource


def _whole(names: Sequence[Name], group: SlotGroup, held: Mapping[str, Device], used: int) -> Iterator[Device]:
    """A card for each unit. Others' are those with the highest numbers that no replica holds."""
    count = max(0, min(group.units, MOST_UNITS) - used)
    free = [str(name) for name in names[:count] if str(name) not in held]
    foreign = set(free[max(0, len(free) - group.foreign) :]) if group.foreign else set()
    for name in names[:count]:
        yield Device(str(name), group.model, group.memory, 0, foreign=str(name) in foreign)


def _sliced(names: Sequence[Name], groups: Sequence[SlotGroup], held: Mapping[str, Device]) -> Iterator[Device]:
    """The least number of cards that have what is held, where it is held, and what is free."""
    model, memory = groups[0].model, max(group.memory for group in groups)
    taken = [_pieces(held[str(name)]) if str(name) in held else () for name in names]
    while taken and not taken[-1]:
        taken.pop()
    ours = Counter(profile for pieces in taken for profile, _ in pieces)
    free: list[str] = []
    for group in groups:
        free += [group.profile] * max(0, min(group.units, MOST_UNITS) - group.foreign - ours[group.profile])
    layouts = _packed(model, tuple(taken), tuple(sorted(free)))
    for name, layout in zip(names, layouts, strict=False):
        if layout:
            yield Device(str(name), model, memory, 0, mig=True, layout=layout)


def _pieces(card: Device) -> Layout:
    return tuple(sorted({(share.profile, share.start) for share in card.entries.values() if share.profile}))


@lru_cache(maxsize=1024)  # most nodes of a cluster are alike
def _packed(model: str, taken: tuple[Layout, ...], free: tuple[str, ...]) -> tuple[Layout, ...]:
    """The slices that are free beside those that are taken, on the least number of cards that can have them all."""
    geometry = CARDS.get(model)
    largest_first = sorted(free, key=lambda profile: (-_size(geometry, profile), profile))
    whole = geometry.slices if geometry else _SEVENTHS
    slices = sum(_size(geometry, profile) for profile in (*free, *(name for pieces in taken for name, _ in pieces)))
    for count in range(max(len(taken), -(-slices // whole)), len(taken) + len(free) + 1):
        cards = [list(pieces) for pieces in taken] + [[] for _ in range(count - len(taken))]
        if all(_put(cards, geometry, profile) for profile in largest_first):
            return tuple(tuple(sorted(card)) for card in cards)
    return taken


def _put(cards: list[list[Piece]], geometry: Card | None, profile: str) -> bool:
    """Puts a slice on the emptiest card that can have it. False: none can."""
    for card in sorted(cards, key=lambda card: sum(_size(geometry, name) for name, _ in card)):
        start = _start(card, geometry, profile)
        if start is not None:
            card.append((profile, start))
            return True
    return False


def _start(card: Sequence[Piece], geometry: Card | None, profile: str) -> int | None:
    """Where the slice can be on the card: as high as possible, since large profiles need the low slices."""
    if geometry is None or (known := geometry.profile(profile)) is None:
        # Of a card whose geometry is not known, sevenths alone count.
        used = {start for _, start in card}
        room = sum(compute_of(name) for name, _ in card) + compute_of(profile) <= _SEVENTHS
        return next(start for start in range(_SEVENTHS) if start not in used) if room else None
    taken = 0
    for name, start in card:
        other = geometry.profile(name)
        taken |= other.mask(start) if other and start in other.starts else 0
    return max(starts_that_fit(known, taken, sum(name == profile for name, _ in card)), default=None)


def _size(geometry: Card | None, profile: str) -> int:
    """How much of a card a slice takes: its memory slices, or its sevenths where the geometry is not known."""
    known = geometry.profile(profile) if geometry else None
    return known.memory if known else compute_of(profile)
