"""Releases that work together, and those that do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_kernel.versions import too_far_apart

NUMBERS = st.integers(0, 50)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("0.1.0", "0.1.9", False),
        ("0.1.0", "0.2.0", False),
        ("0.3.0", "0.2.7", False),
        ("0.1.0", "0.3.0", True),
        ("1.0.0", "0.9.0", True),
        ("1.2", "1.4.0rc1", True),
        ("1.9.0", "1.10.0", False),
        ("", "0.1.0", False),
        ("dev", "0.1.0", False),
        ("1.x.0", "3.1.0", False),
    ],
)
def test_pairs(one: str, other: str, *, apart: bool) -> None:
    assert too_far_apart(one, other) is apart
    assert too_far_apart(other, one) is apart


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_one_minor_release_and_no_more(major: int, minor: int, patch: int, ahead: int) -> None:
    assert too_far_apart(f"{major}.{minor}.{patch}", f"{major}.{minor + ahead}.0") is (ahead > 1)
    assert too_far_apart(f"{major}.{minor}.{patch}", f"{major + 1 + ahead}.{minor}.{patch}")
