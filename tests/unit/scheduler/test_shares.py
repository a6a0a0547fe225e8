"""Fair shares: one level against 200 known answers, and a tree against tables made by hand."""

from __future__ import annotations

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.domain.shares.decay import TICKS, Faded, factor, fade, part_of
from muster_scheduler.domain.shares.divide import MILLION, Claimant, divide, weights
from muster_scheduler.domain.shares.tree import Branch, fair_shares
from tests.support.fair_share import Case, cases

DAY = 24 * 3600 * 1_000_000


@pytest.mark.parametrize("case", [pytest.param(case, id=str(at)) for at, case in enumerate(cases())])
def test_known_answers(case: Case) -> None:
    assert divide(case.total, case.claimants, GPU).shares == case.shares


def test_there_are_200_known_answers() -> None:
    assert len(cases()) == 200


def test_surplus_by_rank_then_by_weight() -> None:
    queues = (Claimant(1, 9, 1, rank=1), Claimant(0, 9, 3), Claimant(0, 9, 1), Claimant(2, 9, 0))
    assert divide(15, queues).shares == (9, 3, 1, 2)


def test_what_is_deserved_may_exceed_what_there_is() -> None:
    assert divide(5, (Claimant(4, 4, 1), Claimant(4, 3, 1), Claimant(0, 9, 1))) == ((4, 3, 0), 0)


def test_what_nobody_wants_is_left() -> None:
    assert divide(10, (Claimant(1, 2, 1), Claimant(1, 4, 1))) == ((2, 4), 4)
    assert divide(10, ()) == ((), 10)


def test_equal_remainders_go_to_the_first() -> None:
    assert divide(4, (Claimant(0, 9, 1), Claimant(0, 9, 1), Claimant(0, 9, 1))).shares == (2, 1, 1)


def test_less_than_a_step_goes_out_whole() -> None:
    assert divide(GPU // 2, (Claimant(0, GPU, 1), Claimant(0, GPU, 2)), GPU).shares == (0, GPU // 2)


def test_past_use_lowers_the_weight() -> None:
    queues = (Claimant(0, 100, 1, usage=MILLION * 3 // 4), Claimant(0, 100, 1, usage=MILLION // 4))
    assert divide(100, queues, k=0).shares == (50, 50)
    # max(0, 1/2 + k (1/2 - usage)) for k = 1: 1/4 and 3/4; for k = 2: 0 and 1.
    assert divide(100, queues, k=1000).shares == (25, 75)
    assert divide(100, queues, k=2000).shares == (0, 100)
    assert weights((0, 1), queues, 4000)[0] == 0


def shares_of(total: int, tree: list[Branch]) -> dict[str, tuple[int, int]]:
    return {b.name: (s.fair, s.cap) for b, s in zip(tree, fair_shares(total, tree), strict=True)}


def test_a_level_divides_its_parents_share() -> None:
    """100 GPUs. Research deserves 40 and wants 90, product deserves 20 and wants 30; equal weights.

    Surplus 40: product takes 10, research the 30 left: 70 and 30. Research's 70: vision (deserves 30, wants 60) and
    speech (deserves 0, wants 30), weights 1 and 3: surplus 40 as 10 and 30. Product's 30: both get what they want.
    """
    tree = [
        Branch("research", deserved=40, weight=1),
        Branch("product", deserved=20, weight=1),
        Branch("vision", 0, 30, weight=1, request=60),
        Branch("speech", 0, 0, weight=3, request=30),
        Branch("search", 1, 10, weight=1, request=10),
        Branch("ads", 1, 10, weight=1, request=20),
    ]
    assert shares_of(100, tree) == {
        "research": (70, 70),
        "product": (30, 30),
        "vision": (40, 40),
        "speech": (30, 30),
        "search": (10, 10),
        "ads": (20, 20),
    }


def test_children_that_deserve_more_than_their_parent_has_keep_it_in_quota() -> None:
    """The department deserves 10 of 20 and another takes the rest; its projects deserve 8 each: 16 > 10."""
    tree = [
        Branch("small", deserved=10, weight=0),
        Branch("other", deserved=10, weight=1, request=10),
        Branch("a", 0, 8, request=8),
        Branch("b", 0, 8, request=8),
    ]
    assert shares_of(20, tree) == {"small": (10, 10), "other": (10, 10), "a": (8, 8), "b": (8, 8)}
    tree[0] = Branch("small", deserved=6, weight=0)
    assert shares_of(20, tree)["a"] == (8, 6)


def test_a_limit_holds_at_every_ancestor() -> None:
    tree = [
        Branch("top", deserved=10, limit=30, weight=1),
        Branch("mid", 0, 5, limit=20, weight=1),
        Branch("leaf", 1, 0, weight=1, request=100),
        Branch("beside", 0, 0, weight=1, request=100),
    ]
    assert shares_of(50, tree) == {"top": (30, 30), "mid": (18, 18), "leaf": (18, 18), "beside": (12, 12)}


def test_a_parent_that_says_nothing_deserves_what_its_children_do() -> None:
    tree = [
        Branch("silent", deserved=None, weight=1),
        Branch("said", deserved=6, weight=1, request=20),
        Branch("a", 0, 4, weight=1, request=8),
        Branch("b", 0, 2, weight=1, request=2),
    ]
    first = fair_shares(20, tree)[0]
    assert (first.deserved, first.wanted, first.fair) == (6, 10, 10)


def test_parents_stand_before_their_children() -> None:
    with pytest.raises(ValueError, match="queue a stands at 0, its parent at 1: parents come first"):
        fair_shares(1, [Branch("a", 1), Branch("b")])


def test_use_fades_by_half_in_a_half_life() -> None:
    assert factor(0) == 1 << 30
    assert factor(TICKS) == 1 << 29
    assert factor(30 * TICKS) == 0
    assert abs(factor(TICKS // 2) - int(0.5**0.5 * (1 << 30))) < 16
    held = fade(Faded(at=DAY), 8 * GPU, 2 * DAY, DAY)
    assert part_of(held.level, 8 * GPU) in {499_999, 500_000}
    gone = fade(held, 0, 4 * DAY, DAY)
    assert 124_990 <= part_of(gone.level, 8 * GPU) <= 125_000
    assert fade(gone, 5, 3 * DAY, DAY) == gone
    assert part_of(gone.level, 0) == 0


def test_settling_often_is_settling_once() -> None:
    once = fade(Faded(at=DAY), GPU, DAY + DAY // 8, DAY)
    often = Faded(at=DAY)
    for part in range(1, 3001):
        often = fade(often, GPU, DAY + DAY // 8 * part // 3000, DAY)
    assert often.at == once.at
    assert abs(part_of(often.level, GPU) - part_of(once.level, GPU)) <= 40
