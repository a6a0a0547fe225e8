"""An agent that returns after three weeks: its workloads ended elsewhere, and the scheduler has removed their rows."""

from __future__ import annotations

from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState
from muster_scheduler.domain.decisions import Decision, Release
from tests.support.fleets import Fleet, node, workload_id

_WEEKS = 21 * 24 * 3600
_FIVE_MINUTES = 300


def _ended_elsewhere(fleet: Fleet) -> str:
    """Workload 1 is given up with its cluster, ends in another one and is removed. Return the first cluster."""
    workload = fleet.submit(1)
    fleet.run(1)
    lost = workload.cluster
    other = "c2" if lost == "c1" else "c1"
    fleet.dead_man = {"c1": 840, "c2": 840}
    fleet.wait(0)
    fleet.send(events.ClusterRegistered(lost, 900))
    for _ in range(2):
        fleet.now += 600 * SECOND
        fleet.send(fleet.heartbeat(other))
    assert (workload.cluster, workload.attempt) == (other, 2)
    fleet.run(1)
    fleet.finish(1)
    fleet.now += _WEEKS * SECOND
    fleet.state.begin(fleet.now)
    fleet.world.retire()
    fleet.state.commit()
    assert not fleet.world.workloads
    return lost


def _reported(fleet: Fleet, cluster: str, *held: events.Held) -> list[Decision]:
    """Five minutes pass; the agent sends what it holds, and the end of each replica of it."""
    reports = [
        events.ReplicaReported(cluster, fleet.order(cluster), one.workload, one.generation, one.attempt, status)
        for one in held
        for status in one.replicas
    ]
    made = fleet.wait(_FIVE_MINUTES)
    return made + fleet.send(*reports, events.AssignmentsHeld(cluster, fleet.order(cluster), held, 1))


def test_what_it_holds_is_released_after_an_hour_and_nothing_starts() -> None:
    fleet = Fleet(node("n1", 1), node("m1", 1, cluster="c2"))
    lost = _ended_elsewhere(fleet)
    (place,) = [each for each in fleet.world.inventory.nodes if each[0] == lost]
    for state, gone in ((ReplicaState.READY, False), (ReplicaState.FAILED, False), (None, True)):
        status = events.Status("worker", 0, 0, place[1], state, gone)
        held = events.Held(workload_id(1), 1, 1, 1, (status,))
        early = [decision for _ in range(12) for decision in _reported(fleet, lost, held)]
        assert early == []
        (release,) = [decision for _ in range(2) for decision in _reported(fleet, lost, held)]
        assert release == Release(lost, workload_id(1), 1, 1, fleet.world.limits.grace, "NoRow")
        # It has obeyed the tombstone: later snapshots lack it.
        assert [decision for _ in range(24) for decision in _reported(fleet, lost)] == []
    assert not fleet.world.workloads
    assert not any(each.entries for each in fleet.world.inventory.nodes.values())
