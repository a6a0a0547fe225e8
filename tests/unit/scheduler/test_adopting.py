"""Who may be adopted: an agent that has reported, once the one before it is silent, or by force."""

from __future__ import annotations

import pytest

from muster_chassis import metrics
from muster_chassis.health import Health
from muster_scheduler import unbound
from muster_scheduler.commands import adoptable
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.fleet.clusters import STRANGERS
from muster_scheduler.errors import AgentAlive, UnknownCluster, UnknownInstance
from tests.support.fleets import Fleet, node


def _report(fleet: Fleet, instance: str) -> None:
    beat = fleet.heartbeat("c1")
    fleet.send(events.HeartbeatSeen("c1", beat.order._replace(instance=instance)))


def _fleet() -> Fleet:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1)
    fleet.run(1)
    return fleet


def test_a_name_that_never_reported_is_refused_also_by_force() -> None:
    fleet = _fleet()
    _report(fleet, "newcomer")
    for force in (False, True):
        with pytest.raises(UnknownInstance, match=r"others that have: newcomer; .* agent-c1 \(`muster clusters`\)"):
            adoptable(fleet.state, "c1", "zzz", now=fleet.now, force=force)
    with pytest.raises(UnknownCluster, match="`muster clusters`"):
        adoptable(fleet.state, "nowhere", "newcomer", now=fleet.now, force=False)


def test_a_cluster_whose_agent_lives_is_taken_by_force_alone() -> None:
    fleet = _fleet()
    _report(fleet, "newcomer")
    with pytest.raises(AgentAlive, match=r"would declare 1 replicas? GONE though .* stop that agent and wait 50 s"):
        adoptable(fleet.state, "c1", "newcomer", now=fleet.now, force=False)
    adoptable(fleet.state, "c1", "newcomer", now=fleet.now, force=True)
    adoptable(fleet.state, "c1", "newcomer", now=fleet.now + 51 * SECOND, force=False)


def test_a_cluster_whose_reports_are_not_read_counts_as_alive() -> None:
    fleet = _fleet()
    _report(fleet, "newcomer")
    fleet.world.read_until = {"c1": fleet.now}
    with pytest.raises(AgentAlive):
        adoptable(fleet.state, "c1", "newcomer", now=fleet.now + 51 * SECOND, force=False)


def test_an_agent_that_speaks_for_no_cluster_is_named_while_it_reports() -> None:
    fleet, health = _fleet(), Health()
    unbound.tell(fleet.world, health)
    assert health.waiting == {}
    _report(fleet, "newcomer")
    unbound.tell(fleet.world, health)
    assert "cluster c1 is bound to agent agent-c1, and agent newcomer reports for it" in health.waiting["agents"]
    assert metrics.value(unbound.UNBOUND) == 1
    fleet.wait(61)
    unbound.tell(fleet.world, health)
    assert (health.waiting, metrics.value(unbound.UNBOUND)) == ({}, 0)


def test_adopting_the_one_that_is_bound_changes_nothing() -> None:
    fleet = _fleet()
    adoptable(fleet.state, "c1", "agent-c1", now=fleet.now, force=False)


def test_an_adopted_agent_speaks_and_the_old_one_is_a_stranger() -> None:
    fleet = _fleet()
    _report(fleet, "newcomer")
    fleet.send(events.ClusterAdopted("c1", "newcomer"))
    _report(fleet, "newcomer")
    _report(fleet, "agent-c1")
    cluster = fleet.world.clusters["c1"]
    assert cluster.instance == "newcomer"
    assert list(cluster.strangers) == ["agent-c1"]


def test_strangers_are_bounded() -> None:
    fleet = _fleet()
    for number in range(3 * STRANGERS):
        _report(fleet, f"s{number}")
    assert list(fleet.world.clusters["c1"].strangers) == [f"s{n}" for n in range(2 * STRANGERS, 3 * STRANGERS)]
