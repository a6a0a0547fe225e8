"""Single replicas on small fleets: who waits has no place, and what runs is never more than a program finds possible.

The truth comes from two oracles that share no code with the placement: every way tried, and a mixed-integer program.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.books.pools import Strategy
from tests.support.placement_oracle import fits
from tests.support.placement_program import fewest_cards, most_served
from tests.support.single_scenes import SORTS, left_over, serve

_SEEDS = st.integers(0, 1 << 30)
_STRATEGIES = st.sampled_from(Strategy)


@given(_SEEDS, st.sampled_from(sorted(SORTS)), _STRATEGIES)
@settings(max_examples=40, deadline=None)
def test_whoever_waits_has_no_place(seed: int, sort: str, strategy: Strategy) -> None:
    made = serve(seed, sort, nodes=6, load=1.2, strategy=strategy)
    for shape in made.waiting:
        assert not fits(left_over(made, shape)), f"{shape} waits, and there is a way to run it"


@pytest.mark.parametrize("sort", sorted(SORTS))
@given(_SEEDS, _STRATEGIES)
@settings(max_examples=10, deadline=None)
def test_what_runs_is_possible_and_no_better_than_the_best(sort: str, seed: int, strategy: Strategy) -> None:
    made = serve(seed, sort, nodes=8, load=1.2, strategy=strategy)
    fewest = fewest_cards(made.placed)
    assert fewest is not None, "no way to run all that runs"
    assert made.cards >= fewest
    assert made.charge <= most_served(made.offered)


@pytest.mark.parametrize("sort", ["memory", "portions", "slices"])
def test_a_crowded_fleet_is_filled_about_as_well_as_can_be(sort: str) -> None:
    made = [serve(seed, sort, nodes=16, load=1.2) for seed in range(8)]
    best = sum(most_served(each.offered) for each in made)
    assert sum(each.charge for each in made) >= 0.94 * best
