"""MIG geometry: which profiles a card has, how many slices each takes, and where it may start.

Pure tables and bit arithmetic; called by the scheduler's inventory and by agents that check an assignment.
Holds: an instance is a contiguous run of memory slices at a legal start; a device's state is one bit mask of taken
memory slices, and an instance can be made only where its own mask overlaps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Profile:
    """One MIG profile of one card. `name` is the vendor's, such as `3g.40gb` or `1g.10gb+me`."""

    name: str
    compute: int  # compute slices: sevenths of the card in the accounts
    memory: int  # memory slices: the length of its run
    starts: tuple[int, ...]  # legal first memory slices
    at_most: int  # instances on one card

    def mask(self, start: int) -> int:
        """The memory slices taken from `start`. Raises ValueError for an illegal start."""
        if start not in self.starts:
            raise ValueError(f"{self.name} cannot start at slice {start}; legal starts are {self.starts}")
        return ((1 << self.memory) - 1) << start


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU model with MIG: its memory slices and its profiles by name."""

    model: str
    slices: int
    profiles: dict[str, Profile]

    def profile(self, name: str) -> Profile | None:
        """The profile of that name, or None where this card has none."""
        return self.profiles.get(name)


# (compute, memory, starts, at most) in the order of the name columns below.
_SEVENTHS: Final = (
    (1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
    (1, 2, (0, 2, 4, 6), 4),
    (2, 2, (0, 2, 4), 3),
    (3, 4, (0, 4), 2),
    (4, 4, (0,), 1),
    (7, 8, (0,), 1),
)
_GIGABYTE: Final = 10**9  # bytes: the unit of the vendor's names
_MEBIBYTE: Final = 1 << 20
_A30: Final = ((1, 1, (0, 1, 2, 3), 4), (2, 2, (0, 2), 2), (4, 4, (0,), 1))

_NAMES: Final = {
    "A100-40GB": "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "A100-80GB": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "H100-80GB": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "H100-94GB": "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "GH200-96GB": "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "H20-96GB": "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "H200-141GB": "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "B200-180GB": "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "GB200-186GB": "1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    "B300": "1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "GB300": "1g.35gb 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
}


def _card(
    model: str,
    slices: int,
    names: Iterable[str],
    shapes: tuple[tuple[int, int, tuple[int, ...], int], ...],
    media: frozenset[str],
) -> Card:
    profiles: dict[str, Profile] = {}
    for name, (compute, memory, starts, at_most) in zip(names, shapes, strict=True):
        profiles[name] = Profile(name, compute, memory, starts, at_most)
        if name in media:
            profiles[f"{name}+me"] = Profile(f"{name}+me", compute, memory, starts, 1)
    return Card(model, slices, profiles)


def _cards() -> dict[str, Card]:
    cards = {
        model: _card(model, 8, names.split(), _SEVENTHS, frozenset(names.split()[:1]))
        for model, names in _NAMES.items()
    }
    cards["A30-24GB"] = _card("A30-24GB", 4, ("1g.6gb", "2g.12gb", "4g.24gb"), _A30, frozenset({"1g.6gb", "2g.12gb"}))
    return cards


CARDS: Final = _cards()


def memory_of(card: Card, profile: Profile, total: int = 0) -> int:
    """Bytes that an instance of the profile has at least, on a card of which its agent reports `total` (0: unknown).

    What its name says, in units of 10^9: 1g.5gb of an A100-40GB has 4.75 GiB, a little less than its eighth. Names are
    rounded up on some cards (1g.18gb of an H200-141GB), so it is never more than its part of the whole. Whole MiB.
    """
    named = int(profile.name.partition("g.")[2].partition("gb")[0]) * _GIGABYTE
    part = min(named, total * profile.memory // card.slices) if total else named
    return part // _MEBIBYTE * _MEBIBYTE


def smallest_for(card: Card, amount: int, total: int = 0) -> Profile | None:
    """The profile of a card with the least compute, then the least memory, that has so many bytes; None: none has.

    Those with media engines are left to who asks for them by name.
    """
    plain = (each for each in card.profiles.values() if not each.name.endswith("+me"))
    large = [each for each in plain if memory_of(card, each, total) >= amount]
    return min(large, key=lambda each: (each.compute, each.memory), default=None)


def overlap_free(card: Card, layout: Iterable[tuple[str, int]]) -> bool:
    """Whether a card can have exactly these (profile, start) instances at once."""
    taken = 0
    present: dict[str, int] = {}
    for name, start in layout:
        profile = card.profile(name)
        if profile is None or start not in starts_that_fit(profile, taken, present.get(name, 0)):
            return False
        taken |= profile.mask(start)
        present[name] = present.get(name, 0) + 1
    return True


def starts_that_fit(profile: Profile, taken: int, present: int = 0) -> tuple[int, ...]:
    """The legal starts of `profile` on a card whose mask of taken memory slices is `taken`, lowest first.

    `present`: instances of this very profile that the card already has (the `at most` column).
    """
    if present >= profile.at_most:
        return ()
    run = (1 << profile.memory) - 1
    return tuple(start for start in profile.starts if not taken & (run << start))


def best_start(card: Card, profile: Profile, taken: int, present: int = 0) -> int | None:
    """The start that leaves the most room for others, or None where the profile does not fit.

    Room is the number of (profile, start) pairs of the card still free afterwards; ties go to the highest start, since
    the large profiles need the low ones.
    """
    fitting = starts_that_fit(profile, taken, present)
    if not fitting:
        return None
    return max(fitting, key=lambda start: (room(card, taken | profile.mask(start)), start))


def room(card: Card, taken: int) -> int:
    """How many (profile, start) pairs, weighted by their memory slices, a card with `taken` slices could still make."""
    return sum(p.memory * len(starts_that_fit(p, taken)) for p in card.profiles.values())


def compute_of(name: str) -> int:
    """Compute slices of a profile name, from its own head (`3g.40gb` -> 3). Raises ValueError for any other text."""
    head, separator, _ = name.partition("g.")
    if not separator or not head.isdecimal():
        raise ValueError(f"{name!r} is no MIG profile; expected a name such as 3g.40gb")
    return int(head)
