"""Inference services: replicas come and go, are scaled, replaced and rolled over."""

from __future__ import annotations

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import ReplicaState, Request, WorkloadKind
from muster_scheduler.domain.decisions import Assign, PhaseChange, Scaled
from muster_scheduler.domain.placement.place import Budget
from tests.support.fleets import Fleet, node, request, role, whole


def service(size: int = 2, *, generation: int = 1, most: int = 4) -> Request:
    return request(
        role(whole(1), size), kind=WorkloadKind.INFERENCE, generation=generation, max_scale=most, preemptible=False
    )


def test_degraded_and_back() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.send(fleet.status(1, ReplicaState.READY, rank=0))
    assert workload.phase is Phase.DEGRADED
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert workload.phase is Phase.RUNNING
    fleet.send(fleet.status(1, ReplicaState.LOST, rank=1))
    assert workload.phase is Phase.DEGRADED
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert workload.phase is Phase.RUNNING


def test_a_failing_replica_is_replaced_without_limit() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.run(1)
    for k in range(8):
        assert workload.replicas["worker", 1].holder.k == k
        fleet.send(fleet.status(1, ReplicaState.FAILED, rank=1, exit_code=1, failure=FailureClass.EXIT))
        assert workload.phase is Phase.DEGRADED
        fleet.send(fleet.status(1, None, rank=1, gone=True))
        assert ("worker", 1) not in workload.replicas
        fleet.wait(361)
        fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
        assert workload.phase is Phase.RUNNING
    assert workload.attempt == 1
    assert workload.exits == 8


def test_a_failure_that_is_musters_own_is_no_exit_of_the_server() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.run(1)
    fleet.send(fleet.status(1, None, rank=1, failure=FailureClass.OURS, gone=True))
    assert workload.exits == 0


def test_a_server_that_exits_with_zero_is_replaced_too() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service(1))
    fleet.run(1)
    fleet.finish(1)
    assert workload.phase is Phase.DEGRADED
    fleet.wait(11)
    fleet.run(1)
    assert workload.phase is Phase.RUNNING


def test_the_pause_of_a_service_with_no_replica_is_told_until_it_serves_again() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service(1))
    fleet.send(fleet.status(1, None, exit_code=3, failure=FailureClass.EXIT, gone=True))
    pause = "worker-0 starts again after a pause of {} s: worker-0 exited with {}"
    assert (workload.phase, workload.message) == (Phase.INITIALIZING, pause.format(10, "3 (Exit)"))
    fleet.wait(10)
    fleet.run(1)
    assert (workload.phase, workload.message) == (Phase.RUNNING, "")
    fleet.send(fleet.status(1, None, exit_code=0, gone=True))
    assert (workload.phase, workload.message) == (Phase.DEGRADED, pause.format(20, "0"))
    fleet.wait(20)
    fleet.run(1)
    assert (workload.phase, workload.reason, workload.message) == (Phase.RUNNING, ChangeReason.ALL_READY, "")


def exits(fleet: Fleet, rank: int) -> None:
    fleet.send(fleet.status(1, None, rank=rank, exit_code=1, failure=FailureClass.EXIT, gone=True))


def test_a_pause_is_told_no_longer_once_the_replica_runs_though_another_one_is_silent() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 2))
    workload = fleet.submit(1, service())
    fleet.run(1)
    exits(fleet, 0)
    fleet.send(fleet.status(1, ReplicaState.LOST, rank=1))
    assert workload.message.startswith("worker-0 starts again after a pause of 10 s")
    fleet.wait(10)
    fleet.send(fleet.status(1, ReplicaState.STARTING, rank=0))
    assert workload.message.startswith("worker-0 starts again"), "it does not run yet"
    fleet.send(fleet.status(1, ReplicaState.READY, rank=0))
    told = workload.phase, workload.reason, workload.message
    assert told[:2] == (Phase.DEGRADED, ChangeReason.NODE_LOST)
    said = [each for each in fleet.decisions if isinstance(each, PhaseChange)][-1]
    assert (said.after, said.reason, said.message) == told


