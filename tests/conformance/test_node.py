"""The conformance suite on two real nodes, by `make conformance BACKEND=node` alone: it takes root and the testbed."""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.conformance.playing import Outcome
from tests.conformance.registry import load
from tests.conformance.suite import judge, lacks

BACKEND: Final = "node"
pytestmark = pytest.mark.skipif(
    os.environ.get("MUSTER_CONFORMANCE") != "whole", reason="`make conformance BACKEND=node` plays it"
)


@pytest.mark.parametrize("name", load())
def test_case(outcomes: dict[str, Outcome], name: str) -> None:
    judge(outcomes[name])


def test_what_is_skipped_is_what_is_listed(outcomes: dict[str, Outcome]) -> None:
    assert lacks(BACKEND, outcomes) == {}
