"""Every way in which a MIG card can be cut: legal layouts, the maximal ones, and the sets of profiles that fit.

Called by the verb `muster mig` and by the property that the allocator reaches every one of them. A layout is placed
instances, (profile, first memory slice) in the order of their starts; the empty one is legal. Pure; the geometry is
the kernel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from muster_kernel.mig import Card, starts_that_fit

Layout = tuple[tuple[str, int], ...]


class Layouts(NamedTuple):
    """What a card can be cut into by these profiles. `maximal`: those to which none of the profiles can be added."""

    profiles: tuple[str, ...]
    legal: tuple[Layout, ...]
    maximal: tuple[Layout, ...]
    legal_sets: tuple[tuple[str, ...], ...]


def profiles_of(card: Card, *, media: bool) -> tuple[str, ...]:
    """The card's profiles in its own order; `media`: with those that carry the media extensions (`+me`)."""
    return tuple(name for name in card.profiles if media or not name.endswith("+me"))


def taken(card: Card, layout: Layout) -> int:
    """The mask of the memory slices that a layout takes."""
    mask = 0
    for name, start in layout:
        mask |= card.profiles[name].mask(start)
    return mask


def may_join(card: Card, layout: Layout, name: str) -> tuple[int, ...]:
    """The starts at which one more instance of this profile can be made."""
    present = sum(1 for other, _ in layout if other == name)
    return starts_that_fit(card.profiles[name], taken(card, layout), present)


def enumerate_layouts(card: Card, profiles: Sequence[str]) -> Layouts:
    """All layouts of the card that use these profiles. Raises KeyError for a profile that it has not."""
    legal = _legal(card, profiles)
    maximal = [layout for layout in legal if not any(may_join(card, layout, name) for name in profiles)]
    order = {name: at for at, name in enumerate(profiles)}
    sets = {tuple(sorted((name for name, _ in layout), key=order.__getitem__)) for layout in legal}
    by_size = sorted(sets, key=lambda names: (len(names), [order[name] for name in names]))
    return Layouts(tuple(profiles), tuple(legal), tuple(maximal), tuple(by_size))


def _legal(card: Card, profiles: Sequence[str]) -> list[Layout]:
    """Grown from the left: an instance is added only beyond those that are there, so that each layout is met once."""
    found: list[Layout] = [()]
    for layout in found:  # grows while it is walked, and each step takes slices of a card that has few
        beyond = max((start for _, start in layout), default=-1)
        found += [
            (*layout, (name, start))
            for name in profiles
            for start in may_join(card, layout, name)
            if start > beyond
        ]  # fmt: skip
    return sorted(found, key=lambda layout: (len(layout), [start for _, start in layout], layout))