def test_a_pause_is_told_no_longer_of_a_replica_that_falls_silent_itself() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.run(1)
    exits(fleet, 0)
    fleet.wait(10)
    fleet.send(fleet.status(1, ReplicaState.LOST, rank=0))
    assert (workload.phase, workload.reason) == (Phase.DEGRADED, ChangeReason.NODE_LOST)


def test_a_pause_is_told_of_the_one_that_rests_and_of_no_other_that_failed_before() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service(3))
    fleet.run(1)
    exits(fleet, 0)
    exits(fleet, 1)
    assert workload.message.startswith("worker-1 starts again")
    fleet.wait(10)
    fleet.send(fleet.status(1, ReplicaState.READY, rank=0))
    assert workload.message.startswith("worker-1 starts again")
    fleet.send(fleet.status(1, ReplicaState.LOST, rank=0))
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert workload.reason is ChangeReason.NODE_LOST


def test_a_pause_is_still_told_when_the_first_other_replica_serves() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    exits(fleet, 0)
    pause = workload.message
    assert workload.phase is Phase.INITIALIZING
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert (workload.phase, workload.reason, workload.message) == (Phase.DEGRADED, ChangeReason.RESTART, pause)


def test_an_update_is_told_again_after_a_pause_in_it() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.run(1)
    fleet.send(fleet.admitted(1, service(generation=2)))
    fleet.send(fleet.status(1, None, rank=0, generation=2, exit_code=1, failure=FailureClass.EXIT, gone=True))
    assert (workload.phase, workload.reason) == (Phase.UPDATING, ChangeReason.RESTART)
    fleet.wait(10)
    fleet.send(fleet.status(1, ReplicaState.READY, rank=0, generation=2))
    assert workload.replicas["worker", 0].state is ReplicaState.READY
    assert (workload.phase, workload.reason, workload.message) == (Phase.UPDATING, ChangeReason.NEW_REVISION, "")


def test_scaling_within_what_the_spec_allows() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service(2, most=4))
    fleet.run(1)
    fleet.send(events.ScaleAdvised(workload.id, 9))
    assert len(workload.replicas) == 4
    assert Scaled(workload.id, 2, 4) in fleet.decisions
    fleet.run(1)
    fleet.send(events.ScaleAdvised(workload.id, 0))
    assert sorted(workload.replicas) == [("worker", 0), ("worker", 1)]
    assert len(workload.leaving) == 2
    fleet.gone(1)
    assert not workload.leaving


def test_what_is_wanted_again_before_it_is_gone_is_another_replica() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service(1))
    fleet.run(1)
    for replicas in (2, 1, 2):
        fleet.send(events.ScaleAdvised(workload.id, replicas))
    (old,) = workload.leaving
    assert (old.rank, old.k, workload.replicas["worker", 1].holder.k) == (1, 0, 1)
    fleet.send(fleet.status(1, None, rank=1, k=0, gone=True))
    fleet.run(1)
    assert (workload.phase, workload.leaving, len(workload.replicas)) == (Phase.RUNNING, {}, 2)


def test_a_service_is_whole_once_the_replica_that_rests_is_not_wanted_any_more() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.send(events.ScaleAdvised(workload.id, 3))
    fleet.run(1)
    exits(fleet, 2)
    assert (workload.phase, workload.reason) == (Phase.DEGRADED, ChangeReason.RESTART)
    fleet.send(events.ScaleAdvised(workload.id, 2))
    assert (workload.phase, workload.reason, workload.message) == (Phase.RUNNING, ChangeReason.ALL_READY, "")


def test_a_pause_is_told_no_longer_of_a_replica_that_is_not_wanted_any_more() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.send(events.ScaleAdvised(workload.id, 3))
    fleet.run(1)
    fleet.send(fleet.status(1, ReplicaState.LOST, rank=0))
    exits(fleet, 2)
    fleet.send(events.ScaleAdvised(workload.id, 2))
    assert (workload.phase, workload.reason) == (Phase.DEGRADED, ChangeReason.NODE_LOST)


