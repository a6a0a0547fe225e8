"""News that come late, from a clock that jumps, or that ask for what cannot be: the books hold, and reasons say why."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState
from muster_scheduler.domain.books.queues import Department
from muster_scheduler.domain.decisions import Preempted
from muster_scheduler.domain.fleet.clusters import Standing
from tests.support.fleets import Fleet, node, request, role, whole

HOUR = 3600 * SECOND


def said(fleet: Fleet, number: int) -> str:
    """Why it waits."""
    reason = explain(fleet.world, fleet.workload(number)).reason
    assert reason is not None
    return reason.sentence()


def test_a_clock_that_jumps_back_stands_still_until_time_has_come_again() -> None:
    fleet = Fleet(node("a", 2))
    fleet.submit(1)
    fleet.run(1)
    before = fleet.world.now
    fleet.now -= HOUR
    placed = fleet.submit(2)
    assert (fleet.world.now, placed.placed, placed.phase) == (before, before, Phase.INITIALIZING)
    fleet.now += 2 * HOUR
    fleet.wait(0)
    assert fleet.workload(1).phase is Phase.RUNNING, "the jump ended nothing"


def test_an_agent_whose_clock_jumps_back_is_heard_all_the_same() -> None:
    fleet = Fleet(node("a", 1))
    order = fleet.order()
    fleet.now += 60 * SECOND
    fleet.send(events.HeartbeatSeen("c1", order._replace(observed=order.observed - HOUR)))
    assert fleet.world.clusters["c1"].standing(fleet.now, 30 * SECOND) is Standing.READY
    fleet.submit(1)
    assert fleet.workload(1).replicas


def test_a_report_that_was_overtaken_changes_nothing() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1)
    starting, ready = (fleet.status(1, state) for state in (ReplicaState.STARTING, ReplicaState.READY))
    fleet.send(ready)
    digest = fleet.state.digest()
    fleet.send(starting)
    fleet.send(ready)
    assert fleet.workload(1).phase is Phase.RUNNING
    assert fleet.state.digest() == digest


def test_an_inventory_that_was_overtaken_changes_nothing() -> None:
    fleet = Fleet(node("a", 1))
    late = fleet.order()
    fleet.inventory("c1", [node("a", 1), node("b", 1)])
    known = fleet.world.clusters["c1"]
    assert known.profile is not None
    fleet.send(events.InventoryReported("c1", late, True, late.sequence, known.profile, (node("c", 1),), ()))
    assert {name for _, name in fleet.world.inventory.nodes} == {"a", "b"}


def test_a_quota_below_what_is_in_use_ends_nothing_and_lets_nothing_in() -> None:
    fleet = Fleet(node("a", 8), quota=4)
    for number in (1, 2):
        fleet.submit(number, request(role(whole(2)), preemptible=False))
        fleet.run(number)
    fleet.project("p", {"default": 1}, limit=1)
    fleet.submit(3, request(role(whole())))
    fleet.wait(60)
    assert [fleet.workload(number).phase for number in (1, 2, 3)] == [Phase.RUNNING, Phase.RUNNING, Phase.PENDING]
    assert not [decision for decision in fleet.decisions if isinstance(decision, Preempted)]
    assert said(fleet, 3) == "the project uses 4 of the 1 GPU that it may hold at most (4 short)"
    fleet.finish(1)
    fleet.finish(2)
    assert fleet.workload(3).replicas


@pytest.mark.parametrize("above", ["p", "q"])
def test_departments_that_stand_above_each_other_in_name_are_told_apart(above: str) -> None:
    """Queues have two levels, so a circle is one of names alone: each name is a department here and a project there."""
    fleet = Fleet(node("a", 4), quota=0)
    for name, over in (("p", above), ("q", "p")):
        fleet.send(events.DepartmentChanged(Department(over, {"default": Quota(2 * GPU, 3 * GPU)}, 0)))
        fleet.project(name, {"default": 2}, department=over)
    for number in range(1, 6):
        fleet.send(fleet.admitted(number, project="p")._replace(department=above))
    assert sum(bool(fleet.workload(number).replicas) for number in range(1, 6)) == 3
    assert said(fleet, 5) == "the department uses 3 of the 3 GPUs that it may hold at most (1 short)"
