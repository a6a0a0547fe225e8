"""When a waiting workload could start is said where it follows from known ends, and said to be unknown elsewhere."""

from __future__ import annotations

import pytest

from muster_kernel.quantities import GPU
from muster_kernel.reasons import FailureClass, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.adapters.workload_rows import of_workload, to_workload
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.estimates import Estimate
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import span
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Stretch
from muster_scheduler.domain.books import usual
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.books.usual import learned
from tests.support.fleets import Fleet, node, request, role, whole


def estimated(fleet: Fleet, number: int) -> Estimate:
    digest = fleet.state.digest()
    found = explain(fleet.world, fleet.workload(number)).estimate
    assert fleet.state.digest() == digest, "a question has changed the state"
    assert found is not None
    return found


def test_run_time_limits_say_by_when() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.send(events.ProjectChanged(Project("p", "d", {"default": Quota(4 * GPU)}, 0, Rules(training_time=600))))
    fleet.submit(1)
    fleet.submit(2)
    fleet.run(1)
    fleet.wait(20)
    fleet.run(2)
    fleet.submit(3, request(role(whole(2))))
    found = estimated(fleet, 3)
    assert found.latest is not None
    assert fleet.now < found.latest <= fleet.now + 700 * SECOND
    assert "its nodes are kept for it" in found.basis
    assert estimated(fleet, 3).earliest is None


def test_without_a_known_end_it_is_unknown() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    fleet.submit(2)
    assert estimated(fleet, 2)[:2] == (None, None)


def test_a_pause_has_an_end() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    for _ in range(2):
        fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
        fleet.gone(1)
        fleet.wait(21)
    fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    fleet.gone(1)
    assert estimated(fleet, 1) == Estimate(fleet.workload(1).not_before, None, "its pause is over then")


def test_who_leaves_is_ended_after_a_while() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    fleet.submit(2, request(priority=75))
    assert estimated(fleet, 2).latest == fleet.now + 30 * SECOND
    fleet.wait(20)
    assert estimated(fleet, 2).latest == fleet.now + 10 * SECOND
    victim = fleet.workload(1)
    row = {"id": victim.id, "project": "p", "name": "w1", "phase": "Terminating", "desired": "Running", "attempt": 1}
    read, _ = to_workload({**row, "body": of_workload(victim)}, {})
    assert read.withdrawn == victim.withdrawn == fleet.now - 20 * SECOND, "a restart counts on from there"
    fleet.wait(15)
    assert estimated(fleet, 2) == Estimate(
        None, None, "1 of those who leave has been due to be gone for 5 s, and the cluster agent has not said so"
    )


def test_what_a_gang_gives_up_is_ended_after_a_while_too() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, request(role(whole()))._replace(stretch=Stretch("worker", 1, 2)))
    fleet.run(1)
    fleet.wait(31)
    fleet.run(1)
    fleet.submit(2)
    told = fleet.now
    fleet.wait(20)
    assert estimated(fleet, 2).latest == told + 30 * SECOND


def test_who_waits_for_those_who_leave_without_having_asked_them_knows_by_when() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    fleet.run(1)
    fleet.send(events.DeletionRequested("e", fleet.workload(1).id))
    told = fleet.now
    fleet.wait(10)
    fleet.submit(2)
    assert fleet.workload(2).claim is None
    assert estimated(fleet, 2).latest == told + 30 * SECOND


def test_no_time_helps_against_a_quota() -> None:
    fleet = Fleet(node("n1", 2), quota=1)
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    assert explain(fleet.world, fleet.workload(1)).estimate is None


def test_for_whom_nodes_are_kept_is_named() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4))
    for number in (1, 2):
        fleet.submit(number, request(role(whole(3)), preemptible=False))
    fleet.submit(3, request(role(whole(4)), preemptible=False))
    fleet.wait(20)
    for number in (4, 5):
        fleet.submit(number, request(preemptible=False))
    answer = explain(fleet.world, fleet.workload(5))
    assert answer.reason == Reason(WaitingReason.RESERVED, (1,))
    told = [each.text for each in answer.attempts if each.way == "reserve"]
    assert told == ["1 node of default in c1 is kept for w3 of p, for 20 s now"]
    hidden = explain(fleet.world, fleet.workload(5), Viewer(frozenset())).attempts
    assert "1 node of default in c1 is kept for a workload of another project, for 20 s now" in [e.text for e in hidden]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (11_400, "3 h 10 min"), (200_000, "2 days")]
)
def test_spans(seconds: int, text: str) -> None:
    assert span(seconds * SECOND) == text


