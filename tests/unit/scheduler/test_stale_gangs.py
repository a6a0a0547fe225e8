"""Stale gangs: one that lost replicas gives up the others after a while, and only then, and only where that helps."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.adapters.workload_rows import of_workload, to_workload
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState
from muster_scheduler.domain.decisions import Release
from tests.support.fleets import Fleet, node, request, role, whole

LOST = ReplicaState.LOST


def gang_on_two_nodes(size: int = 4) -> Fleet:
    """A gang of one-card replicas that runs on the nodes a and b, two cards each."""
    fleet = Fleet(node("a", size // 2), node("b", size // 2))
    fleet.submit(1, request(role(whole(), size)))
    fleet.run(1)
    assert fleet.workload(1).phase is Phase.RUNNING
    return fleet


def lose(fleet: Fleet, *ranks: int) -> None:
    """The node of these replicas falls silent."""
    fleet.send(*(fleet.status(1, LOST, rank=rank) for rank in ranks))


def test_a_gang_below_its_minimum_is_evicted_whole_after_a_minute_and_waits_again() -> None:
    fleet = gang_on_two_nodes()
    lose(fleet, 2, 3)
    fleet.wait(59)
    assert fleet.workload(1).phase is Phase.DEGRADED, "the node may come back"
    fleet.wait(1)
    stale = fleet.workload(1)
    assert (stale.phase, stale.reason) == (Phase.TERMINATING, ChangeReason.BELOW_MINIMUM)
    assert stale.message == "2 of its 4 replicas are lost on b for 60 s, and its gang needs all of them"
    assert isinstance(fleet.records(1)[-1], Release)
    fleet.gone(1)
    again = fleet.workload(1)
    assert (again.phase, again.attempt, again.ours) == (Phase.INITIALIZING, 2, 1), "placed again at once: there is room"
    assert (again.exits, again.faults, again.below_since) == (0, 0, 0), "no restart of its own was spent"


def test_the_others_devices_are_free_long_before_the_lost_ones() -> None:
    fleet = gang_on_two_nodes()
    fleet.submit(2, request(role(whole(2))))
    lose(fleet, 2, 3)
    fleet.wait(60)
    fleet.send(*(fleet.status(1, None, rank=rank, gone=True) for rank in (0, 1)))
    assert fleet.workload(2).phase is Phase.INITIALIZING
    assert fleet.workload(1).phase is Phase.TERMINATING, "what is lost is not given twice"


def test_a_node_that_answers_in_time_stops_the_clock() -> None:
    fleet = gang_on_two_nodes()
    lose(fleet, 2, 3)
    fleet.wait(50)
    fleet.send(fleet.status(1, ReplicaState.READY, rank=2), fleet.status(1, ReplicaState.READY, rank=3))
    fleet.wait(30)
    assert fleet.workload(1).phase is Phase.RUNNING
    lose(fleet, 3)
    fleet.wait(59)
    assert fleet.workload(1).phase is Phase.DEGRADED, "the clock began again"
    fleet.wait(1)
    assert fleet.workload(1).phase is Phase.TERMINATING


@pytest.mark.parametrize("ranks", [(), (0, 1, 2, 3)])
def test_nothing_is_won_where_nobody_waits_for_the_lost_ones(ranks: tuple[int, ...]) -> None:
    fleet = gang_on_two_nodes()
    lose(fleet, *ranks)
    fleet.wait(600)
    assert fleet.workload(1).phase is (Phase.DEGRADED if ranks else Phase.RUNNING)


def test_a_clusters_silence_is_not_the_gangs() -> None:
    fleet = gang_on_two_nodes()
    lose(fleet, 2)
    fleet.now += 70 * SECOND
    fleet.send()
    assert fleet.workload(1).phase is Phase.UNKNOWN
    assert fleet.workload(1).below_since == 0


def test_an_abort_and_a_rebuild_know_the_clock() -> None:
    fleet = gang_on_two_nodes()
    lose(fleet, 2)
    fleet.wait(40)
    before = fleet.state.digest()
    fleet.now += 20 * SECOND
    fleet.state.begin(fleet.now)
    fleet.state.propose()
    assert fleet.workload(1).phase is Phase.TERMINATING
    fleet.state.abort()
    assert fleet.state.digest() == before
    workload = fleet.workload(1)
    row = {"id": workload.id, "project": "p", "name": "w1", "phase": "Running", "desired": "Running", "attempt": 1}
    read, _ = to_workload({**row, "body": of_workload(workload)}, {})
    assert read.below_since == workload.below_since > 0
    assert 0 < (fleet.state.next_time() or 0) <= workload.below_since + Limits().below_minimum
    fleet.wait(0)
    assert fleet.workload(1).phase is Phase.TERMINATING
