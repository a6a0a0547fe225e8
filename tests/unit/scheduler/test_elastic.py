"""Elastic gangs: the gang is whole or not there, its surplus comes last and goes first, and nobody waits for it."""

from __future__ import annotations

import pytest

from muster.workload.v1 import workload_pb2
from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import ChangeReason, FailureClass, WaitingReason
from muster_scheduler.adapters.encoding import assignment
from muster_scheduler.adapters.workload_rows import of_request, of_workload, to_request, to_workload
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Request, Stretch
from muster_scheduler.domain.decisions import Scaled
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.stream.roles import shrunk, stretch_of
from tests.support.fleets import Fleet, node, request, role, whole, workload_id


def elastic(least: int, most: int, devices: int = 1, **more: int) -> Request:
    """A gang of `least` replicas that uses up to `most`."""
    made = request(role(whole(devices), least), **more)  # type: ignore[arg-type]
    return made._replace(stretch=Stretch("worker", least, most), spec=b"")


def ranks(fleet: Fleet, number: int = 1) -> list[int]:
    return sorted(rank for _, rank in fleet.workload(number).replicas)


def leaving(fleet: Fleet, number: int = 1) -> list[int]:
    return sorted(holder.rank for holder in fleet.workload(number).leaving)


def grown(*nodes: int, least: int = 2, most: int = 8, **more: int) -> Fleet:
    """A gang that has taken all that there is on nodes with so many cards."""
    fleet = Fleet(*(node(chr(ord("a") + at), cards) for at, cards in enumerate(nodes)))
    fleet.submit(1, elastic(least, most, **more))
    fleet.run(1)
    fleet.wait(30)
    fleet.run(1)
    return fleet


def all_leave(fleet: Fleet, number: int = 1) -> None:
    """What a gang gives up is gone."""
    holders = list(fleet.workload(number).leaving)
    fleet.send(*(fleet.status(number, None, rank=h.rank, k=h.k, gone=True) for h in holders))


def test_it_starts_with_what_its_gang_needs_and_grows_once_nobody_waited_for_a_while() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, elastic(2, 6))
    assert ranks(fleet) == [0, 1]
    fleet.run(1)
    fleet.wait(29)
    assert ranks(fleet) == [0, 1]
    made = fleet.wait(1)
    assert ranks(fleet) == [0, 1, 2, 3, 4, 5]
    assert Scaled(workload_id(1), 2, 6) in made
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(100)
    assert len(ranks(fleet)) == 6, "not beyond the most that it uses"


def test_it_does_not_start_with_less_and_grows_as_far_as_there_is_room() -> None:
    fleet = Fleet(node("a", 4))
    fleet.submit(1)
    fleet.submit(2, elastic(4, 6))
    assert fleet.workload(2).phase is Phase.PENDING
    fleet.finish(1)
    fleet.run(2)
    fleet.wait(60)
    assert ranks(fleet, 2) == [0, 1, 2, 3]


def test_somebody_who_waits_for_room_keeps_it_from_growing_and_starts_the_clock_anew() -> None:
    fleet = Fleet(node("a", 4), node("b", 1))
    fleet.submit(1, request(role(whole(3))))
    fleet.submit(2, elastic(1, 3))
    fleet.run(2)
    fleet.wait(20)
    fleet.submit(3, request(role(whole(4))))
    assert fleet.workload(3).phase is Phase.PENDING
    fleet.wait(60)
    assert ranks(fleet, 2) == [0]
    assert fleet.workload(2).calm_since == 0
    fleet.send(events.DeletionRequested("e", workload_id(3)))
    fleet.wait(29)
    assert ranks(fleet, 2) == [0]
    fleet.wait(1)
    assert ranks(fleet, 2) == [0, 1]


def test_the_surplus_is_charged_as_preemptible_whatever_the_gang_is() -> None:
    fleet = grown(4, preemptible=False)
    account = fleet.world.queues.account("p", "default")
    assert (account.held.gpu, account.bound.gpu) == (4 * GPU, 2 * GPU)


def test_the_surplus_shrinks_from_the_highest_index_and_nobody_is_evicted() -> None:
    fleet = grown(8)
    fleet.submit(2)
    fleet.run(1)
    fleet.submit(3, request(role(whole(2))))
    assert ranks(fleet) == [0, 1, 2, 3, 4]
    assert leaving(fleet) == [5, 6, 7]
    assert fleet.workload(3).claim is not None
    all_leave(fleet)
    assert fleet.workload(2).phase is Phase.INITIALIZING
    assert fleet.workload(3).phase is Phase.INITIALIZING
    assert fleet.workload(1).phase is Phase.RUNNING
    assert fleet.workload(1).attempt == 1


