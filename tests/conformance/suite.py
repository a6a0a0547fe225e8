"""The suite as pytest sees it: one test a case; the first one that is asked has all of them played at the same time."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.playing import Outcome, play
from tests.conformance.registry import load

SKIPPED: Final = Path(__file__).with_name("skipped.json")
_ASKED: Final = Counter[str]()
_SHOWN: Final = 8  # of the slowest cases


def skipped(backend: str) -> Mapping[str, list[str]]:
    """The committed list of what is skipped on a back end: the missing capabilities, by the name of the case."""
    found: Mapping[str, list[str]] = json.loads(SKIPPED.read_text(encoding="utf-8")).get(backend, {})
    return found


def outcomes_of(backend: str, kafka: str, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """Plays the cases of a back end that were asked for in the module of the fixture; all, where its list is judged."""
    asked = {item.name for item in request.session.items if item.path == request.path}
    chosen = {name: each for name, each in load().items() if f"test_case[{name}]" in asked}
    outcomes = asyncio.run(play(backend, kafka, chosen))
    slowest = sorted(outcomes.values(), key=lambda each: -each.seconds)[:_SHOWN]
    sys.stderr.write("".join(f"{each.seconds:7.1f} s  {each.case}\n" for each in slowest))
    return outcomes


def judge(outcome: Outcome) -> None:
    """Fails or skips the test of a case. Asked again, as for a test that pytest runs again, its next try counts."""
    if outcome.missing:
        pytest.skip(f"needs {'; '.join(outcome.missing)}")
    problem = outcome.problems[min(_ASKED[outcome.case], len(outcome.problems) - 1)]
    _ASKED[outcome.case] += 1
    if problem:
        pytest.fail(f"after {outcome.seconds} s:\n{problem}", pytrace=False)


def lacks(backend: str, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Where what was skipped differs from the committed list, among the cases that were chosen; empty: nowhere."""
    found = {name: list(each.missing) for name, each in outcomes.items() if each.missing}
    listed = {name: why for name, why in skipped(backend).items() if name in outcomes or name not in load()}
    return {name: found.get(name) for name in {*found, *listed} if found.get(name) != listed.get(name)}
