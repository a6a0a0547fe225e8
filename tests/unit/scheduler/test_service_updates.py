"""A service that is updated goes on serving: old replicas leave for new ones that start, one after the other."""

from __future__ import annotations

from muster_kernel.reasons import FailureClass
from muster_scheduler.domain.asked.workloads import ReplicaState, Workload
from tests.support.fleets import Fleet, node, whole
from tests.support.growing import updated


def left(fleet: Fleet, workload: Workload) -> None:
    """Those old ones that leave are gone; some time passes."""
    for holder in list(workload.leaving):
        fleet.send(fleet.status(1, None, rank=holder.rank, k=holder.k, gone=True, generation=1))
    fleet.state.check()
    fleet.wait(1)


def test_the_next_old_one_leaves_once_the_new_one_is_ready() -> None:
    fleet = updated(Fleet(node("a", 4)))
    workload = fleet.workload(1)
    for done in range(4):
        assert (len(workload.rolling), len(workload.leaving)) == (3 - done, 1)
        for _ in range(3):
            left(fleet, workload)
        assert [len(workload.replicas), len(workload.rolling), len(workload.leaving)] == [done + 1, 3 - done, 0]
        (new,) = (key for key, each in workload.replicas.items() if each.state is ReplicaState.ASSIGNED)
        fleet.send(fleet.status(1, ReplicaState.READY, rank=new[1]))
    assert (workload.phase.value, workload.old) == ("Running", None)


def test_a_revision_that_crashes_sends_nobody_away() -> None:
    fleet = updated(Fleet(node("a", 8)))
    workload = fleet.workload(1)
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=1, exit_code=3, failure=FailureClass.EXIT))
    fleet.send(fleet.status(1, None, rank=1, exit_code=3, failure=FailureClass.EXIT, gone=True))
    for _ in range(3):
        fleet.wait(1)
    assert (len(workload.replicas), len(workload.rolling), len(workload.leaving)) == (3, 4, 0)


def test_a_revision_that_fits_nowhere_sends_nobody_away() -> None:
    fleet = updated(Fleet(node("a", 4)), whole(6))
    workload = fleet.workload(1)
    for _ in range(3):
        left(fleet, workload)
    assert (len(workload.replicas), len(workload.rolling), len(workload.leaving)) == (0, 4, 0)


def test_for_a_larger_one_as_many_leave_as_it_takes() -> None:
    fleet = updated(Fleet(node("a", 4)), whole(3))
    workload = fleet.workload(1)
    for _ in range(5):
        left(fleet, workload)
    assert (len(workload.replicas), len(workload.rolling), len(workload.leaving)) == (1, 1, 0)