def test_it_gives_no_more_than_is_needed_and_never_what_its_gang_needs() -> None:
    fleet = grown(4, 4)
    fleet.submit(2, request(role(whole(3))))
    assert len(leaving(fleet)) == 3
    fleet.submit(3, request(role(whole(4)), preemptible=False, priority=10))
    assert fleet.workload(3).phase is Phase.PENDING
    assert {0, 1} <= set(ranks(fleet))


def test_of_several_gangs_the_one_with_most_to_spare_gives_first() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, elastic(1, 3))
    fleet.submit(2, elastic(1, 8))
    fleet.run(1)
    fleet.run(2)
    fleet.wait(30)
    assert (len(ranks(fleet, 1)), len(ranks(fleet, 2))) == (3, 5), "they grow in turn"
    fleet.submit(3, request(role(whole(2))))
    assert (len(ranks(fleet, 1)), len(ranks(fleet, 2))) == (3, 3)


def test_an_index_that_comes_back_has_another_name() -> None:
    fleet = grown(4)
    fleet.submit(2)
    all_leave(fleet)
    fleet.run(2)
    fleet.finish(2)
    fleet.wait(30)
    assert ranks(fleet) == [0, 1, 2, 3]
    assert fleet.workload(1).replicas["worker", 3].holder.k == 1


@pytest.mark.parametrize("preemptible", [True, False])
def test_surplus_goes_before_anybody_is_evicted_where_both_are_needed(preemptible: bool) -> None:
    fleet = grown(4, most=3, preemptible=preemptible)
    fleet.submit(2, request(priority=10))
    fleet.run(2)
    fleet.submit(3, request(role(whole(2)), priority=90))
    assert leaving(fleet) == [2]
    assert fleet.workload(2).phase is Phase.TERMINATING
    assert fleet.workload(1).phase is Phase.RUNNING
    all_leave(fleet)
    assert fleet.workload(3).phase is Phase.PENDING
    fleet.gone(2)
    assert fleet.workload(3).phase is Phase.INITIALIZING


def test_quota_that_only_the_surplus_holds_is_given_back() -> None:
    fleet = Fleet(node("a", 8), quota=4)
    fleet.project("p", {"default": 4}, limit=4)
    fleet.submit(1, elastic(2, 8))
    fleet.run(1)
    fleet.wait(30)
    fleet.run(1)
    assert ranks(fleet) == [0, 1, 2, 3], "as far as its quota goes"
    fleet.submit(2)
    assert leaving(fleet) == [3]
    assert fleet.workload(2).phase is Phase.INITIALIZING, "there are idle cards: only the quota was short"
    fleet.submit(3, request(role(whole(2))))
    assert ranks(fleet) == [0, 1, 2], "all that it has would not be enough"
    waits = fleet.world.waiting.reason(workload_id(3))
    assert waits is not None
    assert waits.code is WaitingReason.OVER_LIMIT


@pytest.mark.parametrize("failure", [FailureClass.INFRASTRUCTURE, FailureClass.START])
def test_what_it_can_do_without_fails_alone(failure: FailureClass) -> None:
    fleet = grown(4)
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=3, failure=failure))
    gang = fleet.workload(1)
    assert (gang.phase, ranks(fleet), gang.faults) == (Phase.RUNNING, [0, 1, 2], 1)
    all_leave(fleet)
    fleet.wait(29)
    assert ranks(fleet) == [0, 1, 2]
    fleet.wait(1)
    assert ranks(fleet) == [0, 1, 2, 3]


def test_what_its_gang_needs_takes_it_down() -> None:
    fleet = grown(4)
    fleet.wait(100)
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=1, failure=FailureClass.INFRASTRUCTURE))
    assert fleet.workload(1).phase is Phase.TERMINATING


def test_an_exit_right_after_a_change_of_size_costs_no_restart() -> None:
    fleet = grown(4, backoff_limit=1)
    fleet.wait(10)
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=0, exit_code=1, failure=FailureClass.EXIT))
    gang = fleet.workload(1)
    assert (gang.phase, gang.exits, gang.ours) == (Phase.TERMINATING, 0, 1)
    fleet.gone(1)
    fleet.wait(10)
    assert fleet.workload(1).phase is Phase.INITIALIZING
    fleet.run(1)
    fleet.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    assert fleet.workload(1).exits == 1, "once a change"


def test_lost_surplus_does_not_make_a_gang_stale() -> None:
    fleet = grown(4)
    fleet.send(fleet.status(1, ReplicaState.LOST, rank=3))
    fleet.wait(60)
    assert fleet.workload(1).phase is Phase.DEGRADED
    fleet.send(fleet.status(1, ReplicaState.LOST, rank=1))
    fleet.wait(60)
    assert (fleet.workload(1).phase, fleet.workload(1).reason) == (Phase.TERMINATING, ChangeReason.BELOW_MINIMUM)


