"""Counting: a repeat adds nothing, an overlap once, and what cannot be counted is said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster_telemetry.domain.accounts import GPU, LARGEST_CHARGE, LONGEST, Growth, Sample, count, gpu_seconds, objection
from muster_telemetry.domain.coverage import MOST_SPANS, cover
from muster_telemetry.handlers import headers, message
from muster_telemetry.ports import Account

SAMPLE = Sample("w", "team-a", "train-1", "r-0", (0, 2_000_000), 3500)


def test_a_gpu_second() -> None:
    spans, [growth] = count([SAMPLE], {})
    assert spans == {"r-0": [(0, 2_000_000)]}
    assert growth == Growth("w", "team-a", "train-1", 2_000_000 * 3500, 0, 2_000_000)
    assert gpu_seconds(growth.amount) == 1.0


def test_a_repeat_and_an_overlap_count_once() -> None:
    later = replace(SAMPLE, span=(1_000_000, 3_000_000))
    _, [growth] = count([SAMPLE, SAMPLE, later], {})
    assert growth.amount == 3_000_000 * 3500
    _, [again] = count([later], {"r-0": [(0, 3_000_000)]})
    assert (again.amount, again.since, again.until) == (0, 1_000_000, 3_000_000)


def test_replicas_of_one_workload_add_up() -> None:
    _, growth = count(
        [SAMPLE, replace(SAMPLE, replica="r-1"), replace(SAMPLE, workload="v", replica="r-2", charge=0)], {}
    )
    assert [(each.workload, gpu_seconds(each.amount)) for each in growth] == [("w", 2.0), ("v", 0.0)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(SAMPLE, span=(5, 5)), "ends before it begins"),
        (replace(SAMPLE, span=(6, 5)), "ends before it begins"),
        (replace(SAMPLE, span=(0, LONGEST + 3_600_000_000)), "lasts 25 hours"),
        (replace(SAMPLE, charge=LARGEST_CHARGE + 1), "at most"),
    ],
)
def test_what_cannot_be_counted(wrong: Sample, said: str) -> None:
    assert said in (objection(wrong) or "")
    assert objection(SAMPLE) is None


def test_an_empty_span_covers_nothing() -> None:
    with pytest.raises(ValueError, match="ends after it begins"):
        cover([], (3, 3))


def test_spans_are_bounded() -> None:
    spans = [(4 * n, 4 * n + 1) for n in range(MOST_SPANS)]
    more, new = cover(spans, (4 * MOST_SPANS, 4 * MOST_SPANS + 1))
    assert (len(more), new) == (MOST_SPANS, 1)
    assert more[0] == (0, 5)


def test_what_is_told() -> None:
    told = message(Account("w", "team-a", "train-1", GPU * 1_500_000, datetime(2026, 1, 1, tzinfo=UTC)))
    assert (told.workload_id, told.project, told.name, told.gpu_seconds) == ("w", "team-a", "train-1", 1.5)
    assert told.until.ToDatetime(UTC) == datetime(2026, 1, 1, tzinfo=UTC)


def test_the_beginning_of_an_account_is_told_where_it_is_known() -> None:
    old = Account("w", "team-a", "train-1", 1, datetime(2026, 1, 1, tzinfo=UTC))
    assert headers(old) == {}
    assert headers(replace(old, begun=datetime(1970, 1, 1, 0, 0, 1, 5, UTC))) == {"muster_begun": "1000005"}
