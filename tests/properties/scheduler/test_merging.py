"""The head of many sorted lines, merged: what sorting all of them says, however they are mixed and however long."""

from __future__ import annotations

from itertools import chain
from random import Random

import hypothesis.strategies as st
from hypothesis import given, settings

from muster_scheduler.domain.books.classes import Place
from muster_scheduler.domain.books.merging import merged

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def lines_of(lengths: list[int], ranks: int, moments: int, seed: int) -> list[list[Place]]:
    """Sorted lines of places that differ by id, drawn from so many ranks and moments."""
    random, names = Random(seed), iter(range(sum(lengths)))
    return [
        sorted(Place(-random.randrange(ranks), random.randrange(moments), f"w{next(names):04}") for _ in range(length))
        for length in lengths
    ]


@given(LENGTHS, st.integers(1, 3), st.sampled_from([1, 40, 1 << 50]), st.integers(0, 1 << 20), st.integers(1, 400))
@settings(deadline=None)
def test_what_comes_out_is_the_head_of_all_of_them(
    lengths: list[int], ranks: int, moments: int, seed: int, most: int
) -> None:
    lines = lines_of(lengths, ranks, moments, seed)
    numbers, places = merged(lambda number, some: lines[number][:some], len(lines), most)
    assert places == sorted(chain.from_iterable(lines))[:most]
    assert all(place in lines[number] for number, place in zip(numbers, places, strict=True))


def test_of_long_lines_a_part_is_looked_at() -> None:
    lines = [[Place(0, 10 * at + number, f"w{number}-{at}") for at in range(1_000)] for number in range(10)]
    asked: list[int] = []

    def first(number: int, some: int) -> list[Place]:
        asked.append(some)
        return lines[number][:some]

    _, places = merged(first, len(lines), 300)
    assert [place.submitted for place in places] == list(range(300))
    assert max(asked) < 100
