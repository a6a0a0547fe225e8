"""With arrivals frozen and nothing ending, evictions come to an end, and the number that proves it falls with each."""

from __future__ import annotations

import random

import pytest

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain.decisions import Claimed, Preempted
from muster_scheduler.domain.room.evictions import may_still_evict
from tests.support.fleets import Fleet, node, portion, request, role, whole, workload_id

_SHAPES = (role(whole(1)), role(whole(2)), role(whole(4)), role(whole(1), size=3), role(portion(500), size=2))


def crowded(rng: random.Random) -> tuple[Fleet, list[int]]:
    """Some projects of two departments, with more work than there is room."""
    fleet = Fleet(*(node(f"n{number}", 4) for number in range(rng.randint(1, 4))), quota=rng.randint(0, 6))
    fleet.department("e", {"default": rng.randint(0, 8)})
    for name in "qrs":
        department = rng.choice("de")
        fleet.project(name, {"default": rng.randint(0, 6)}, department=department, weight=rng.choice((0, 1000, 3000)))
    numbers = list(range(1, rng.randint(5, 25)))
    for number in numbers:
        asked = request(rng.choice(_SHAPES), priority=rng.choice((25, 50, 75)), preemptible=rng.random() < 0.8)
        fleet.submit(number, asked, project=rng.choice("pqrs"))
        fleet.wait(1)
    return fleet, numbers


@pytest.mark.parametrize("seed", range(40))
def test_evictions_come_to_an_end(seed: int) -> None:
    fleet, numbers = crowded(random.Random(seed))
    bound = may_still_evict(fleet.world)
    rounds = 0
    while leaving := [n for n in numbers if fleet.workload(n).phase is Phase.TERMINATING]:
        rounds += 1
        assert rounds <= len(numbers) * (bound + 1), "evictions go on for ever"
        before, seen = may_still_evict(fleet.world), len(fleet.decisions)
        fleet.gone(leaving[0])
        evicted = [d for d in fleet.decisions[seen:] if isinstance(d, Preempted)]
        moved = {each.workload for each in evicted}  # a claim of theirs is for the place to which they move
        takers = {d.workload for d in fleet.decisions[seen:] if isinstance(d, Claimed)} - moved
        assert may_still_evict(fleet.world) <= before - len(takers)
        assert not evicted or takers
    assert not [n for n in numbers if fleet.workload(n).claim]


@pytest.mark.parametrize("seed", range(40))
def test_who_was_evicted_never_evicts_on_its_way_back(seed: int) -> None:
    fleet, numbers = crowded(random.Random(seed))
    while leaving := [n for n in numbers if fleet.workload(n).phase is Phase.TERMINATING]:
        barred = {workload_id(n) for n in numbers if fleet.workload(n).preempted_by}
        seen = len(fleet.decisions)
        fleet.gone(leaving[-1])
        claimed = {d.workload for d in fleet.decisions[seen:] if isinstance(d, Claimed)}
        assert not claimed & barred
