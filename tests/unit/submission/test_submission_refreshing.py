"""What the use of a refresh token leads to: once a successor, for half a minute the same one, then the end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster_submission.domain.refreshing import AGAIN, Again, RefreshToken, Reused, Rotate, judge

NOW = datetime(2031, 5, 6, tzinfo=UTC)
USED = RefreshToken("one", "family", NOW - timedelta(hours=1), "two", NOW)


def test_an_unused_token_gets_a_successor() -> None:
    assert judge(RefreshToken("one", "family", NOW), NOW) == Rotate()


@pytest.mark.parametrize("later", [timedelta(0), timedelta(seconds=1), AGAIN])
def test_a_lost_answer_and_a_parallel_shell_get_the_same_successor(later: timedelta) -> None:
    assert judge(USED, NOW + later) == Again("two", NOW)


def test_a_later_use_ends_the_family() -> None:
    assert judge(USED, NOW + AGAIN + timedelta(microseconds=1)) == Reused()
