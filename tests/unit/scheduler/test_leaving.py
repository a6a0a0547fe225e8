"""Who leaves is known by pool and who waits for whom by leaver; what is undone was never noted."""

from __future__ import annotations

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.workloads import ReplicaState
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.books.leaving import Leaving
from muster_scheduler.domain.decisions import PhaseChange, Release
from muster_scheduler.domain.journal import Journal
from tests.support.fleets import Fleet, node, request, role, whole, workload_id

PLACE = ("c1", "default")


def evicting() -> Fleet:
    """Two of another project make room for a gang that deserves it."""
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.project("q", {"default": 0}, department="e")
    for number in (1, 2):
        fleet.submit(number, project="q")
        fleet.run(number)
    fleet.submit(3, request(role(whole(2))))
    return fleet


def test_who_is_evicted_leaves_its_pool_and_is_promised_to_its_taker() -> None:
    fleet = evicting()
    departing = fleet.world.departing
    assert sorted(departing.of(PLACE)) == sorted(departing.in_pool("default")) == [workload_id(1), workload_id(2)]
    assert not departing.of(("c1", "other"))
    assert departing.claimants(workload_id(1)) == [workload_id(3)]
    fleet.gone(1)
    assert list(departing.of(PLACE)) == [workload_id(2)]
    assert not departing.promised(workload_id(1))
    fleet.gone(2)
    assert not departing.of(PLACE)
    assert fleet.workload(3).phase is Phase.INITIALIZING


def test_who_ends_well_gives_back_at_once_and_leaves_only_while_something_of_it_is_left() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.submit(1, request(role(whole(2), 2)))
    fleet.run(1)
    fleet.send(fleet.status(1, ReplicaState.SUCCEEDED, rank=0, gone=True))
    assert fleet.workload(1).phase is Phase.RUNNING
    assert fleet.world.queues.account("p", "default").allocated == 2 * GPU
    said = fleet.send(fleet.status(1, ReplicaState.SUCCEEDED, rank=1))
    assert [type(one) for one in said] == [PhaseChange, Release]
    assert workload_id(1) in fleet.world.departing
    fleet.send(fleet.status(1, ReplicaState.SUCCEEDED, rank=1, gone=True))
    assert workload_id(1) not in fleet.world.departing
    assert fleet.world.queues.account("p", "default").allocated == 0


def test_whose_last_word_is_its_end_has_nothing_left_to_leave() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.submit(1)
    fleet.run(1)
    said = fleet.send(fleet.status(1, ReplicaState.SUCCEEDED, gone=True))
    assert [type(one) for one in said] == [PhaseChange, Release]
    assert (fleet.workload(1).phase, fleet.workload(1).replicas) == (Phase.COMPLETED, {})
    assert workload_id(1) not in fleet.world.departing
    assert fleet.world.queues.account("p", "default").allocated == 0


def test_what_is_read_back_is_what_was_noted() -> None:
    fleet = evicting()
    before = fleet.world.departing
    derive(fleet.world)
    after = fleet.world.departing
    assert after is not before
    assert sorted(after.of(PLACE)) == sorted(before.of(PLACE))
    assert [after.claimants(workload_id(n)) for n in (1, 2, 3)] == [before.claimants(workload_id(n)) for n in (1, 2, 3)]


def test_what_is_undone_was_never_noted() -> None:
    fleet = evicting()
    leaver, taker, journal = fleet.workload(1), fleet.workload(3), Journal()
    leaving = Leaving(journal)
    assert taker.claim is not None
    leaving.begin(leaver)
    leaving.wait(taker.id, taker.claim)
    journal.clear()
    leaving.end(leaver.id)
    leaving.cease(taker.id, taker.claim.waits_for)
    assert not leaving.of(PLACE)
    assert not leaving.promised(leaver.id)
    journal.rollback()
    assert list(leaving.of(PLACE)) == [leaver.id]
    assert leaving.claimants(leaver.id) == [taker.id]
    assert leaver.id in leaving
