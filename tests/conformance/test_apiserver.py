"""The conformance suite on a real API server: a part of it in `make test`, all of it by `make conformance`."""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.conformance.playing import Outcome
from tests.conformance.registry import load
from tests.conformance.suite import judge, lacks
from tests.support.kubernetes import MISSING, built

BACKEND: Final = "apiserver"
WHOLE: Final = os.environ.get("MUSTER_CONFORMANCE") == "whole"
pytestmark = pytest.mark.skipif(not built() and not WHOLE, reason=MISSING)
CHOSEN: Final = {
    name: each
    for name, each in load().items()
    if WHOLE or each.body.__module__.endswith((".objects", ".namespaces", ".ends", ".claims", ".admission"))
}


@pytest.mark.parametrize("name", CHOSEN)
def test_case(outcomes: dict[str, Outcome], name: str) -> None:
    judge(outcomes[name])


@pytest.mark.skipif(not WHOLE, reason="a part of the cases was chosen")
def test_what_is_skipped_is_what_is_listed(outcomes: dict[str, Outcome]) -> None:
    assert lacks(BACKEND, outcomes) == {}
