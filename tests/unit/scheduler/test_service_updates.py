"""A service that is updated goes on serving: old replicas leave for new ones that start, one after the other."""

from __future__ import annotations

from muster_kernel.reasons import FailureClass
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.workloads import ReplicaState, Workload
from tests.support.fleets import Fleet, node, role, whole
from tests.support.growing import service, started

OTHER = whole(1, cpu=2_000)


def updated(cards: int, shape: Shape = OTHER) -> tuple[Fleet, Workload]:
    """A service of four replicas with one card each, of which a new revision asks for that shape."""
    fleet = Fleet(node("a", cards))
    started(fleet, service(4, 4))
    workload = fleet.submit(1, service(4, 4)._replace(roles=(role(shape, 4),), generation=2))
    return fleet, workload


def left(fleet: Fleet, workload: Workload) -> None:
    """Those old ones that leave are gone; some time passes."""
    for holder in list(workload.leaving):
        fleet.send(fleet.status(1, None, rank=holder.rank, k=holder.k, gone=True, generation=1))
    fleet.state.check()
    fleet.wait(1)


def test_the_next_old_one_leaves_once_the_new_one_is_ready() -> None:
    fleet, workload = updated(4)
    for done in range(4):
        assert (len(workload.rolling), len(workload.leaving)) == (3 - done, 1)
        for _ in range(3):
            left(fleet, workload)
        assert [len(workload.replicas), len(workload.rolling), len(workload.leaving)] == [done + 1, 3 - done, 0]
        (new,) = (key for key, each in workload.replicas.items() if each.state is ReplicaState.ASSIGNED)
        fleet.send(fleet.status(1, ReplicaState.READY, rank=new[1]))
    assert (workload.phase.value, workload.old) == ("Running", None)


def test_a_revision_that_crashes_sends_nobody_away() -> None:
    fleet, workload = updated(8)
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=1, exit_code=3, failure=FailureClass.EXIT))
    fleet.send(fleet.status(1, None, rank=1, exit_code=3, failure=FailureClass.EXIT, gone=True))
    for _ in range(3):
        fleet.wait(1)
    assert (len(workload.replicas), len(workload.rolling), len(workload.leaving)) == (3, 4, 0)


def test_a_revision_that_fits_nowhere_sends_nobody_away() -> None:
    fleet, workload = updated(4, whole(6))
    for _ in range(3):
        left(fleet, workload)
    assert (len(workload.replicas), len(workload.rolling), len(workload.leaving)) == (0, 4, 0)


def test_for_a_larger_one_as_many_leave_as_it_takes() -> None:
    fleet, workload = updated(4, whole(3))
    for _ in range(5):
        left(fleet, workload)
    assert (len(workload.replicas), len(workload.rolling), len(workload.leaving)) == (1, 1, 0)