def ran(fleet: Fleet, number: int, seconds: int) -> None:
    fleet.submit(number)
    fleet.run(number)
    fleet.now += seconds * SECOND
    fleet.send(fleet.heartbeat("c1"))
    fleet.finish(number)


def test_how_long_such_work_has_run_makes_an_end_likely() -> None:
    fleet = Fleet(node("n1", 1))
    for number, seconds in enumerate((100, 200, 300, 400), 1):
        ran(fleet, number, seconds)
    fleet.submit(5)
    fleet.run(5)
    fleet.submit(6)
    found = estimated(fleet, 6)
    assert found.latest is None
    assert found.likely == fleet.workload(5).placed + 400 * SECOND
    assert "as long as such work usually did" in found.basis


def test_what_has_run_for_longer_already_is_held_against_longer_runs_only() -> None:
    fleet = Fleet(node("n1", 1))
    for number, seconds in enumerate((100, 100, 100, 100, 100, 500), 1):
        ran(fleet, number, seconds)
    fleet.submit(7)
    fleet.run(7)
    fleet.submit(8)
    assert estimated(fleet, 8).likely == fleet.workload(7).placed + 100 * SECOND
    fleet.now += 150 * SECOND
    fleet.send(fleet.heartbeat("c1"))
    assert estimated(fleet, 8).likely == fleet.workload(7).placed + 500 * SECOND
    fleet.now += 400 * SECOND
    fleet.send(fleet.heartbeat("c1"))
    assert estimated(fleet, 8)[:2] == (None, None)
    assert estimated(fleet, 8).likely is None, "nothing like it has run for so long"


def test_two_runs_say_nothing_and_work_of_another_size_neither() -> None:
    fleet = Fleet(node("n1", 2))
    ran(fleet, 1, 100)
    ran(fleet, 2, 100)
    fleet.submit(3, request(role(whole(2))))
    fleet.run(3)
    fleet.submit(4)
    assert estimated(fleet, 4).likely is None
    fleet.finish(3)
    fleet.finish(4)
    ran(fleet, 5, 100)
    fleet.submit(6, request(role(whole(2))))
    fleet.run(6)
    fleet.submit(7)
    assert estimated(fleet, 7).likely is None


def test_what_is_learned_is_taken_back_with_its_transaction_and_learned_again_by_a_rebuild() -> None:
    fleet = Fleet(node("n1", 1))
    for number in (1, 2, 3):
        ran(fleet, number, 100 * number)
    (took,) = fleet.world.usual.values()
    assert took == tuple(100 * number * SECOND for number in (1, 2, 3))
    assert learned(fleet.world.workloads.values()) == fleet.world.usual
    fleet.submit(4)
    fleet.run(4)
    fleet.state.begin(fleet.now + 50 * SECOND)
    fleet.state.apply(fleet.status(4, ReplicaState.SUCCEEDED, exit_code=0))
    assert len(*fleet.world.usual.values()) == 4
    fleet.state.abort()
    assert list(fleet.world.usual.values()) == [took]


def test_of_too_many_kinds_the_first_one_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual, "_KINDS", 2)
    fleet = Fleet(node("n1", 4))
    for number, gpus in enumerate((1, 2, 1, 3), 1):
        fleet.submit(number, request(role(whole(gpus))))
        fleet.run(number)
        fleet.finish(number)
    assert [units for _, _, units in fleet.world.usual] == [2 * GPU, 3 * GPU]
    assert learned(fleet.world.workloads.values()) == fleet.world.usual


def test_of_many_runs_the_last_ones_count() -> None:
    fleet = Fleet(node("n1", 1))
    for number in range(1, 21):
        ran(fleet, number, number)
    (took,) = fleet.world.usual.values()
    assert took == tuple(number * SECOND for number in range(5, 21))
