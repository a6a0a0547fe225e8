"""The months of the archive: every moment is in one, its partition's name says which, and what is too old leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from muster_submission.domain.archiving import Month, lacking, leaving, partition

MOMENTS = st.integers(0, 200_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
KEPT = st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=3000))


@given(MOMENTS)
def test_a_moment_is_within_its_month_and_the_name_says_which(moment: datetime) -> None:
    month = Month.of(moment)
    assert month.begin <= moment < month.end
    assert Month.of(month.end) > month
    assert Month.of_partition(partition(month)) == month
    assert moment.isoformat().startswith(str(month))


def test_other_tables_are_no_months() -> None:
    assert Month.of_partition("archive_rest") is None
    assert Month.of_partition("archive_2026_11_old") is None


@given(st.lists(MOMENTS, max_size=20), st.lists(MOMENTS, max_size=20))
def test_every_end_has_a_month_once_those_that_lack_are_made(ends: list[datetime], made: list[datetime]) -> None:
    there = {Month.of(moment) for moment in made}
    missing = lacking(ends, there)
    assert there.isdisjoint(missing)
    assert missing == sorted(set(missing))
    assert {Month.of(end) for end in ends} <= there | set(missing)


@given(st.lists(MOMENTS, max_size=20), MOMENTS, KEPT)
def test_only_what_is_older_than_is_kept_leaves(ends: list[datetime], now: datetime, kept: timedelta) -> None:
    there = {Month.of(end) for end in ends}
    going = leaving(there, now, kept)
    assert going is not None
    for end in ends:
        if Month.of(end) in going.months:
            assert now - end > kept
        elif end < going.before:
            assert Month.of(end) == Month.of(going.before)  # partly too old


def test_kept_for_ever_nothing_leaves() -> None:
    assert leaving([Month(1970, 1)], datetime(2026, 11, 24, tzinfo=UTC), timedelta()) is None