def test_it_ends_well_with_the_members_that_it_has() -> None:
    fleet = grown(4)
    fleet.finish(1)
    assert fleet.workload(1).phase is Phase.COMPLETED


def test_rows_keep_what_decides() -> None:
    fleet = grown(4, most=5)
    gang = fleet.workload(1)
    assert gang.request is not None
    assert to_request(*of_request(gang.request), b"") == gang.request
    row = {"id": gang.id, "project": "p", "name": "w1", "phase": "Running", "desired": "Running", "attempt": 1}
    read, _ = to_workload({**row, "body": of_workload(gang)}, {})
    assert (read.calm_since, read.resized) == (gang.calm_since, gang.resized)
    assert gang.resized > 0


def test_a_gang_that_found_no_room_is_not_tried_again_before_something_changes() -> None:
    fleet = grown(4, most=5)
    assert list(fleet.world.waiting.stuck) == [workload_id(1)]
    assert fleet.state.next_time() is None
    fleet.inventory("c1", [node("a", 4), node("b", 1)])
    fleet.wait(0)
    assert ranks(fleet) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("said", "stretch"),
    [
        ({"min_replicas": 2, "max_replicas": 8}, Stretch("worker", 2, 8)),
        ({"max_replicas": 8}, Stretch("worker", 4, 8)),
        ({"min_replicas": 2}, Stretch("worker", 2, 4)),
        ({}, None),
        ({"min_replicas": 4, "max_replicas": 4}, None),
        ({"min_replicas": 2, "command": "python train.py"}, None),
        ({"min_replicas": 2, "command": "torchrun --nnodes=4 train.py"}, None),
        ({"min_replicas": 2, "topology_group": "rack", "topology_group_size": 2}, None),
        ({"min_replicas": 2, "framework": workload_pb2.FRAMEWORK_MPI}, None),
    ],
)
def test_what_specs_say(said: dict[str, object], stretch: Stretch | None) -> None:
    plain = {"framework": workload_pb2.FRAMEWORK_PYTORCH, "workers": 4, "command": "torchrun train.py"}
    assert stretch_of(workload_pb2.WorkloadSpec(**{**plain, **said})) == stretch  # type: ignore[arg-type]
    roles = (role(whole(), 1, "master"), role(whole(), 4))
    assert [each.size for each in shrunk(roles, stretch)] == [1, stretch.least if stretch else 4]


def test_the_record_says_between_which_numbers_and_what_is_no_longer_wanted() -> None:
    fleet = grown(4)
    fleet.submit(2)
    record = assignment(fleet.workload(1), epoch=1, instance="i", grace=30)
    (revision,) = record.revisions
    assert (revision.least, revision.most) == (2, 8)
    assert sum(run.count for run in revision.runs) == 3
    assert [(run.role, run.first_index, run.count) for run in record.leaving] == [("worker", 3, 1)]
    all_leave(fleet)
    assert not assignment(fleet.workload(1), epoch=1, instance="i", grace=30).leaving


@pytest.mark.parametrize(
    ("closing", "phase", "left"),
    [("a", Phase.RUNNING, [0, 1]), ("b", Phase.TERMINATING, [0, 1, 2, 3, 4, 5])],
)
def test_a_closing_node_takes_what_is_spare_there_and_else_the_gang(
    closing: str, phase: Phase, left: list[int]
) -> None:
    fleet = grown(4, 2)
    assert {r.node[1] for r in fleet.workload(1).replicas.values() if r.holder.rank < 2} == {"b"}
    nodes = {"a": node("a", 4), "b": node("b", 2)}
    nodes[closing].state = NodeState.DRAINING
    nodes[closing].drain_deadline = fleet.now + 10 * SECOND
    fleet.inventory("c1", nodes.values())
    assert (fleet.workload(1).phase, ranks(fleet)) == (phase, left)


def test_a_late_replica_that_could_not_be_started_is_given_back() -> None:
    fleet = grown(4)
    fleet.send(fleet.status(1, None, rank=2, gone=True))
    gang = fleet.workload(1)
    assert (gang.phase, gang.attempt, ranks(fleet), leaving(fleet)) == (Phase.RUNNING, 1, [0, 1, 3], [])
    fleet.submit(2)
    assert fleet.workload(2).phase is Phase.INITIALIZING


def test_why_says_what_it_needs_and_how_far_it_grows() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1, elastic(2, 8))
    assert explain(fleet.world, fleet.workload(1)).asks == "2 x 1 GPU, and more up to 8 replicas while nobody waits"
