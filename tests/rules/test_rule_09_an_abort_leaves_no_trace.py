"""Rule 9, the scheduler's half: what a transaction changed in memory is undone exactly when it does not commit.

Taken out here: the undo log, so that a failed transaction leaves its placements behind.
"""

from __future__ import annotations

import pytest

from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import ReplicaState
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.journal import Journal
from tests.support.fleets import Fleet, node, request, role, whole


def _abort_is_exact() -> bool:
    fleet = Fleet(node("n1", 2), node("n2", 2))
    fleet.submit(1, request(role(whole(1), 2)))
    fleet.run(1)
    fleet.submit(2, request(role(whole(2)), priority=10))
    before = fleet.state.digest()
    fleet.state.begin(fleet.now)
    for event in (
        fleet.admitted(3, request(role(whole(4)), priority=75)),
        fleet.status(1, ReplicaState.FAILED, exit_code=1),
        fleet.status(2, ReplicaState.READY),
        events.SuspendRequested("e", fleet.workload(2).id),
        events.ProjectChanged(Project("q", "d", {}, 1)),
        events.ClusterRegistered("c9"),
    ):
        fleet.state.apply(event)
    fleet.state.propose()
    changed = fleet.state.digest() != before
    fleet.state.abort()
    return changed and fleet.state.digest() == before


def test_an_abort_restores_exactly() -> None:
    assert _abort_is_exact()


def test_without_the_undo_log_memory_is_apart_from_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "rollback", lambda self, mark=0: None)
    with pytest.raises((AssertionError, RuntimeError)):
        assert _abort_is_exact()
