"""What a new leader owes to agents, and which workloads it reads back before it takes what is said of them."""

from __future__ import annotations

from muster_kernel.ids import uuid7
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import RETIRE_AFTER
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.decisions import Assign, Release
from muster_scheduler.domain.life.republication import owed, republish
from muster_scheduler.domain.life.revival import old_enough, spoken_of
from tests.support.fleets import START, Fleet, node, request, workload_id


def test_a_new_leader_publishes_what_runs_and_what_is_still_leaving() -> None:
    fleet = Fleet(node("n1"))
    for number in (1, 2, 3):
        fleet.submit(number, request())
        fleet.run(number)
    fleet.send(events.DeletionRequested("e", workload_id(2)), events.DeletionRequested("e", workload_id(3)))
    fleet.gone(3)
    wanted = owed(fleet.world)
    assert wanted == [workload_id(1), workload_id(2)]
    fleet.gone(2)
    fleet.state.begin(fleet.now)
    republish(fleet.world, [*wanted, workload_id(9)])
    assert fleet.state.plan().decisions == (Assign("c1", workload_id(1)),)
    fleet.state.abort()


def test_a_record_of_what_leaves_is_a_tombstone() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1, request())
    fleet.run(1)
    fleet.send(events.DeletionRequested("e", workload_id(1)))
    fleet.state.begin(fleet.now)
    republish(fleet.world, owed(fleet.world))
    assert [type(one) for one in fleet.state.plan().decisions] == [Release]
    fleet.state.abort()


def test_only_ids_that_may_be_old_enough_are_read_back() -> None:
    now = START + 24 * 3600 * SECOND

    def made(before: int) -> str:
        return uuid7((now - before) // 1000, bytes(10))

    young, old, ahead = made(60 * SECOND), made(RETIRE_AFTER), made(-3600 * SECOND)
    assert old_enough([young, old, ahead, "none"], now) == [old, ahead, "none"]


def test_people_and_lists_of_what_is_held_speak_of_workloads() -> None:
    held = events.AssignmentsHeld("c1", events.Order("a", 1, 1, 1), (events.Held("h", 1, 1, 1, ()),), 1)
    said: list[events.Event] = [events.DeletionRequested("e", "d"), held, events.IdleReported("i", 0)]
    assert list(spoken_of(said)) == ["d", "h"]
