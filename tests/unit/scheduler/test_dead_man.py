"""Lost clusters: who may be given up after a time of silence, when, and what an operator is told."""

from __future__ import annotations

import pytest

from muster_chassis.errors import InvalidArgument
from muster_kernel.lifecycle import Phase
from muster_scheduler.adapters import rows, views
from muster_scheduler.commands import releasable
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.errors import NoDeadMan
from tests.support.fleets import Fleet, node


def _silence(fleet: Fleet, seconds: int) -> None:
    fleet.now += seconds * SECOND
    fleet.send()


def _opted_in(fleet: Fleet, cluster: str = "c1", *, dead_man: int = 840) -> None:
    fleet.dead_man[cluster] = dead_man
    fleet.wait(0)
    releasable(fleet.state, cluster, 900)
    fleet.send(events.ClusterRegistered(cluster, 900))


def test_lost_clusters_are_given_up_only_where_that_was_chosen() -> None:
    fleet = Fleet(node("n1", 1), node("m1", 1, cluster="c2"))
    workload = fleet.submit(1)
    lost = workload.cluster
    other = "c2" if lost == "c1" else "c1"
    fleet.dead_man = {"c1": 840, "c2": 840}
    fleet.wait(0)
    _silence(fleet, 60)
    fleet.send(fleet.heartbeat(other))
    _silence(fleet, 1000)
    assert workload.phase is Phase.UNKNOWN
    fleet.send(events.ClusterRegistered(lost, 900), fleet.heartbeat(other))
    assert workload.phase is Phase.INITIALIZING
    assert workload.cluster == other
    assert workload.attempt == 2


def test_a_cluster_is_not_silent_while_its_reports_are_not_read() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    fleet.run(1)
    _opted_in(fleet)
    fleet.world.read_until = {"c1": fleet.now}
    _silence(fleet, 1000)
    assert workload.phase is Phase.RUNNING
    fleet.world.read_until = {"c1": fleet.now}
    fleet.send()
    assert workload.phase is not Phase.RUNNING


def test_a_deadline_that_grows_after_the_opt_in_counts() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    fleet.run(1)
    _opted_in(fleet)
    fleet.dead_man["c1"] = 3600
    fleet.wait(10)
    _silence(fleet, 3600)
    assert workload.phase is Phase.UNKNOWN
    _silence(fleet, 61)
    assert workload.attempt == 2


def test_an_agent_that_loses_its_deadline_keeps_its_devices() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    fleet.run(1)
    _opted_in(fleet)
    fleet.dead_man["c1"] = 0
    fleet.wait(10)
    _silence(fleet, 100_000)
    assert workload.phase is Phase.UNKNOWN


def test_an_adopted_agent_has_no_deadline_until_it_reports_one() -> None:
    fleet = Fleet(node("n1", 1))
    _opted_in(fleet)
    fleet.send(events.ClusterAdopted("c1", "newcomer"))
    assert fleet.world.clusters["c1"].released_after == 0


def test_the_opt_in_says_what_is_missing() -> None:
    fleet = Fleet(node("n1", 1))
    with pytest.raises(NoDeadMan, match=r"c1 cannot be given up after 900 s .* agent agent-c1 reports no .*`dead_man`"):
        releasable(fleet.state, "c1", 900)
    with pytest.raises(NoDeadMan, match=r"c9 cannot .* no agent has reported for it.* without lost_timeout, start its"):
        releasable(fleet.state, "c9", 900)
    with pytest.raises(InvalidArgument, match=r"4294967295 s are given: 1 to 2592000 s are allowed"):
        releasable(fleet.state, "c1", 2**32 - 1)
    releasable(fleet.state, "c9", 0)
    _opted_in(fleet)


def test_the_numbers_are_shown_and_outlive_a_takeover() -> None:
    fleet = Fleet(node("n1", 1))
    _opted_in(fleet, dead_man=1000)
    shown = views.cluster(fleet.world, "c1")
    told = (shown.lost_timeout_seconds, shown.dead_man_seconds, shown.released_after_seconds)
    assert told == (900, 1000, 1060)
    again = rows.to_cluster("c1", rows.of_cluster(fleet.world.clusters["c1"]), fleet.now)
    assert (again.lost_timeout, again.dead_man, again.released_after) == (900, 1000, 1060)
