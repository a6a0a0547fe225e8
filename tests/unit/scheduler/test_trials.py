"""Independent trials: each its own place, number and end; what is done is done, what fails runs again."""

from __future__ import annotations

import json

import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.events import Reject
from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.adapters.workload_rows import of_request, of_workload, to_request
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.limits import FAULT_LIMIT
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Request, Trials
from muster_scheduler.domain.decisions import PhaseChange
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.stream.roles import roles_of, trials_of
from tests.support.fleets import Fleet, host, node, request, role, whole


def series(completions: int, at_once: int, **more: object) -> Request:
    return request(role(whole()), **more)._replace(trials=Trials(completions, at_once))  # type: ignore[arg-type]


def running(fleet: Fleet, number: int = 1) -> list[int]:
    return sorted(rank for _, rank in fleet.workload(number).replicas)


def end(fleet: Fleet, rank: int, *, code: int = 0, failure: FailureClass = FailureClass.EXIT) -> None:
    """One trial ends and is gone."""
    state = ReplicaState.SUCCEEDED if code == 0 else ReplicaState.FAILED
    said = FailureClass.NONE if code == 0 else failure
    k = fleet.workload(1).replicas["worker", rank].holder.k
    fleet.send(fleet.status(1, state, rank=rank, exit_code=code, failure=said))
    fleet.send(fleet.status(1, None, rank=rank, exit_code=code, failure=said, gone=True, k=k))


def test_every_number_runs_once_and_the_last_end_is_the_workloads() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(5, 2))
    assert running(fleet) == [0, 1]
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert fleet.workload(1).phase is Phase.RUNNING, "as soon as one does"
    end(fleet, 1)
    assert running(fleet) == [0, 2]
    end(fleet, 2)
    end(fleet, 0)
    assert running(fleet) == [3, 4]
    end(fleet, 4)
    assert fleet.workload(1).phase is Phase.RUNNING
    end(fleet, 3)
    assert fleet.workload(1).phase is Phase.COMPLETED
    assert not fleet.workload(1).everyone()


def test_many_trials_take_many_cycles_and_none_of_them_is_long() -> None:
    fleet = Fleet(node("a", 8))
    fleet.send(fleet.admitted(1, request(role(host(1, 1)))._replace(trials=Trials(2_000, 2_000))), budget=Budget())
    placed = len(fleet.workload(1).replicas)
    assert 1 < placed <= 300, "some tenths of a millisecond each: ten thousand in one cycle would stop everything else"
    while placed < 2_000:
        fleet.send(budget=Budget())
        assert placed < len(fleet.workload(1).replicas) <= placed + 300
        placed = len(fleet.workload(1).replicas)


def test_there_is_no_gang_one_place_is_enough_to_begin() -> None:
    fleet = Fleet(node("a", 1), node("b", 1))
    fleet.submit(1)
    fleet.submit(2, series(3, 3))
    assert running(fleet, 2) == [0]
    fleet.finish(1)
    assert running(fleet, 2) == [0, 1], "others follow where there is room"


def test_why_says_what_each_of_them_asks_for() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1)
    fleet.submit(2, series(12, 3))
    assert explain(fleet.world, fleet.workload(2)).asks == "1 GPU for each of 12 trials, 3 at once"


def test_a_failed_trial_runs_again_under_its_number_after_a_pause() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(4, 2))
    end(fleet, 1, code=3)
    assert running(fleet) == [0], "its number is not given to the next"
    assert fleet.workload(1).exits == 1
    fleet.wait(10)
    assert running(fleet) == [0, 1]
    assert fleet.workload(1).replicas["worker", 1].holder.k == 1
    assert fleet.workload(1).attempt == 1, "the others went on"


def test_the_workloads_budget_is_spent_by_all_of_them() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(4, 2, backoff_limit=1))
    end(fleet, 0, code=3)
    end(fleet, 1, code=4)
    failed = fleet.workload(1)
    assert (failed.phase, failed.reason) == (Phase.FAILED, ChangeReason.EXIT_LIMIT)
    assert failed.message == "trial 1 (failure 2, backoffLimit 1): worker-1 exited with 4 (Exit)"


def told(fleet: Fleet) -> str:
    """What people last heard of it."""
    said = [each for each in fleet.decisions if isinstance(each, PhaseChange)][-1]
    assert (said.reason, said.message) == (fleet.workload(1).reason, fleet.workload(1).message)
    return f"{said.after}: {said.message}"


