"""MIG geometry against the vendor's table."""

from __future__ import annotations

import pytest

from muster_kernel.mig import CARDS, Profile, best_start, compute_of, room, starts_that_fit

H100 = CARDS["H100-80GB"]


def profile(name: str) -> Profile:
    found = H100.profile(name)
    assert found is not None
    return found


def test_two_3g_leave_no_room_for_a_1g() -> None:
    taken = profile("3g.40gb").mask(0) | profile("3g.40gb").mask(4)
    assert starts_that_fit(profile("1g.10gb"), taken) == ()


def test_4g_and_3g_are_legal() -> None:
    assert starts_that_fit(profile("3g.40gb"), profile("4g.40gb").mask(0)) == (4,)


def test_seven_1g_leave_slice_7_idle() -> None:
    taken = 0
    for _ in range(7):
        start = best_start(H100, profile("1g.10gb"), taken)
        assert start is not None
        taken |= profile("1g.10gb").mask(start)
    assert taken == 0b0111_1111
    assert best_start(H100, profile("1g.10gb"), taken) is None


def test_small_slices_keep_the_low_half_free() -> None:
    start = best_start(H100, profile("1g.10gb"), 0)
    assert start is not None
    assert start >= 4
    assert starts_that_fit(profile("4g.40gb"), profile("1g.10gb").mask(start)) == (0,)


def test_media_profiles_come_once() -> None:
    assert starts_that_fit(profile("1g.10gb+me"), 0, present=1) == ()


def test_illegal_starts_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot start at slice 1"):
        profile("2g.20gb").mask(1)


def test_a30_is_a_card_of_four() -> None:
    card = CARDS["A30-24GB"]
    assert card.slices == 4
    assert card.profile("2g.12gb+me") is not None
    assert card.profile("3g.40gb") is None


@pytest.mark.parametrize("model", sorted(CARDS))
def test_every_run_fits_its_card(model: str) -> None:
    card = CARDS[model]
    for each in card.profiles.values():
        for start in each.starts:
            assert each.mask(start) < 1 << card.slices
    assert room(card, (1 << card.slices) - 1) == 0


def test_compute_slices_from_the_name() -> None:
    assert compute_of("3g.40gb") == 3
    with pytest.raises(ValueError, match="no MIG profile"):
        compute_of("three")
