"""A service gets new replicas only for what changes a replica; how many there are is no new revision."""

from __future__ import annotations

from typing import Any

from muster.events.v1 import policy_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_kernel.lifecycle import Phase
from muster_scheduler.adapters import encoding
from muster_scheduler.domain.asked.workloads import ReplicaState, Request
from muster_scheduler.domain.decisions import Scaled
from muster_scheduler.stream.intentions import admitted
from tests.support.fleets import Fleet, node, role, whole
from tests.support.growing import service, started

ALIKE = "0" * 32


def sized(size: int, generation: int, *, most: int = 4, replica: str = ALIKE) -> Request:
    return service(size, most)._replace(generation=generation, replica=replica, spec=b"")


def running(size: int) -> Fleet:
    """A service that is not advised and has all its replicas."""
    fleet = Fleet(node("a", 8))
    fleet.submit(1, sized(size, 1))
    fleet.run(1)
    return fleet


def test_more_replicas_join_those_that_run() -> None:
    fleet = running(1)
    workload = fleet.workload(1)
    (first,) = workload.replicas.values()
    fleet.submit(1, sized(2, 2))
    fleet.wait(1)
    assert (workload.generation, workload.revision, workload.rolling, workload.phase) == (2, 1, {}, Phase.RUNNING)
    assert workload.replicas["worker", 0] is first
    assert [holder.generation for holder in (each.holder for each in workload.replicas.values())] == [1, 1]
    assert [each for each in fleet.decisions if isinstance(each, Scaled)][-1] == Scaled(workload.id, 1, 2)
    record = encoding.assignment(workload, epoch=1, instance="i", grace=30)
    assert [(each.generation, sum(run.count for run in each.runs)) for each in record.revisions] == [(1, 2)]
    fleet.state.check()


def test_fewer_replicas_are_those_with_the_lowest_numbers() -> None:
    fleet = running(3)
    workload = fleet.workload(1)
    fleet.submit(1, sized(1, 2))
    assert (sorted(workload.replicas), len(workload.leaving)) == ([("worker", 0)], 2)
    for holder in list(workload.leaving):
        fleet.send(fleet.status(1, None, rank=holder.rank, k=holder.k, gone=True, generation=1))
    assert (workload.phase, workload.leaving) == (Phase.RUNNING, {})
    fleet.state.check()


def test_reports_of_kept_replicas_still_count_and_a_later_change_makes_a_revision() -> None:
    fleet = running(1)
    workload = fleet.workload(1)
    fleet.submit(1, sized(1, 2))
    fleet.send(fleet.status(1, ReplicaState.LOST, generation=1))
    assert workload.phase is Phase.DEGRADED
    fleet.submit(1, sized(1, 3, replica="1" * 32))
    assert (workload.generation, workload.revision, len(workload.rolling)) == (3, 3, 1)


def test_another_shape_or_an_unknown_replica_is_a_revision() -> None:
    for other in (
        sized(1, 2)._replace(roles=(role(whole(2), 1),)),
        sized(1, 2, replica=""),
        sized(1, 2)._replace(priority=75),
    ):
        fleet = running(1)
        fleet.submit(1, other)
        assert (fleet.workload(1).revision, len(fleet.workload(1).rolling)) == (2, 1)


def test_advice_on_the_number_of_replicas_outlives_a_new_minimum() -> None:
    fleet = started(Fleet(node("a", 8)), sized(1, 1))
    assert len(fleet.workload(1).replicas) == 4
    fleet.submit(1, sized(2, 2))
    assert len(fleet.workload(1).replicas) == 4


def request_of(**fields: Any) -> Request:
    """What the scheduler reads of an admitted service with these fields."""
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_INFERENCE, command="serve", **fields)
    message = policy_pb2.WorkloadAdmitted(
        workload_id="0190c0de-0000-7000-8000-000000000001",
        generation=1,
        project="p",
        department="d",
        name="n",
        effective_spec=spec,
        requests=[workload_pb2.ResourceRequest(role="worker", count=1)],
    )
    return admitted(message).request


def test_which_fields_change_a_replica() -> None:
    before = request_of(min_scale=1)
    assert request_of(min_scale=2, max_scale=3, backoff_limit=9).keeps_replicas_of(before)
    changed: list[dict[str, Any]] = [{"args": "x"}, {"image": "y"}, {"memory": "1Gi"}, {"priority_class": "build"}]
    assert not any(request_of(min_scale=1, **each).keeps_replicas_of(before) for each in changed)