def test_a_new_revision_beside_the_old_one() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, service())
    fleet.run(1)
    fleet.send(fleet.admitted(1, service(generation=2)))
    assert workload.phase is Phase.UPDATING
    assert len(workload.rolling) == 2
    assert len(workload.replicas) == 2
    assert {r.holder.generation for r in workload.replicas.values()} == {2}
    fleet.report(1, ReplicaState.READY)
    assert not workload.rolling
    assert workload.phase is Phase.RUNNING
    assert workload.old is None
    assert isinstance(fleet.records(1)[-1], Assign)
    old = list(workload.leaving)
    assert {holder.generation for holder in old} == {1}


def test_a_new_revision_in_the_place_of_the_old_one() -> None:
    fleet = Fleet(node("n1", 2))
    workload = fleet.submit(1, service())
    fleet.run(1)
    fleet.send(fleet.admitted(1, service(generation=2)))
    assert workload.phase is Phase.UPDATING
    for _ in range(2):
        (holder,) = workload.leaving
        fleet.send(fleet.status(1, None, rank=holder.rank, k=holder.k, generation=1, gone=True))
        fleet.report(1, ReplicaState.READY)
    assert workload.phase is Phase.RUNNING
    assert {r.holder.generation for r in workload.replicas.values()} == {2}


def test_a_waiting_service_takes_its_new_generation() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1, service(2))
    assert workload.phase is Phase.PENDING
    fleet.send(fleet.admitted(1, service(1, generation=2)))
    assert workload.phase is Phase.INITIALIZING
    assert workload.generation == 2


def test_a_service_without_replicas_is_running() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1, service(0))
    assert (workload.phase, workload.message) == (Phase.RUNNING, "it should have no replicas now")
    fleet.send(events.ScaleAdvised(workload.id, 1))
    fleet.run(1)
    assert (workload.phase, workload.message) == (Phase.RUNNING, "")
    fleet.send(events.ScaleAdvised(workload.id, 0))
    fleet.gone(1)
    assert (workload.phase, workload.message) == (Phase.RUNNING, "it should have no replicas now")


def test_scale_advice_for_a_training_means_nothing() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    fleet.send(events.ScaleAdvised(workload.id, 5))
    assert len(workload.replicas) == 1


def test_new_generations_of_trainings_and_of_the_final_are_ignored() -> None:
    fleet = Fleet(node("n1"))
    training = fleet.submit(1)
    fleet.send(fleet.admitted(1, request(generation=2)))
    assert training.generation == 1
    fleet.submit(2, service())
    fleet.send(events.DeletionRequested("e", fleet.workload(2).id))
    fleet.send(fleet.admitted(2, service(generation=2)))
    assert fleet.workload(2).generation == 1


def test_a_service_that_is_scaled_while_it_waits_has_all_its_replicas_once_it_is_placed() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1)
    service = fleet.submit(2, request(role(whole()), kind=WorkloadKind.INFERENCE, max_scale=3))
    fleet.send(events.ScaleAdvised(service.id, 3))
    fleet.inventory("c1", [node("a", 1), node("b", 4)])
    assert len(service.replicas) == 3


def test_a_service_that_grows_leaves_something_of_the_cycle_to_others() -> None:
    fleet = Fleet(node("n1", 8), node("n2", 8))
    workload = fleet.submit(1, service(1, most=16))
    fleet.send(events.ScaleAdvised(workload.id, 12), budget=Budget(visits=1))
    few = len(workload.replicas)
    assert 1 <= few < 12, "what one cycle may do is not enough for all"
    fleet.wait(1)
    assert len(workload.replicas) == 12, "the next one goes on"


def test_replicas_that_are_alike_are_refused_once() -> None:
    fleet = Fleet(node("n1", 2))
    workload = fleet.submit(1, service(1, most=500))
    budget = Budget()
    fleet.send(events.ScaleAdvised(workload.id, 500), budget=budget)
    assert len(workload.replicas) == 2
    # The one that was placed by itself costs a hundred visits; the five hundred that were refused cost next to none.
    assert budget.visits > Budget().visits - 110, "who waits has a turn in the same cycle"