def test_a_pause_in_which_nothing_runs_is_told_until_the_trial_runs_again() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(3, 1, backoff_limit=2))
    fleet.run(1)
    assert told(fleet) == "Running: 0 of 3 trials are done, at most 1 run at once"
    for number, pause in ((1, 10), (2, 20)):
        end(fleet, 0, code=4)
        assert not fleet.workload(1).everyone()
        assert told(fleet) == (
            f"Running: trial 0 (failure {number}, backoffLimit 2) starts again after a pause of {pause} s: "
            "worker-0 exited with 4 (Exit)"
        )
        fleet.wait(pause)
        fleet.report(1, ReplicaState.READY)
        assert told(fleet) == "Running: 0 of 3 trials are done, at most 1 run at once"
    end(fleet, 0, code=4)
    assert told(fleet) == "Failed: trial 0 (failure 3, backoffLimit 2): worker-0 exited with 4 (Exit)"


def test_a_pause_before_any_trial_ran_is_told_too_and_beside_others_that_run() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(3, 2))
    end(fleet, 1, code=4)
    pause = "trial 1 (failure 1, backoffLimit 6) starts again after a pause of 10 s: worker-1 exited with 4 (Exit)"
    assert told(fleet) == f"Initializing: {pause}"
    fleet.send(fleet.status(1, ReplicaState.READY, rank=0))
    assert told(fleet) == f"Running: {pause}"
    fleet.wait(10)
    end(fleet, 0)
    assert told(fleet) == f"Running: {pause}"
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert told(fleet) == "Running: 1 of 3 trials are done, at most 2 run at once"


def test_a_trial_that_runs_again_is_not_told_to_rest_because_another_one_does() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(3, 2))
    fleet.run(1)
    end(fleet, 0, code=4)
    end(fleet, 1, code=4)
    fleet.wait(10)
    fleet.send(fleet.status(1, ReplicaState.READY, rank=0))
    assert told(fleet).startswith("Running: trial 1 (failure 2, backoffLimit 6) starts again after a pause of 10 s")
    end(fleet, 0, code=4)
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert told(fleet).startswith("Running: trial 0 (failure 3, backoffLimit 6) starts again after a pause of 20 s")
    end(fleet, 1, code=4)
    fleet.wait(20)
    fleet.send(fleet.status(1, ReplicaState.READY, rank=1))
    assert told(fleet) == "Running: 0 of 3 trials are done, at most 2 run at once", (
        "and no longer of trial 1, while trial 0 starts"
    )


def test_a_trial_that_was_told_to_start_again_and_is_done_is_told_no_longer() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(2, 2))
    fleet.run(1)
    end(fleet, 1, code=4)
    fleet.wait(10)
    end(fleet, 1)
    assert told(fleet) == "Running: 1 of 2 trials are done, at most 2 run at once"


def test_a_fault_of_the_fleet_is_counted_against_its_own_limit() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(2, 1, backoff_limit=0))
    end(fleet, 0, code=1, failure=FailureClass.INFRASTRUCTURE)
    said = f"trial 0 (fault 1 of the fleet in a row, {FAULT_LIMIT} are allowed) starts again after a pause of 10 s"
    assert told(fleet) == f"Initializing: {said}: worker-0 exited with 1 (Infrastructure)"


def test_a_failure_that_is_musters_own_is_not_taken_from_the_users_limit() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(2, 1, backoff_limit=1))
    for number in (1, 2, 3):
        end(fleet, 0, code=1, failure=FailureClass.OURS)
        assert told(fleet).startswith(
            f"Initializing: trial 0 (fault {number} of the fleet in a row, {FAULT_LIMIT} are allowed)"
        )
        fleet.wait(400)
    end(fleet, 0, code=1)
    assert told(fleet).startswith("Initializing: trial 0 (failure 1, backoffLimit 1) starts again")
    assert (fleet.workload(1).trial_faults, fleet.workload(1).exits) == (((0, 3),), 1)


