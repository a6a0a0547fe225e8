"""A workload's whole course through the state machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason, FailureClass, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import ReplicaState, WorkloadKind
from muster_scheduler.domain.books import world
from muster_scheduler.domain.decisions import Assign, PhaseChange, Placed, Refused, Release
from muster_scheduler.domain.fleet.nodes import NodeState
from tests.support.fleets import Fleet, host, node, portion, request, role, whole, workload_id


def test_a_training_runs_and_completes() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    assert workload.phase is Phase.INITIALIZING
    assert [type(d) for d in fleet.decisions[-4:]] == [PhaseChange, Placed, PhaseChange, Assign]
    fleet.run(1)
    assert workload.phase is Phase.RUNNING
    fleet.report(1, ReplicaState.SUCCEEDED, exit_code=0)
    assert workload.phase is Phase.COMPLETED
    assert isinstance(fleet.records(1)[-1], Release)
    assert fleet.world.inventory.nodes["c1", "n1"].idle == 7
    fleet.gone(1)
    assert fleet.world.inventory.nodes["c1", "n1"].idle == 8
    assert not fleet.world.queues.accounts


def test_gone_with_its_exit_code_is_an_end_too() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1)
    fleet.gone(1, exit_code=0)
    assert fleet.workload(1).phase is Phase.COMPLETED


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4))
    small = fleet.submit(1, request(role(whole(4), 2)))
    assert small.phase is Phase.INITIALIZING
    large = fleet.submit(2, request(role(whole(4), 2)))
    assert large.phase is Phase.PENDING
    assert not large.replicas
    assert fleet.world.waiting.reason(large.id).code is WaitingReason.NO_CAPACITY
    fleet.finish(1)
    assert large.phase is Phase.INITIALIZING


def test_one_failure_restarts_the_whole_gang_on_the_same_devices() -> None:
    fleet = Fleet(node("n1", 8))
    gang = fleet.submit(1, request(role(whole(2), 2), role(host(), 1, "launcher"), launcher_decides=True))
    fleet.run(1)
    before = {key: replica.grant for key, replica in gang.replicas.items()}
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=1, exit_code=3, failure=FailureClass.EXIT))
    assert gang.phase is Phase.TERMINATING
    assert isinstance(fleet.records(1)[-1], Release)
    fleet.gone(1)
    assert gang.phase is Phase.TERMINATING
    assert fleet.world.inventory.nodes["c1", "n1"].idle == 4
    fleet.wait(10)
    assert gang.phase is Phase.INITIALIZING
    assert (gang.attempt, gang.exits) == (2, 1)
    assert {key: replica.grant for key, replica in gang.replicas.items()} == before
    assert isinstance(fleet.records(1)[-1], Assign)


def test_a_long_backoff_gives_the_devices_back() -> None:
    fleet = Fleet(node("n1", 1))
    first = fleet.submit(1, request(backoff_limit=5))
    for pause in (10, 20):
        fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
        fleet.gone(1)
        fleet.wait(pause)
        assert first.phase is Phase.INITIALIZING
    fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    fleet.gone(1)
    assert first.phase is Phase.PENDING
    assert first.attempt == 4
    assert fleet.submit(2).phase is Phase.INITIALIZING
    fleet.finish(2)
    assert first.phase is Phase.PENDING
    fleet.wait(40)
    assert first.phase is Phase.INITIALIZING


def test_the_budget_of_exits_is_the_workloads_own() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1, request(backoff_limit=1))
    fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    fleet.gone(1)
    fleet.wait(10)
    fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    assert workload.phase is Phase.FAILED
    assert workload.reason is ChangeReason.EXIT_LIMIT
    assert "exited with 1" in workload.message
    fleet.report(1, ReplicaState.SUCCEEDED, exit_code=0)
    assert workload.phase is Phase.FAILED
    fleet.gone(1)
    assert fleet.world.inventory.nodes["c1", "n1"].idle == 1


def test_infrastructure_has_a_budget_of_ten() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1, request(backoff_limit=0))
    for number in range(10):
        assert workload.faults == number
        fleet.gone(1)
        fleet.wait(361)
        assert workload.phase is Phase.INITIALIZING
    fleet.gone(1)
    assert workload.phase is Phase.FAILED
    assert workload.reason is ChangeReason.INFRASTRUCTURE_LIMIT
    assert workload.exits == 0


def test_out_of_memory_is_final() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    fleet.report(1, ReplicaState.FAILED, exit_code=137, failure=FailureClass.OUT_OF_MEMORY)
    assert workload.phase is Phase.FAILED


def test_failing_starts_are_bounded_in_time() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    for _ in range(3):
        fleet.report(1, ReplicaState.FAILED, failure=FailureClass.START)
        fleet.gone(1)
        fleet.wait(250)
    fleet.report(1, ReplicaState.FAILED, failure=FailureClass.START)
    assert workload.phase is Phase.FAILED
    assert workload.reason is ChangeReason.START_FAILED


def test_suspend_and_resume() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    fleet.run(1)
    fleet.send(events.SuspendRequested("e1", workload.id))
    assert workload.phase is Phase.STOPPING
    fleet.send(events.ResumeRequested("e2", workload.id))
    assert (workload.phase, workload.desired) == (Phase.STOPPING, DesiredPhase.RUNNING)
    fleet.send(events.SuspendRequested("e3", workload.id))
    fleet.gone(1)
    assert workload.phase is Phase.STOPPED
    assert fleet.world.inventory.nodes["c1", "n1"].idle == 1
    fleet.send(events.ResumeRequested("e4", workload.id))
    assert workload.phase is Phase.INITIALIZING
    assert (workload.attempt, workload.ours) == (2, 1)


def test_delete_at_any_time() -> None:
    fleet = Fleet(node("n1", 1))
    running, waiting = fleet.submit(1), fleet.submit(2)
    fleet.send(events.DeletionRequested("e1", waiting.id))
    assert waiting.phase is Phase.DELETED
    fleet.send(events.DeletionRequested("e2", running.id))
    assert running.phase is Phase.DELETING
    fleet.gone(1)
    assert running.phase is Phase.DELETED
    fleet.send(events.SuspendRequested("e3", running.id))
    assert fleet.decisions[-1] == Refused(running.id, "e3", Phase.DELETED)


def test_intents_may_come_before_the_admission() -> None:
    fleet = Fleet(node("n1"))
    fleet.send(events.SuspendRequested("e1", workload_id(1)), events.DeletionRequested("e2", workload_id(2)))
    assert fleet.submit(1).phase is Phase.STOPPED
    assert fleet.submit(2).phase is Phase.DELETED


def test_a_workload_may_be_submitted_suspended() -> None:
    fleet = Fleet(node("n1"))
    assert fleet.submit(1, active=False).phase is Phase.STOPPED


def test_policy_refuses() -> None:
    fleet = Fleet(node("n1"))
    fleet.send(events.Rejected(workload_id(1), 1, "p", "w1", fleet.now, "gpu: at most 2"))
    assert fleet.workload(1).phase is Phase.FAILED
    workload = fleet.submit(2)
    fleet.send(events.Rejected(workload_id(2), 2, "p", "w2", fleet.now, "no"))
    assert workload.phase is Phase.INITIALIZING


def test_an_agent_refuses_for_now_and_for_good() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1))
    workload = fleet.submit(1)
    first = workload.replicas["worker", 0].node
    order = fleet.order()
    fleet.send(events.AssignmentRefused("c1", order, workload.id, 1, 1, "Full", "no room", first[1], 60))
    assert workload.phase is Phase.TERMINATING
    everything = events.Status("", 0, 0, "", None, gone=True)
    fleet.send(events.ReplicaReported("c1", fleet.order(), workload.id, 1, 1, everything))
    assert workload.phase is Phase.INITIALIZING
    assert workload.attempt == 2
    assert workload.replicas["worker", 0].node != first
    fleet.wait(61)
    assert not workload.avoid or workload.phase is Phase.INITIALIZING
    fleet.send(
        events.AssignmentRefused("c1", fleet.order(), workload.id, 1, 2, "InvalidCommand", "never", "", 0, final=True)
    )
    fleet.gone(1)
    assert workload.phase is Phase.FAILED
    assert workload.message == "InvalidCommand: never"


def test_terminal_is_sticky_and_old_reports_do_nothing() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    late = fleet.status(1, ReplicaState.STARTING)
    fleet.run(1)
    digest = fleet.state.digest()
    fleet.send(late)
    assert fleet.state.digest() == digest
    fleet.finish(1)
    fleet.send(fleet.status(1, ReplicaState.FAILED, exit_code=1))
    assert workload.phase is Phase.COMPLETED


def test_automatic_deletion() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(auto_deletion=5))
    fleet.finish(1)
    fleet.wait(4)
    assert workload.phase is Phase.COMPLETED
    fleet.wait(2)
    assert workload.phase is Phase.DELETED


def test_an_mpi_gang_ends_with_its_launcher() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(role(whole(), 2), role(host(), 1, "launcher"), launcher_decides=True))
    fleet.run(1)
    fleet.send(fleet.status(1, ReplicaState.SUCCEEDED, role_name="launcher", exit_code=0))
    assert workload.phase is Phase.COMPLETED


def test_portions_share_a_card() -> None:
    fleet = Fleet(node("n1", 2))
    a, b = fleet.submit(1, request(role(portion(500)))), fleet.submit(2, request(role(portion(500))))
    assert a.replicas["worker", 0].grant.shares[0].device == b.replicas["worker", 0].grant.shares[0].device
    c = fleet.submit(3, request(role(portion(600, 2))))
    assert c.phase is Phase.PENDING
    assert fleet.submit(4, request(priority=90)).phase is Phase.INITIALIZING


def test_nodes_that_take_nothing_new() -> None:
    fleet = Fleet(node("n1", state=NodeState.DRAINING), node("n2", 1))
    assert fleet.submit(1).replicas["worker", 0].node == ("c1", "n2")
    assert fleet.submit(2).phase is Phase.PENDING


def test_quota_binds_non_preemptible_work_only() -> None:
    fleet = Fleet(node("n1", 8), quota=2)
    assert fleet.submit(1, request(role(whole(2)), preemptible=False)).phase is Phase.INITIALIZING
    blocked = fleet.submit(2, request(role(whole(1)), preemptible=False))
    assert blocked.phase is Phase.PENDING
    assert fleet.world.waiting.reason(blocked.id).code is WaitingReason.OVER_QUOTA
    assert fleet.submit(3, request(role(whole(3)))).phase is Phase.INITIALIZING
    fleet.project("p", {"default": 3})
    assert blocked.phase is Phase.INITIALIZING


def test_priority_then_age() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    old, urgent = fleet.submit(2), fleet.submit(3, request(priority=50))
    higher = fleet.submit(4, request(priority=50, preemptible=True))
    fleet.finish(1)
    assert old.phase is Phase.INITIALIZING
    fleet.finish(2)
    assert urgent.phase is Phase.INITIALIZING
    assert higher.phase is Phase.PENDING


@pytest.mark.parametrize("kind", list(WorkloadKind))
def test_too_large_is_said_at_once(kind: WorkloadKind) -> None:
    fleet = Fleet(node("n1", 4))
    workload = fleet.submit(1, request(role(whole(8)), kind=kind))
    reason = fleet.world.waiting.reason(workload.id)
    assert reason.code is WaitingReason.TOO_LARGE
    assert reason.sentence() == "needs 8 GPUs on one node; the largest node has 4"


MINUTES = 60 * 1_000_000


def test_what_has_been_over_for_a_while_leaves_the_memory() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1)
    fleet.finish(1)
    fleet.submit(2)
    fleet.send(events.DeletionRequested("e", workload_id(2)))
    fleet.submit(3)
    fleet.world.retire()
    assert len(fleet.world.workloads) == 3
    for settle in (fleet.state.abort, fleet.state.commit):
        fleet.state.begin(fleet.now + 6 * MINUTES)
        fleet.world.retire()
        left = workload_id(2), workload_id(3)  # something of the second one may still run
        assert sorted(fleet.world.workloads) == [*left]
        settle()
        assert len(fleet.world.workloads) == (3 if settle == fleet.state.abort else 2)
    fleet.gone(2)
    fleet.state.begin(fleet.now + 20 * MINUTES)
    fleet.world.retire()
    assert sorted(fleet.world.workloads) == [workload_id(3)]


def test_many_leave_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "RETIRE_AT_ONCE", 2)
    fleet = Fleet(node("n1"))
    for number in range(1, 6):
        fleet.send(events.DeletionRequested("e", workload_id(number)))
    left = []
    for minutes in (6, 12, 18):
        fleet.state.begin(fleet.now + minutes * MINUTES)
        fleet.world.retire()
        fleet.state.commit()
        left.append(len(fleet.world.workloads))
    assert left == [3, 1, 0]


def test_one_that_is_taken_back_is_deleted_by_itself_and_leaves_again() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1, request()._replace(auto_deletion=3600))
    fleet.finish(1)
    workload = fleet.workload(1)
    fleet.state.begin(fleet.now + 6 * MINUTES)
    fleet.world.retire()
    assert fleet.state.plan().touched.retired == {workload.id: workload.finished + 60 * MINUTES}
    fleet.state.commit()
    for settle in (fleet.state.abort, fleet.state.commit):
        fleet.state.begin(fleet.now + 61 * MINUTES)
        fleet.world.revive(replace(workload))
        fleet.state.propose()
        assert fleet.workload(1).phase is Phase.DELETED
        settle()
        assert (workload.id in fleet.world.workloads) is (settle == fleet.state.commit)
    fleet.state.begin(fleet.now + 70 * MINUTES)
    fleet.world.retire()
    assert not fleet.world.workloads
