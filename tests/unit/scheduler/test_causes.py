"""Why a workload gives its place up, as programs and people hear of it: the cause and the taker's id, and no name."""

from __future__ import annotations

from muster.events.v1 import scheduler_pb2
from muster_kernel.reasons import OTHER, PreemptionCause
from muster_scheduler.adapters.outgoing import event_of
from muster_scheduler.adapters.placements import Placements
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.decisions import Evicted, PhaseChange, Preempted
from tests.support.fleets import Fleet, node, request, role, whole, workload_id


def causes(fleet: Fleet) -> list[PreemptionCause]:
    return [d.cause for d in fleet.decisions if isinstance(d, Preempted | Evicted)]


def running(fleet: Fleet, count: int, project: str = "p") -> Fleet:
    for number in range(1, count + 1):
        fleet.submit(number, project=project)
        fleet.run(number)
        fleet.wait(1)
    return fleet


def reclaimed() -> Fleet:
    """Workload 1 of project q gives its place to workload 9 of project p."""
    fleet = Fleet(node("n1", 1), quota=1)
    fleet.project("q", {"default": 0})
    running(fleet, 1, "q").submit(9)
    return fleet


def test_another_project_reclaims() -> None:
    assert causes(reclaimed()) == [PreemptionCause.RECLAIM]


def test_a_workload_of_the_same_project_preempts() -> None:
    fleet = running(Fleet(node("n1", 1)), 1)
    fleet.submit(9, request(priority=75))
    assert causes(fleet) == [PreemptionCause.PREEMPTION]


def test_two_move_for_a_larger_one() -> None:
    fleet = running(Fleet(node("n1", 4), node("n2", 4)), 8)
    by_node: dict[str, list[int]] = {}
    for number in range(1, 9):
        (replica,) = fleet.workload(number).replicas.values()
        by_node.setdefault(replica.node[1], []).append(number)
    for numbers in by_node.values():
        for number in numbers[:2]:
            fleet.finish(number)
    fleet.submit(20, request(role(whole(4))))
    assert causes(fleet) == [PreemptionCause.CONSOLIDATION] * 2


def test_a_limit_is_reached() -> None:
    fleet = Fleet(node("n1", 8))
    fleet.department("dept", {"default": 4}, limit=4)
    for name in ("x", "y"):
        fleet.project(name, {"default": 2}, department="dept")
    running(fleet, 4, "x").submit(9, request(role(whole(2))), project="y")
    assert set(causes(fleet)) == {PreemptionCause.LIMIT}


def test_the_event_carries_cause_and_id_and_no_text_names_the_taker() -> None:
    fleet = reclaimed()
    fleet.workload(9).name = "secret-taker"
    told = [d for d in fleet.decisions if isinstance(d, Preempted | PhaseChange) and d.workload == workload_id(1)]
    messages = [event_of(each, fleet.world, Placements()) for each in told]
    (preempted,) = (each for each in messages if isinstance(each, scheduler_pb2.WorkloadPreempted))
    assert (preempted.by, preempted.cause) == (workload_id(9), scheduler_pb2.PREEMPTION_CAUSE_RECLAIM)
    assert OTHER in preempted.why.message
    last = messages[-1]
    assert isinstance(last, scheduler_pb2.PhaseChanged)
    assert last.reason.other_workload_id == workload_id(9)
    assert not any("secret-taker" in str(each) for each in messages)


def test_why_names_the_taker_to_those_who_may_read_it() -> None:
    fleet = reclaimed()
    fleet.workload(9).name = "secret-taker"
    victim = fleet.workload(1)
    assert "secret-taker" in explain(fleet.world, victim, EVERYONE).message
    hidden = explain(fleet.world, victim, Viewer(frozenset({"q"}))).message
    assert "a workload of another project" in hidden
    assert "secret-taker" not in hidden
