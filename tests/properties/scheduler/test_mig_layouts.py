"""Every legal MIG layout can be reached by the allocator.

Reached by requests alone: every set of profiles that is legal at all is given in full to some order of requests (the
largest first), so that the allocator's choice of starts loses no legal set. Reached as workloads come and go: every
placed layout, start by start, is met by some sequence of requests and releases.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from muster_kernel.mig import CARDS, Card, best_start
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.books.inventory import Inventory
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Mig
from muster_scheduler.domain.journal import Journal
from muster_scheduler.planning.layouts import Layout, Layouts, enumerate_layouts, profiles_of, taken
from tests.support.fleets import devices, mig_slice, node

# One card of each geometry: the others differ in names alone.
MODELS = ("A100-40GB", "A30-24GB")
EVERY = [(model, media) for model in MODELS for media in (False, True)]


def layouts(model: str, *, media: bool) -> Layouts:
    return enumerate_layouts(CARDS[model], profiles_of(CARDS[model], media=media))


def after(card: Card, layout: Layout, name: str) -> Layout | None:
    present = sum(1 for other, _ in layout if other == name)
    start = best_start(card, card.profiles[name], taken(card, layout), present)
    return None if start is None else tuple(sorted((*layout, (name, start)), key=lambda each: each[1]))


@pytest.mark.parametrize(("model", "media"), EVERY)
def test_every_placed_layout_is_met_as_workloads_come_and_go(model: str, media: bool) -> None:
    card, found = CARDS[model], layouts(model, media=media)
    met: dict[Layout, None] = {(): None}
    queue: list[Layout] = [()]
    for layout in queue:
        come = (after(card, layout, name) for name in found.profiles)
        gone = (layout[:at] + layout[at + 1 :] for at in range(len(layout)))
        for following in (*come, *gone):
            if following is not None and following not in met:
                met[following] = None
                queue.append(following)
    assert set(met) == set(found.legal)


@pytest.mark.parametrize(("model", "media"), EVERY)
def test_every_legal_set_is_given_by_the_inventory(model: str, media: bool) -> None:
    card, found = CARDS[model], layouts(model, media=media)
    for names in found.legal_sets:
        inventory = Inventory(Journal())
        host = node("n", cards=devices("n", 1, model=model, memory=1 << 35, mig=True))
        inventory.put_nodes([host])
        for at, name in enumerate(sorted(names, key=lambda each: -card.profiles[each].memory)):
            grant = fit(host, mig_slice(name), Mig.DYNAMIC)
            assert isinstance(grant, Grant), f"{name} of {names}"
            inventory.charge(Holder(f"w{at}", 1, 1, "worker", 0, 0), host.key, grant)
        assert host.devices[0].mask.bit_count() == sum(card.profiles[name].memory for name in names)


@pytest.mark.parametrize("model", MODELS)
def test_legal_is_what_brute_force_finds(model: str) -> None:
    card = CARDS[model]
    profiles = profiles_of(card, media=False)
    placed = [(name, start) for name in profiles for start in card.profiles[name].starts]
    most = 7 if model == "A30-24GB" else 3
    expected = {
        tuple(sorted(chosen, key=lambda each: each[1]))
        for size in range(most + 1)
        for chosen in combinations(placed, size)
        if _legal(card, chosen)
    }
    assert {layout for layout in layouts(model, media=False).legal if len(layout) <= most} == expected


def _legal(card: Card, chosen: tuple[tuple[str, int], ...]) -> bool:
    slices = [slot for name, start in chosen for slot in range(start, start + card.profiles[name].memory)]
    counts = {name: sum(1 for other, _ in chosen if other == name) for name, _ in chosen}
    return len(slices) == len(set(slices)) and all(counts[name] <= card.profiles[name].at_most for name in counts)
