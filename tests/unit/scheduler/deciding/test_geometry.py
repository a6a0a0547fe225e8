"""The kernels' tables of MIG geometry are those of the kernel package."""

from __future__ import annotations

import pytest

from muster_kernel.mig import CARDS, best_start, room
from muster_scheduler.domain.deciding.fitting import start_of
from muster_scheduler.domain.deciding.tables import GEOMETRY, PROFILE_NUMBERS, PROFILES, rows_of
from muster_scheduler.domain.fleet.columns import CARD_NAMES, SLICED, empty


@pytest.mark.parametrize("model", CARD_NAMES)
def test_the_geometry_of_kernels_is_that_of_the_tables(model: str) -> None:
    card, number = CARDS[model], CARD_NAMES.index(model)
    columns = empty(("n",))
    columns.mode[0, 0], columns.card[0, 0] = SLICED, number
    rows = rows_of(columns)
    for mask in range(1 << card.slices):
        columns.mask[0, 0] = mask
        assert GEOMETRY.room[number, mask] == room(card, mask)
        for name in PROFILES:
            profile = card.profile(name)
            expected = None if profile is None else best_start(card, profile, mask)
            found = start_of(rows, GEOMETRY, PROFILE_NUMBERS[name], 0, 0)
            assert found == (-1 if expected is None else expected), (name, mask)
