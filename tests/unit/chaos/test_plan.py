"""A chaos plan is fixed by its seed and reaches everything."""

from __future__ import annotations

import pytest

from tests.chaos.plan import ON_KUBERNETES, WIPE, draw, draw_on_kubernetes

CLUSTERS = ("alpha", "beta")


def test_the_same_seed_gives_the_same_plan() -> None:
    assert draw(7, 200, 30, CLUSTERS) == draw(7, 200, 30, CLUSTERS)
    assert draw(7, 200, 30, CLUSTERS) != draw(8, 200, 30, CLUSTERS)


@pytest.mark.parametrize("seed", range(20))
def test_thirty_kills_reach_every_target_and_empty_kafka_once(seed: int) -> None:
    plan = draw(seed, 200, 30, CLUSTERS)
    targets = [kill.target for kill in plan.kills]
    assert len(plan.kills) == 30
    assert len(plan.arrivals) == 200
    assert targets.count(WIPE) == 1
    assert WIPE not in {targets[0], targets[-1]}
    assert len({*targets, WIPE}) >= 10
    assert all(b.at - a.at >= 4.0 for a, b in zip(plan.kills, plan.kills[1:], strict=False))
    assert {a.shape for a in plan.arrivals} == {"training", "failing", "gang", "mpi", "inference", "suspended"}


@pytest.mark.parametrize("seed", range(20))
def test_on_kubernetes_every_part_is_killed_and_frozen(seed: int) -> None:
    plan = draw_on_kubernetes(seed, 100, 30)
    assert plan == draw_on_kubernetes(seed, 100, 30)
    hits = {(kill.target, kill.frozen > 0) for kill in plan.kills}
    assert {(target, frozen) for target in ON_KUBERNETES for frozen in (False, True)} <= hits
    assert len(plan.kills) == 30
    assert [kill.target for kill in plan.kills].count(WIPE) == 1
    assert {each.gpu for each in plan.arrivals} == {"1", "2"}
    assert {each.shape for each in plan.arrivals} == {"training", "failing", "gang", "inference", "suspended"}
    assert plan.kills[-1].at < 360
