"""A cluster leaves the fleet: not while it holds something, unless that is declared gone; and it may come back."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_scheduler.adapters import rows
from muster_scheduler.commands import adoptable, leavable
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import Trials, WorkloadKind
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.domain.fleet.orders import Order
from muster_scheduler.errors import ClusterInUse, UnknownCluster
from tests.support.fleets import Fleet, node, request, role, whole


def _fleet() -> Fleet:
    fleet = Fleet(node("n1", 2), node("m1", 2, cluster="c2"))
    for number in (1, 2, 3):
        fleet.submit(number)
        fleet.run(number)
    return fleet


def _on(fleet: Fleet, cluster: str) -> list[int]:
    return [number for number in (1, 2, 3) if fleet.workload(number).cluster == cluster]


def test_a_cluster_that_holds_replicas_leaves_by_force_alone() -> None:
    fleet = _fleet()
    count = len(_on(fleet, "c1"))
    with pytest.raises(ClusterInUse, match=rf"holds {count} replicas?: drain it first .* or use --force"):
        leavable(fleet.state, "c1", force=False)
    assert leavable(fleet.state, "c1", force=True) == count
    with pytest.raises(UnknownCluster, match="`muster clusters`"):
        leavable(fleet.state, "nowhere", force=True)


def test_what_it_held_starts_elsewhere_and_its_nodes_are_gone() -> None:
    fleet = _fleet()
    moved = _on(fleet, "c1")
    fleet.send(events.ClusterLeft("c1"))
    assert not list(fleet.world.inventory.in_cluster("c1"))
    fleet.wait(15)  # the pause before a restart
    free = 2 - (3 - len(moved))
    placed = [number for number in moved if fleet.workload(number).phase is Phase.INITIALIZING]
    assert [fleet.workload(number).cluster for number in placed] == ["c2"] * min(free, len(moved))
    assert [fleet.workload(number).attempt for number in moved] == [2] * len(moved)
    assert all(fleet.workload(number).phase in {Phase.INITIALIZING, Phase.PENDING} for number in moved)
    assert leavable(fleet.state, "c1", force=False) == 0  # once more changes nothing
    fleet.send(events.ClusterLeft("c1"))


def test_no_report_counts_until_it_is_registered_again() -> None:
    fleet = _fleet()
    fleet.send(events.ClusterLeft("c1"))
    fleet.send(fleet.heartbeat("c1"))
    fleet.inventory("c1", [node("n1", 2)])
    cluster = fleet.world.clusters["c1"]
    assert (cluster.instance, cluster.profile, dict(cluster.strangers)) == ("", None, {})
    assert not list(fleet.world.inventory.in_cluster("c1"))
    with pytest.raises(UnknownCluster):
        adoptable(fleet.state, "c1", "agent-c1", now=fleet.now, force=True)
    fleet.send(events.ClusterRegistered("c1"))
    fleet.send(fleet.heartbeat("c1"))
    fleet.inventory("c1", [node("n1", 2)])
    assert fleet.world.clusters["c1"].instance == "agent-c1"
    fleet.wait(15)
    assert [fleet.workload(number).phase for number in (1, 2, 3)].count(Phase.PENDING) == 0


def test_what_was_ordered_of_its_nodes_goes_with_it() -> None:
    fleet = Fleet(node("n1", 2), node("m1", 2, cluster="c2"))
    fleet.send(events.NodeOrdered("c1", "n1", Order(NodeState.CORDONED, "me")))
    fleet.send(events.ClusterLeft("c1"))
    fleet.send(events.ClusterRegistered("c1"))
    fleet.inventory("c1", [node("n1", 2)])
    (found,) = fleet.world.inventory.in_cluster("c1")
    assert (found.state, found.ordered) == (NodeState.READY, None)


def test_a_row_remembers_that_it_has_left() -> None:
    fleet = _fleet()
    fleet.send(events.ClusterLeft("c1"))
    again = rows.to_cluster("c1", rows.of_cluster(fleet.world.clusters["c1"]), fleet.now)
    assert (again.left, again.instance, again.profile) == (True, "", None)


def _service(fleet: Fleet, number: int, size: int = 1) -> None:
    fleet.submit(number, request(role(whole(1), size), kind=WorkloadKind.INFERENCE, max_scale=size))
    fleet.run(number)


def test_services_and_trials_find_another_cluster_too() -> None:
    fleet = Fleet(node("n1", 4), node("m1", 4, cluster="c2"))
    _service(fleet, 1, 2)
    fleet.submit(2, request()._replace(trials=Trials(3, 1)))
    fleet.run(2)
    for cluster in ("c1", "c2"):
        fleet.send(events.ClusterLeft(cluster))
        fleet.wait(15)
        other = "c2" if cluster == "c1" else "c1"
        for number in (1, 2):
            workload = fleet.workload(number)
            assert workload.cluster == other, (cluster, number)
            assert len(workload.replicas) == (2 if number == 1 else 1)
            fleet.run(number)
        fleet.send(events.ClusterRegistered(cluster))
        fleet.send(fleet.heartbeat(cluster))
        fleet.inventory(cluster, [node("n1" if cluster == "c1" else "m1", 4, cluster=cluster)])


def test_a_service_moves_to_another_cluster_once_its_own_is_drained() -> None:
    fleet = Fleet(node("n1", 2), node("m1", 2, cluster="c2"))
    _service(fleet, 1, 2)
    cluster = fleet.workload(1).cluster
    (there,) = fleet.world.inventory.in_cluster(cluster)
    fleet.send(events.NodeOrdered(cluster, there.name, Order(NodeState.DRAINING, "me", fleet.now)))
    fleet.gone(1)
    fleet.wait(15)
    workload = fleet.workload(1)
    assert (workload.cluster, len(workload.replicas)) == ("c2" if cluster == "c1" else "c1", 2)


def test_room_that_is_being_made_there_is_given_up() -> None:
    fleet = Fleet(node("n1", 2), node("m1", 1, cluster="c2"))
    fleet.submit(1, request(role(whole(2)), priority=25))
    fleet.run(1)
    fleet.submit(2, request(role(whole(2)), priority=75))
    assert fleet.workload(2).claim is not None
    fleet.send(events.ClusterLeft("c1"))
    assert fleet.workload(2).claim is None
    assert not list(fleet.world.inventory.in_cluster("c1"))
