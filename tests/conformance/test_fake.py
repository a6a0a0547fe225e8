"""The conformance suite on the fake back end."""

from __future__ import annotations

import pytest

from tests.conformance.playing import Outcome
from tests.conformance.registry import load
from tests.conformance.suite import judge, lacks

BACKEND = "fake"


@pytest.mark.parametrize("name", load())
def test_case(outcomes: dict[str, Outcome], name: str) -> None:
    judge(outcomes[name])


def test_what_is_skipped_is_what_is_listed(outcomes: dict[str, Outcome]) -> None:
    assert lacks(BACKEND, outcomes) == {}
