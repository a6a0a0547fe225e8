"""Rule 6, the scheduler's half: one agent instance speaks for a cluster, absence releases nothing, strays are told.

Taken out here: the binding to the first instance, and the hour of grace for what the scheduler has no row for.
"""

from __future__ import annotations

import pytest

from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import ReplicaState
from muster_scheduler.domain.decisions import Release
from muster_scheduler.domain.life import fleet
from tests.support.fleets import Fleet, node


def _a_stranger_ends_nothing() -> bool:
    made = Fleet(node("n1", 1))
    workload = made.submit(1)
    made.run(1)
    report = made.status(1, ReplicaState.SUCCEEDED, exit_code=0)
    stranger = report.order._replace(instance="stranger")
    made.send(events.ReplicaReported("c1", stranger, workload.id, 1, 1, report.status))
    return workload.active


def test_only_the_bound_instance_is_believed() -> None:
    assert _a_stranger_ends_nothing()


def test_without_the_binding_anybody_ends_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "accept", lambda world, cluster, order: world.clusters[cluster])
    with pytest.raises(AssertionError):
        assert _a_stranger_ends_nothing()


def test_absence_from_a_snapshot_releases_nothing() -> None:
    made = Fleet(node("n1", 1))
    workload = made.submit(1)
    made.run(1)
    decided = made.send(events.AssignmentsHeld("c1", made.order(), (), 1))
    assert workload.active
    assert not decided


def _a_stray_lives_for_an_hour() -> bool:
    made = Fleet(node("n1", 1))
    stray = events.Held("00000000-0000-7000-8000-00000000dead", 1, 3, 1, ())
    made.send(events.AssignmentsHeld("c1", made.order(), (stray,), 1))
    made.wait(3590)
    early = [d for d in made.decisions if isinstance(d, Release)]
    made.wait(20)
    late = [d for d in made.decisions if isinstance(d, Release)]
    return not early and len(late) == 1


def test_what_has_no_row_gets_its_tombstone_after_an_hour() -> None:
    assert _a_stray_lives_for_an_hour()


def test_without_the_hour_a_restored_database_would_end_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "ORPHAN_AFTER", 0)
    with pytest.raises(AssertionError):
        assert _a_stray_lives_for_an_hour()
