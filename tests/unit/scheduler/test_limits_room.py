"""Who is at a limit makes room below it: of its siblings' work in its department, of lower work in its own project."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.decisions import Preempted
from tests.support.fleets import Fleet, node, request, role, whole, workload_id


def evictions(fleet: Fleet) -> list[str]:
    return [d.workload for d in fleet.decisions if isinstance(d, Preempted)]


def siblings(limit: int, *, gpus: int = 16) -> Fleet:
    """Projects x and y under a department that may hold `limit` GPUs, and a fleet with more than that."""
    fleet = Fleet(node("n1", gpus))
    fleet.department("dept", {"default": limit}, limit=limit)
    for name in ("x", "y"):
        fleet.project(name, {"default": limit // 2}, department="dept")
    return fleet


def filled(fleet: Fleet, number: int, project: str) -> None:
    for each in range(1, number + 1):
        fleet.submit(each, project=project)
        fleet.run(each)


def test_a_project_takes_its_share_of_what_its_department_may_hold_from_a_sibling() -> None:
    fleet = siblings(4)
    filled(fleet, 4, "x")
    taker = fleet.submit(5, request(role(whole(2))), project="y")
    assert (len(evictions(fleet)), taker.phase) == (2, Phase.PENDING)
    for each in evictions(fleet):
        fleet.gone(int(each[-4:], 16))
    assert taker.phase is Phase.INITIALIZING
    assert fleet.world.queues.department_account("dept", "default").allocated == 4 * GPU


def test_nobody_is_asked_beyond_the_share() -> None:
    fleet = siblings(4)
    filled(fleet, 4, "x")
    taker = fleet.submit(5, request(role(whole(3))), project="y")
    assert evictions(fleet) == []
    assert fleet.world.waiting.reason(taker.id).code is WaitingReason.OVER_LIMIT


def test_work_outside_the_department_gives_nothing_back_below_its_limit() -> None:
    fleet = siblings(4, gpus=8)
    fleet.project("z", {"default": 0})
    filled(fleet, 4, "x")
    for number in range(10, 14):
        fleet.submit(number, project="z")
    fleet.submit(5, project="y")
    assert evictions(fleet)
    assert set(evictions(fleet)) <= {workload_id(number) for number in range(1, 5)}


@pytest.mark.parametrize(("priority", "leave"), [(75, 1), (50, 0)])
def test_higher_work_takes_the_place_of_lower_work_at_the_limit_of_its_project(priority: int, leave: int) -> None:
    fleet = Fleet(node("n1", 8))
    fleet.project("x", {"default": 2}, limit=2)
    filled(fleet, 2, "x")
    higher: Workload = fleet.submit(3, request(priority=priority), project="x")
    assert len(evictions(fleet)) == leave
    if leave:
        fleet.gone(int(evictions(fleet)[0][-4:], 16))
    assert (higher.phase is Phase.INITIALIZING) is bool(leave)
    assert fleet.world.queues.account("x", "default").allocated == 2 * GPU


def test_a_gang_of_two_roles_is_let_in_below_the_limit_too() -> None:
    fleet = siblings(4)
    filled(fleet, 4, "x")
    gang = request(role(whole(1), 1, "head"), role(whole(1), 1, "tail"))
    fleet.submit(5, gang, project="y")
    assert len(evictions(fleet)) == 2


def test_who_leaves_below_the_limit_is_waited_for() -> None:
    fleet = siblings(4)
    filled(fleet, 4, "x")
    fleet.send(events.SuspendRequested("e", workload_id(1)))
    taker = fleet.submit(5, project="y")
    assert evictions(fleet) == []
    fleet.gone(1)
    assert taker.phase is Phase.INITIALIZING


def test_who_is_in_a_silent_cluster_does_not_leave() -> None:
    """It is not waited for; whoever has read the state back knows no other leavers than whom it held before."""
    fleet = Fleet(node("n1", 2), node("m1", 4, cluster="c2"))
    fleet.department("dept", {"default": 4}, limit=4)
    for name in ("x", "y"):
        fleet.project(name, {"default": 2}, department="dept")
    fleet.submit(1, request(role(whole(2)), clusters=("c1",)), project="x")
    for number in (2, 3):
        fleet.submit(number, request(role(whole()), clusters=("c2",)), project="x")
        fleet.run(number)
    fleet.now += 60_000_000
    fleet.send(fleet.heartbeat("c2"))
    assert fleet.workload(1).phase is Phase.UNKNOWN
    derive(fleet.world)
    fleet.submit(4, request(clusters=("c2",)), project="y")
    assert len(evictions(fleet)) == 1
