"""Limits of time and nodes that are to be empty: who goes, when, and what becomes of it."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.terms import Terms, Toleration
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, WorkloadKind
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.decisions import Assign, Release
from muster_scheduler.domain.fleet.clocks import leave_by, tainted_since
from muster_scheduler.domain.fleet.nodes import Node, NodeState
from tests.support.fleets import START, Fleet, node, request, role, whole


def rule(fleet: Fleet, **limits: int) -> None:
    quota = {"default": Quota(100 * GPU)}
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 0, Rules(**limits))))


@pytest.mark.parametrize(
    ("kind", "limits", "ends"),
    [
        (WorkloadKind.TRAINING, {"training_time": 60}, True),
        (WorkloadKind.DISTRIBUTED, {"training_time": 60}, True),
        (WorkloadKind.WORKSPACE, {"interactive_time": 60}, True),
        (WorkloadKind.WORKSPACE, {"training_time": 60}, False),
        (WorkloadKind.INFERENCE, {"training_time": 60, "interactive_time": 60}, False),
    ],
)
def test_the_longest_run_is_by_kind_and_ends_in_stopped(kind: WorkloadKind, limits: dict[str, int], ends: bool) -> None:
    fleet = Fleet(node("a"))
    rule(fleet, **limits)
    fleet.submit(1, request(kind=kind))
    fleet.run(1)
    fleet.wait(59)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(1)
    assert (fleet.workload(1).phase is Phase.STOPPING) is ends
    if ends:
        assert fleet.workload(1).reason is ChangeReason.RUN_TIME_LIMIT
        assert fleet.workload(1).message == "it ran for 60 s, the longest that its project allows"
        assert fleet.workload(1).desired is DesiredPhase.STOPPED
        assert isinstance(fleet.records(1)[-1], Release)
        fleet.gone(1)
        assert fleet.workload(1).phase is Phase.STOPPED
        assert fleet.workload(1).reason is ChangeReason.RUN_TIME_LIMIT, "what ended it stays to be seen"
        assert fleet.workload(1).message == "it ran for 60 s, the longest that its project allows"


def test_a_resumed_run_begins_anew_and_a_restarted_one_does_not() -> None:
    fleet = Fleet(node("a"))
    rule(fleet, training_time=100)
    fleet.submit(1)
    fleet.run(1)
    fleet.wait(40)
    fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    fleet.gone(1, exit_code=1, failure=FailureClass.EXIT)
    fleet.wait(10)
    fleet.run(1)
    assert fleet.workload(1).attempt == 2
    fleet.wait(49)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(1)
    assert fleet.workload(1).phase is Phase.STOPPING
    fleet.gone(1)
    fleet.send(events.ResumeRequested("e", fleet.workload(1).id))
    fleet.run(1)
    fleet.wait(99)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(1)
    assert fleet.workload(1).phase is Phase.STOPPING


def test_a_rule_holds_for_what_runs_already() -> None:
    fleet = Fleet(node("a"))
    fleet.submit(1)
    fleet.run(1)
    fleet.wait(100)
    rule(fleet, training_time=30)
    assert fleet.workload(1).phase is Phase.STOPPING


def test_a_rule_that_is_relaxed_in_time_is_looked_at_again_in_its_own() -> None:
    fleet = Fleet(node("a"))
    rule(fleet, training_time=60)
    fleet.submit(1)
    fleet.run(1)
    rule(fleet, training_time=100)
    for seconds, phase in ((60, Phase.RUNNING), (39, Phase.RUNNING), (1, Phase.STOPPING)):
        fleet.wait(seconds)
        assert fleet.workload(1).phase is phase


@pytest.mark.parametrize(
    ("kind", "preemptible", "limits"),
    [
        (WorkloadKind.TRAINING, True, {"training_idle": 60}),
        (WorkloadKind.WORKSPACE, False, {"interactive_idle": 60}),
        (WorkloadKind.WORKSPACE, True, {"interactive_preemptible_idle": 60}),
    ],
)
def test_idle_gpus_end_it(kind: WorkloadKind, preemptible: bool, limits: dict[str, int]) -> None:
    fleet = Fleet(node("a"))
    rule(fleet, **limits)
    fleet.submit(1, request(kind=kind, preemptible=preemptible))
    fleet.run(1)
    fleet.wait(100)
    idle = events.IdleReported(fleet.workload(1).id, fleet.now)
    fleet.send(idle)
    fleet.wait(59)
    fleet.send(events.IdleReported(fleet.workload(1).id, 0))
    fleet.wait(10)
    assert fleet.workload(1).phase is Phase.RUNNING, "any use begins it anew"
    fleet.send(events.IdleReported(fleet.workload(1).id, fleet.now - 50 * SECOND))
    fleet.wait(10)
    assert fleet.workload(1).phase is Phase.STOPPING
    assert fleet.workload(1).reason is ChangeReason.IDLE_LIMIT
    fleet.gone(1)
    assert (fleet.workload(1).phase, fleet.workload(1).reason) == (Phase.STOPPED, ChangeReason.IDLE_LIMIT)


def test_idleness_of_an_earlier_attempt_does_not_count() -> None:
    fleet = Fleet(node("a"))
    rule(fleet, training_idle=60)
    fleet.submit(1)
    fleet.send(events.IdleReported(fleet.workload(1).id, START - 1000 * SECOND))
    assert fleet.workload(1).phase is Phase.INITIALIZING
    fleet.send(events.IdleReported("00000000-0000-7000-8000-0000000000ff", START))
    fleet.wait(60)
    assert fleet.workload(1).phase is Phase.STOPPING, "it counts from the placement on"


def drained(name: str, number: int, at: int) -> Node:
    made = node(name, number)
    made.state, made.drain_deadline = NodeState.DRAINING, at
    return made


def test_a_drain_that_is_called_off_leaves_the_longest_run_as_it_was() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1)
    fleet.run(1)
    fleet.inventory("c1", [drained("a", 1, fleet.now + 100 * SECOND)])
    rule(fleet, training_time=300)
    fleet.inventory("c1", [node("a", 1)])
    fleet.wait(299)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(1)
    assert fleet.workload(1).reason is ChangeReason.RUN_TIME_LIMIT


def test_a_drain_moves_what_runs_a_grace_before_its_deadline() -> None:
    fleet = Fleet(node("a", 1), node("b", 2))
    fleet.submit(1)
    fleet.run(1)
    fleet.inventory("c1", [drained("a", 1, fleet.now + 100 * SECOND), node("b", 2)])
    fleet.wait(69)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(1)
    moving = fleet.workload(1)
    assert (moving.phase, moving.reason) == (Phase.TERMINATING, ChangeReason.NODE_CLOSING)
    assert moving.message == "node a has to be empty"
    fleet.gone(1)
    again = fleet.workload(1)
    assert {replica.node[1] for replica in again.replicas.values()} == {"b"}
    assert (again.exits, again.faults, again.preemptions, again.ours) == (0, 0, 0, 1)


def test_a_service_is_replaced_elsewhere_while_it_leaves() -> None:
    fleet = Fleet(node("a", 1), node("b", 2))
    fleet.submit(1, request(role(whole()), kind=WorkloadKind.INFERENCE))
    fleet.run(1)
    fleet.inventory("c1", [drained("a", 1, fleet.now + 30 * SECOND), node("b", 2)])
    service = fleet.workload(1)
    assert {(r.node[1], r.holder.k) for r in service.replicas.values()} == {("b", 1)}
    assert {(r.node[1], r.holder.k) for r in service.leaving.values()} == {("a", 0)}
    assert isinstance(fleet.records(1)[-1], Assign)
    fleet.send(fleet.status(1, None, k=0, gone=True))
    assert not fleet.workload(1).leaving


NO_EXECUTE = ("k", "v", "NoExecute")


def tainted(name: str, number: int = 1) -> Node:
    made = node(name, number)
    made.taints = (NO_EXECUTE,)
    return made


@pytest.mark.parametrize(
    ("tolerations", "stays"),
    [((), 0), ((Toleration("k", "v", seconds=60),), 60), ((Toleration("k", exists=True),), None)],
)
def test_no_execute_sends_away_what_does_not_tolerate_it(
    tolerations: tuple[Toleration, ...], stays: int | None
) -> None:
    fleet = Fleet(node("a", 1), node("b", 1))
    fleet.submit(1, request()._replace(terms=Terms(tolerations=tolerations)))
    fleet.run(1)
    fleet.wait(50)
    fleet.inventory("c1", [tainted("a"), node("b", 1)])
    assert (fleet.workload(1).phase is Phase.TERMINATING) is (stays == 0)
    fleet.wait(30)
    fleet.inventory("c1", [tainted("a"), node("b", 1)])
    fleet.wait(30)
    assert (fleet.workload(1).phase is Phase.TERMINATING) is (stays is not None), "the same taint begins no new stay"
    if stays is not None:
        fleet.gone(1)
        assert {replica.node[1] for replica in fleet.workload(1).replicas.values()} == {"b"}


def test_since_when_a_node_is_tainted() -> None:
    plain, marked = node("a"), tainted("a")
    assert tainted_since(None, plain, 5) == 0
    assert tainted_since(None, marked, 5) == 5
    assert tainted_since(plain, marked, 6) == 6
    marked.tainted = 6
    assert tainted_since(marked, tainted("a"), 9) == 6
    assert leave_by(plain, (), 30, 0) is None


def test_a_silent_clusters_workloads_are_looked_at_when_it_speaks_again() -> None:
    fleet = Fleet(node("a"))
    rule(fleet, training_time=60)
    fleet.submit(1)
    fleet.run(1)
    fleet.now += 100 * SECOND
    fleet.send()
    assert fleet.workload(1).phase is Phase.UNKNOWN
    held = events.Held(fleet.workload(1).id, 1, 1, 1, ())
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (held,), 1))
    fleet.wait(1)
    assert fleet.workload(1).phase is Phase.STOPPING


HOUR = 3600


def with_window(name: str, number: int, start: int, end: int) -> Node:
    """A node that has to be empty between these seconds from the beginning."""
    made = node(name, number)
    made.windows = ((START + start * SECOND, START + end * SECOND),)
    return made


def test_a_maintenance_window_is_kept_empty_and_ends() -> None:
    fleet = Fleet(with_window("a", 2, 10 * HOUR, 12 * HOUR))
    fleet.submit(1)
    fleet.run(1)
    assert fleet.workload(1).replicas, "ten hours before it anything may start"
    fleet.wait(9 * HOUR)
    fleet.submit(2)
    assert not fleet.workload(2).replicas, "one hour before it only what ends in time"
    fleet.wait(HOUR - 31)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(1)
    assert (fleet.workload(1).phase, fleet.workload(1).reason) == (Phase.TERMINATING, ChangeReason.NODE_CLOSING)
    fleet.gone(1)
    fleet.wait(2 * HOUR)
    assert fleet.workload(1).phase is Phase.PENDING
    fleet.wait(30)
    assert fleet.workload(1).replicas, "nobody has to say that it is over"
    assert fleet.workload(2).replicas


def test_the_end_of_a_window_is_waited_for() -> None:
    fleet = Fleet(with_window("a", 2, -HOUR, HOUR))
    fleet.submit(1)
    assert not fleet.workload(1).replicas
    assert fleet.state.next_time() == START + HOUR * SECOND
    fleet.state.begin(fleet.now)
    fleet.state.plan()
    fleet.state.abort()
    assert fleet.state.next_time() == START + HOUR * SECOND, "also after an abort"


@pytest.mark.parametrize(("limit", "starts"), [(1800, True), (HOUR - 30, True), (HOUR - 29, False), (7200, False)])
def test_what_ends_before_a_window_may_start(limit: int, starts: bool) -> None:
    fleet = Fleet(with_window("a", 2, HOUR, 2 * HOUR))
    rule(fleet, training_time=limit)
    fleet.submit(1)
    assert bool(fleet.workload(1).replicas) is starts, "its end takes half a minute, by the beginning of the window"


def test_what_just_ends_before_a_window_ends_by_its_own_limit() -> None:
    fleet = Fleet(with_window("a", 2, HOUR, 2 * HOUR))
    rule(fleet, training_time=HOUR - 30)
    fleet.submit(1)
    fleet.run(1)
    fleet.wait(HOUR - 31)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(1)
    assert (fleet.workload(1).phase, fleet.workload(1).reason) == (Phase.STOPPING, ChangeReason.RUN_TIME_LIMIT)


def test_an_old_revision_leaves_a_closing_node_for_good() -> None:
    fleet = Fleet(node("a", 1), node("b", 1))
    fleet.submit(1, request(role(whole()), kind=WorkloadKind.INFERENCE))
    fleet.run(1)
    fleet.submit(1, request(role(whole()), kind=WorkloadKind.INFERENCE, generation=2))
    assert {r.node[1] for r in fleet.workload(1).rolling.values()} == {"a"}
    fleet.inventory("c1", [drained("a", 1, fleet.now + 10 * SECOND), node("b", 1)])
    service = fleet.workload(1)
    assert not service.rolling
    assert service.old is None
    assert {r.node[1] for r in service.replicas.values()} == {"b"}
