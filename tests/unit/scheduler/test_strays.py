"""Workloads that an agent holds and the scheduler does not know: named once each, and until they are gone."""

from __future__ import annotations

from typing import Any

import pytest

from muster_chassis.health import Health
from muster_scheduler import strays
from muster_scheduler.domain import events
from tests.support.fleets import Fleet, node

FORGOTTEN = events.Held("00000000-0000-7000-8000-00000000dead", 1, 3, 1, ())


def test_what_an_agent_holds_without_a_row_is_named_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[dict[str, Any]] = []
    monkeypatch.setattr(strays._log, "warning", lambda _, **about: named.append(about))
    fleet, health = Fleet(node("n1", 1)), Health()
    watched = strays.Strays(health)
    watched.look(fleet.world)
    assert not health.waiting
    for _ in range(2):
        fleet.send(events.AssignmentsHeld("c1", fleet.order(), (FORGOTTEN,), 1))
        watched.look(fleet.world)
    assert named == [{"cluster": "c1", "workload": FORGOTTEN.workload, "generation": 1, "attempt": 3}]
    assert f"not known here, 1 in all: {FORGOTTEN.workload} on c1; each" in health.waiting[strays.CONDITION]
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (), 1))
    watched.look(fleet.world)
    assert not health.waiting


def test_a_leader_that_steps_down_says_nothing_of_them() -> None:
    fleet, health = Fleet(node("n1", 1)), Health()
    watched = strays.Strays(health)
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (FORGOTTEN,), 1))
    watched.look(fleet.world)
    assert strays.CONDITION in health.waiting
    watched.forget()
    assert not health.waiting


def test_many_are_named_a_hundred_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    monkeypatch.setattr(strays._log, "warning", lambda _, **about: named.append(about["workload"]))
    many = tuple(events.Held(f"00000000-0000-7000-8000-{number:012x}", 1, 1, 1, ()) for number in range(250))
    fleet, health = Fleet(node("n1", 1)), Health()
    watched = strays.Strays(health)
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), many, 1))
    for looked in (100, 200, 250, 250):
        watched.look(fleet.world)
        assert len(set(named)) == len(named) == looked
    assert "250 in all" in health.waiting[strays.CONDITION]
