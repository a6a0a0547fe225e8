"""Can the devices of one node hold these replicas of several roles together? Exactly, with the shares that they get.

Called by packing.py for one node at a time. A replica takes one share each of distinct devices: a whole card, a part of
one, or a MIG slice; a card serves one of these three only.
Holds: counts c of shares a device, none above the replicas of its role, that add up to replicas x devices can always be
dealt out (see counts.together), so that only counts are searched: device after device, states met before are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from muster_kernel.mig import CARDS, starts_that_fit
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.columns import CARD_NAMES, IDLE, SHARED, SLICED, SLOTS, Columns, media_bit
from muster_scheduler.domain.fleet.taking import amounts
from muster_scheduler.domain.gangs.runs import Unit

Vector = tuple[int, ...]
_COMPARED: Final = 128  # ways to serve one device


@dataclass(slots=True)
class Steps:
    """Work that a search may do; it ends where they are spent, and says so."""

    left: int

    def use(self, steps: int) -> None:
        """Takes steps."""
        self.left -= steps

    @property
    def spent(self) -> bool:
        """Whether the search has to end."""
        return self.left <= 0


class Device(NamedTuple):
    """One slot as the columns have it."""

    slot: int
    mode: int
    milli: int
    bytes: int
    size: int
    mask: int
    media: int
    card: str


Devices = tuple[Device, ...]


class Deal(NamedTuple):
    """Shares of one device: how many of each role, and at which memory slices (0 where it is no slice)."""

    counts: Vector
    starts: tuple[tuple[int, ...], ...]


def devices_of(columns: Columns, row: int) -> Devices:
    """The devices of a node that can serve somebody."""
    names = ("mode", "milli", "bytes", "size", "mask", "media")
    values = [range(SLOTS), *(getattr(columns, name)[row].tolist() for name in names)]
    cards = [CARD_NAMES[card] if card >= 0 else "" for card in columns.card[row].tolist()]
    found = map(Device, *values, cards)
    return tuple(device for device in found if device.mode in {IDLE, SHARED, SLICED})


def hold(devices: Devices, shapes: list[Shape], replicas: Vector, steps: Steps) -> tuple[tuple[Unit, ...], ...] | None:
    """Shares for each role, device after device, or None where the devices do not hold them (or steps are spent).

    Whole anonymous devices have no shares: they are held where no device stands in a slot.
    """
    anonymous = not any(device.mode == IDLE for device in devices)
    counted = [s.kind is not Kind.NONE and not (anonymous and s.kind is Kind.WHOLE) for s in shapes]
    wanted = tuple(s.devices * n if c else 0 for s, n, c in zip(shapes, replicas, counted, strict=True))
    dealt = _deal(devices, 0, wanted, shapes, replicas, steps, set())
    if dealt is None:
        return None
    return tuple(
        tuple((slot, start) for slot, deal in dealt for start in deal.starts[role]) for role in range(len(shapes))
    )


def _deal(
    devices: Devices,
    at: int,
    wanted: Vector,
    shapes: list[Shape],
    most: Vector,
    steps: Steps,
    dead: set[tuple[int, Vector]],
) -> list[tuple[int, Deal]] | None:
    if not any(wanted):
        return []
    steps.use(1)
    if at == len(devices) or (at, wanted) in dead or steps.spent:
        return None
    caps = tuple(min(left, n) for left, n in zip(wanted, most, strict=True))
    for deal in deals(devices[at], shapes, caps, steps):
        left = tuple(a - b for a, b in zip(wanted, deal.counts, strict=True))
        rest = _deal(devices, at + 1, left, shapes, most, steps, dead)
        if rest is not None:
            return [(devices[at].slot, deal), *rest]
    dead.add((at, wanted))
    return None


def deals(device: Device, shapes: list[Shape], caps: Vector, steps: Steps) -> list[Deal]:
    """What one device can serve, no role above its cap: those that no other beats, and nothing where that is all.

    Of very many not even those that others beat are left out: comparing them all would cost more than trying some.
    """
    found: dict[Vector, Deal] = {(0,) * len(shapes): Deal((0,) * len(shapes), ((),) * len(shapes))}
    shared = _shared(device, shapes, caps, steps)
    for deal in (*_whole(device, shapes, caps), *shared, *_sliced(device, shapes, caps)):
        found.setdefault(deal.counts, deal)
    if len(found) > _COMPARED:
        return list(found.values())
    return [deal for counts, deal in found.items() if not any(_beats(other, counts) for other in found)]


def _beats(other: Vector, counts: Vector) -> bool:
    return other != counts and all(a >= b for a, b in zip(other, counts, strict=True))


def _whole(device: Device, shapes: list[Shape], caps: Vector) -> Iterator[Deal]:
    if device.mode != IDLE:
        return
    for role, shape in enumerate(shapes):
        if shape.kind is Kind.WHOLE and caps[role]:
            yield _dealt(tuple(int(role == other) for other in range(len(shapes))))


def _dealt(counts: Vector) -> Deal:
    return Deal(counts, tuple((0,) * count for count in counts))


def _shared(device: Device, shapes: list[Shape], caps: Vector, steps: Steps) -> Iterator[Deal]:
    if device.mode not in {IDLE, SHARED}:
        return
    shared = [
        role for role, s in enumerate(shapes) if s.kind is Kind.PORTION or (s.kind is Kind.MEMORY and device.size > 0)
    ]
    yield from map(_dealt, _parts(device, shapes, caps, shared, (device.milli, device.bytes), steps))


def _parts(
    device: Device, shapes: list[Shape], caps: Vector, roles: list[int], left: tuple[int, int], steps: Steps
) -> Iterator[Vector]:
    """Counts of these roles that fit beside each other into what is left of the card; of the last one the most."""
    if not roles:
        yield (0,) * len(shapes)
        return
    role, *others = roles
    milli, amount = amounts(shapes[role], device.size)
    most = _most(caps[role], (milli, amount), left)
    for count in range(most if not others else 0, most + 1):
        steps.use(1)
        if steps.spent:
            return
        rest = left[0] - count * milli, left[1] - count * amount
        for vector in _parts(device, shapes, caps, others, rest, steps):
            yield tuple(count if other == role else n for other, n in enumerate(vector))


def _most(cap: int, each: tuple[int, int], left: tuple[int, int]) -> int:
    bounds = (max(0, free) // one for one, free in zip(each, left, strict=True) if one)
    return min((cap, *bounds))


def _sliced(device: Device, shapes: list[Shape], caps: Vector) -> Iterator[Deal]:
    if device.mode != SLICED or not device.card:
        return
    profiles = tuple(s.profile if s.kind is Kind.SLICE else "" for s in shapes)
    yield from _layouts(device.card, device.mask, device.media, profiles, caps)


@cache
def _layouts(card: str, mask: int, media: int, profiles: tuple[str, ...], caps: Vector) -> tuple[Deal, ...]:
    """All counts of these profiles that still fit on a card, each with one layout that does it."""
    found: dict[Vector, Deal] = {}
    _extend(card, mask, media, profiles, caps, Deal((0,) * len(profiles), ((),) * len(profiles)), found)
    return tuple(found.values())


def _extend(
    card: str, mask: int, media: int, profiles: tuple[str, ...], caps: Vector, deal: Deal, found: dict[Vector, Deal]
) -> None:
    for role, name in enumerate(profiles):
        known = CARDS[card].profile(name)
        bit = media_bit(card, name)
        if known is None or deal.counts[role] >= caps[role] or media & bit:
            continue
        for start in starts_that_fit(known, mask):
            if deal.starts[role] and start < deal.starts[role][-1]:
                continue  # the same slices in another order
            counts = tuple(n + (other == role) for other, n in enumerate(deal.counts))
            starts = tuple((*s, start) if other == role else s for other, s in enumerate(deal.starts))
            found.setdefault(counts, Deal(counts, starts))
            _extend(card, mask | known.mask(start), media | bit, profiles, caps, Deal(counts, starts), found)
