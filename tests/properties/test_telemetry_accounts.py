"""However intervals are cut up, repeated, reordered and batched: each moment of a replica is counted exactly once."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from muster_telemetry.domain.accounts import Sample, count
from muster_telemetry.domain.coverage import Span, cover

SPANS = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(SPANS, max_size=30))
def test_coverage_is_the_union(spans: list[Span]) -> None:
    covered: list[Span] = []
    total = 0
    for span in spans:
        covered, new = cover(covered, span)
        total += new
        assert all(low[1] < high[0] for low, high in pairwise(covered))
    union = {moment for start, end in spans for moment in range(start, end)}
    assert total == len(union)
    assert {moment for start, end in covered for moment in range(start, end)} == union


@given(st.lists(st.tuples(SPANS, st.sampled_from(["r-0", "r-1"])), max_size=20), st.randoms(), st.integers(0, 20))
def test_accounts_do_not_depend_on_order_repeats_or_batches(
    intervals: list[tuple[Span, str]], random: Random, cut: int
) -> None:
    samples = [Sample("w", "p", "n", replica, span, 7) for span, replica in intervals]
    mixed = samples * 2
    random.shuffle(mixed)
    spans, first = count(mixed[:cut], {})
    _, second = count(mixed[cut:], spans)
    union = {(replica, moment) for span, replica in intervals for moment in range(*span)}
    assert sum(growth.amount for growth in first + second) == 7 * len(union)
