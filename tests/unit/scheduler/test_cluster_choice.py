"""Which cluster takes a workload: those that it may use, its project's own first, another where one is silent."""

from __future__ import annotations

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.books.queues import Project
from tests.support.fleets import Fleet, node, request, role, whole


def at_home(fleet: Fleet, cluster: str) -> None:
    fleet.send(events.ProjectChanged(Project("p", "d", {"default": Quota(100 * GPU)}, 0, home=cluster)))


def test_the_projects_own_cluster_comes_first_and_others_follow() -> None:
    fleet = Fleet(node("a", 8), node("b", 1, cluster="c2"))
    at_home(fleet, "c2")
    for number in (1, 2):
        fleet.submit(number)
    assert [fleet.workload(number).cluster for number in (1, 2)] == ["c2", "c1"], "it is a preference"


def test_without_one_the_emptiest_comes_first() -> None:
    fleet = Fleet(node("a", 2), node("b", 8, cluster="c2"))
    fleet.submit(1)
    assert fleet.workload(1).cluster == "c2"


def test_only_clusters_that_it_may_use() -> None:
    fleet = Fleet(node("a", 1), node("b", 8, cluster="c2"))
    at_home(fleet, "c2")
    for number in (1, 2):
        fleet.submit(number, request(clusters=("c1",)))
    assert fleet.workload(1).cluster == "c1"
    assert not fleet.workload(2).replicas, "what it may not use does not help it"


def test_what_waits_for_a_silent_cluster_goes_elsewhere_when_it_may() -> None:
    fleet = Fleet(node("a", 8), node("b", 1, cluster="c2"))
    at_home(fleet, "c1")
    fleet.submit(1, request(role(whole(8))))
    fleet.submit(2, request(role(whole(1)), clusters=("c1",)))
    fleet.submit(3, request(role(whole(2))))
    fleet.now += 60_000_000
    fleet.send(fleet.heartbeat("c2"))
    assert fleet.workload(1).phase is Phase.UNKNOWN
    fleet.inventory("c2", [node("b", 4, cluster="c2")])
    assert not fleet.workload(2).replicas, "it may use the silent one only"
    assert fleet.workload(3).cluster == "c2"


def test_what_ran_on_a_lost_cluster_is_placed_elsewhere() -> None:
    fleet = Fleet(node("a", 8), node("b", 8, cluster="c2"))
    at_home(fleet, "c1")
    fleet.submit(1)
    assert fleet.workload(1).cluster == "c1"
    fleet.now += 60_000_000
    fleet.send(fleet.heartbeat("c2"))
    fleet.send(events.NodeForcedGone("c1", "a"))
    assert fleet.workload(1).cluster == "c2"
    assert fleet.workload(1).attempt == 2