@pytest.mark.parametrize(
    ("failure", "times", "reason"),
    [
        (FailureClass.OUT_OF_MEMORY, 1, ChangeReason.OUT_OF_MEMORY),
        (FailureClass.INFRASTRUCTURE, FAULT_LIMIT + 1, ChangeReason.INFRASTRUCTURE_LIMIT),
        (FailureClass.OURS, FAULT_LIMIT + 1, ChangeReason.INFRASTRUCTURE_LIMIT),
    ],
)
def test_other_budgets(failure: FailureClass, times: int, reason: ChangeReason) -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(4, 1))
    for _ in range(times):
        assert fleet.workload(1).phase is Phase.INITIALIZING
        end(fleet, 0, code=1, failure=failure)
        fleet.wait(400)
    assert (fleet.workload(1).phase, fleet.workload(1).reason) == (Phase.FAILED, reason)
    assert fleet.workload(1).message.endswith(f": worker-0 exited with 1 ({failure.value})")


def test_what_is_done_stays_done_over_a_suspension() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(5, 2))
    end(fleet, 0)
    assert running(fleet) == [1, 2]
    fleet.send(events.SuspendRequested("e", fleet.workload(1).id))
    fleet.gone(1)
    assert fleet.workload(1).phase is Phase.STOPPED
    fleet.send(events.ResumeRequested("e", fleet.workload(1).id))
    assert running(fleet) == [1, 2], "begun and not done"
    assert fleet.workload(1).attempt == 2
    for rank in (1, 2, 3, 4):
        end(fleet, rank)
    assert fleet.workload(1).phase is Phase.COMPLETED


def test_without_room_for_the_next_it_waits_in_the_queue_again() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1, series(2, 1))
    fleet.run(1)
    closed = node("a", 1, state=NodeState.CORDONED)
    fleet.inventory("c1", [closed])
    end(fleet, 0)
    assert fleet.workload(1).phase is Phase.PENDING
    fleet.inventory("c1", [node("a", 1)])
    assert running(fleet) == [1]
    end(fleet, 1)
    assert fleet.workload(1).phase is Phase.COMPLETED


def test_a_closing_node_moves_its_trials_and_no_others() -> None:
    fleet = Fleet(node("a", 1), node("b", 2))
    fleet.submit(1, series(4, 2))
    fleet.run(1)
    moved = [rank for (_, rank), r in sorted(fleet.workload(1).replicas.items()) if r.node[1] == "a"]
    draining = node("a", 1, state=NodeState.DRAINING)
    draining.drain_deadline = fleet.now + 10 * SECOND
    fleet.inventory("c1", [draining, node("b", 2)])
    assert fleet.workload(1).phase is Phase.RUNNING
    assert {r.node[1] for r in fleet.workload(1).replicas.values()} == {"b"}
    assert sorted(h.rank for h in fleet.workload(1).leaving) == moved


def test_a_silent_cluster_and_its_return() -> None:
    fleet = Fleet(node("a", 2))
    fleet.submit(1, series(3, 2))
    fleet.now += 100 * SECOND
    fleet.send()
    assert fleet.workload(1).phase is Phase.UNKNOWN
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (events.Held(fleet.workload(1).id, 1, 1, 1, ()),), 1))
    assert fleet.workload(1).phase is Phase.INITIALIZING
    fleet.send(fleet.status(1, ReplicaState.READY, rank=0))
    assert fleet.workload(1).phase is Phase.RUNNING


def test_rows_keep_the_numbers() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, series(9, 3))
    body = json.loads(of_workload(fleet.workload(1)))
    assert (body["next_trial"], body["open_trials"]) == (3, [0, 1, 2])
    asked = fleet.workload(1).request
    assert asked is not None
    assert to_request(*of_request(asked), asked.spec) == asked


@pytest.mark.parametrize(
    ("kind", "completions", "parallelism", "found"),
    [
        (options_pb2.KIND_TRAINING, 12, 3, Trials(12, 3)),
        (options_pb2.KIND_TRAINING, 12, 0, Trials(12, 1)),
        (options_pb2.KIND_TRAINING, 1, 0, None),
        (options_pb2.KIND_WORKSPACE, 12, 3, None),
    ],
)
def test_what_specs_say(
    kind: options_pb2.Kind.ValueType, completions: int, parallelism: int, found: Trials | None
) -> None:
    spec = workload_pb2.WorkloadSpec(kind=kind, completions=completions, parallelism=parallelism)
    assert trials_of(spec) == found


def test_a_trial_is_one_replica() -> None:
    asked = workload_pb2.ResourceRequest(role="worker", count=3, gpu_devices=1)
    assert [each.size for each in roles_of([asked], alone=True)] == [1]
    with pytest.raises(Reject, match="trials have one role, not 2"):
        roles_of([asked, workload_pb2.ResourceRequest(role="master", count=1)], alone=True)
