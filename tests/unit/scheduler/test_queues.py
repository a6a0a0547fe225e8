"""Quotas of departments, projects and users: what binds, what is said of it, and who comes first."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.quotas import Line, Quota, UserLimit
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.asked.workloads import SECOND, Request, WorkloadKind
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.decisions import Placed
from tests.support.fleets import GIB, Fleet, host, node, request, role, whole, workload_id

W = WaitingReason


def fleet_of(gpus: int = 16) -> Fleet:
    """A pool of that many GPUs; projects a and b, which deserve 8 each, in department d."""
    fleet = Fleet(*(node(f"n{at}", 8) for at in range(gpus // 8)))
    fleet.project("a", {"default": 8})
    fleet.project("b", {"default": 8})
    return fleet


def runs(fleet: Fleet, number: int) -> bool:
    return fleet.workload(number).phase is Phase.INITIALIZING


def said(fleet: Fleet, number: int) -> tuple[WaitingReason, str, tuple[str, ...]]:
    answer = explain(fleet.world, fleet.workload(number))
    assert answer.reason is not None
    return answer.reason.code, answer.reason.sentence(), answer.unblockers


def test_a_departments_limit_holds_its_projects_together() -> None:
    fleet = fleet_of()
    fleet.department("d", {"default": 8}, limit=10)
    fleet.submit(1, request(role(whole(6))), project="a")
    fleet.submit(2, request(role(whole(6))), project="b")
    assert runs(fleet, 1)
    assert said(fleet, 2) == (
        W.OVER_LIMIT,
        "the department uses 6 of the 10 GPUs that it may hold at most (2 short)",
        ("department d might hold 12 GPUs in node pool default",),
    )
    fleet.department("d", {"default": 8}, limit=12)
    assert runs(fleet, 2), "a larger limit wakes the projects of the department"


def test_non_preemptible_work_stays_within_what_the_department_deserves() -> None:
    fleet = fleet_of()
    fleet.department("d", {"default": 8})
    fleet.submit(1, request(role(whole(6)), preemptible=False), project="a")
    fleet.submit(2, request(role(whole(4)), preemptible=False), project="b")
    code, sentence, helps = said(fleet, 2)
    assert code is W.OVER_QUOTA
    assert sentence == "non-preemptible work uses 6 of the 8 GPUs that the department deserves (2 short)"
    assert helps == (
        "it were preemptible (there is room in node pool default, over quota)",
        "department d deserved 10 GPUs in node pool default",
    )


def test_a_department_that_says_nothing_of_a_pool_bounds_nothing_there() -> None:
    fleet = fleet_of()
    fleet.department("d", {"other": 1}, limit=1)
    fleet.submit(1, request(role(whole(8)), preemptible=False), project="a")
    fleet.submit(2, request(role(whole(8)), preemptible=False), project="b")
    assert runs(fleet, 1)
    assert runs(fleet, 2)


def test_a_weight_of_0_gives_nothing_beyond_what_is_deserved() -> None:
    fleet = fleet_of()
    fleet.project("a", {"default": 2}, weight=0)
    fleet.submit(1, request(role(whole(2))), project="a")
    fleet.submit(2, request(role(whole(1))), project="a")
    assert runs(fleet, 1)
    assert said(fleet, 2) == (
        W.NO_WEIGHT,
        "the project uses 2 of the 2 GPUs that it deserves, and has no weight beyond (1 short)",
        (
            "a deserved 3 GPUs in node pool default",
            "a had a weight above 0 for what nobody deserves in node pool default",
        ),
    )


def test_a_project_that_deserves_nothing_and_has_no_weight_is_kept_out_of_the_pool() -> None:
    fleet = fleet_of()
    fleet.project("a", {"default": 0}, weight=0)
    fleet.submit(1, request(role(whole(1))), project="a")
    fleet.submit(2, request(role(host())), project="a")
    assert said(fleet, 1)[0] is W.NO_WEIGHT
    assert runs(fleet, 2), "what asks for no GPU needs no quota of GPUs"


def test_cpu_and_memory_count_where_a_quota_names_them() -> None:
    fleet = fleet_of()
    quota = Quota(8 * GPU, cpu=Line(2000, 4000), memory=Line(8 * GIB))
    fleet.send(events.ProjectChanged(Project("a", "d", {"default": quota}, 0)))
    fleet.submit(1, request(role(host(1000, GIB)), preemptible=False), project="a")
    fleet.submit(2, request(role(host(2000, GIB)), preemptible=False), project="a")
    assert said(fleet, 2)[1:] == (
        "non-preemptible work uses 1 of the 2 CPU that the project deserves (1 short)",
        (
            "it were preemptible (there is room in node pool default, over quota)",
            "a deserved 3 CPU in node pool default",
        ),
    )
    fleet.submit(3, request(role(host(2000, GIB))), project="a")
    fleet.submit(4, request(role(host(2000, GIB))), project="a")
    fleet.submit(5, request(role(host(500, 8 * GIB)), preemptible=False), project="a")
    assert runs(fleet, 3)
    assert said(fleet, 4)[1:] == (
        "the project uses 3 of the 4 CPU that it may hold at most (1 short)",
        ("a might hold 5 CPU in node pool default",),
    )
    assert said(fleet, 5)[0] is W.MEMORY_OVER_QUOTA
    assert said(fleet, 5)[2][-1] == "a deserved 9Gi of memory in node pool default"


def test_users_are_limited_in_what_they_hold_and_in_how_much_runs() -> None:
    fleet = fleet_of()
    fleet.project("a", {"default": 8}, users=(UserLimit("default", gpu=4 * GPU), UserLimit(workloads=2)))
    fleet.submit(1, request(role(whole(3))), project="a", user="ann")
    fleet.submit(2, request(role(whole(3))), project="a", user="ann")
    fleet.submit(3, request(role(whole(3))), project="a", user="bob")
    fleet.submit(4, request(role(host())), project="a", user="ann")
    fleet.submit(5, request(role(host())), project="a", user="ann")
    assert [runs(fleet, at) for at in (1, 3, 4)] == [True] * 3, "whoever is not limited is not held up"
    three = "one user of a might run 3 workloads at once in all node pools together"
    assert said(fleet, 2) == (
        W.USER_OVER_LIMIT,
        "its user holds 3 of the 4 GPUs that one user may hold in the project (2 short)",
        (f"one user of a might hold 6 GPUs in node pool default and {three}",),
    )
    assert said(fleet, 5) == (
        W.USER_RUNS_ENOUGH,
        "its user has 2 of the 2 workloads that one user may run at once in the project",
        (
            "one of the 2 workloads of its user in a ended, and w2 did not take the place first",
            three,
        ),
    )
    fleet.finish(1)
    assert runs(fleet, 2)
    assert not runs(fleet, 5)
    fleet.project("a", {"default": 8})
    assert runs(fleet, 5), "a limit that is gone holds nobody"


def test_a_project_takes_what_it_holds_into_another_department() -> None:
    fleet = fleet_of()
    fleet.department("d", {"default": 8}, limit=8)
    fleet.submit(1, request(role(whole(8))), project="a")
    fleet.submit(2, request(role(whole(8))), project="b")
    assert not runs(fleet, 2)
    fleet.project("a", {"default": 8}, department="e")
    assert runs(fleet, 2), "what it takes along is free at once in the department that it leaves"
    books = fleet.world.queues
    assert [books.department_account(name, "default").allocated for name in "de"] == [8 * GPU] * 2


def test_a_departments_removal_frees_its_projects() -> None:
    fleet = fleet_of()
    fleet.department("d", {"default": 0}, weight=0)
    fleet.submit(1, project="a")
    assert not runs(fleet, 1)
    fleet.send(events.DepartmentRemoved("d"))
    assert runs(fleet, 1)
    fleet.send(events.DepartmentRemoved("d"))
    assert not fleet.world.queues.departments


def test_older_versions_of_a_department_change_nothing() -> None:
    fleet = fleet_of()
    fleet.send(events.DepartmentChanged(Department("d", {"default": Quota(5 * GPU)}, 2)))
    fleet.send(events.DepartmentChanged(Department("d", {"default": Quota(1 * GPU)}, 1)))
    assert fleet.world.queues.departments["d"].quotas["default"].deserved == 5 * GPU


def test_a_departments_rules_and_node_types_hold_for_its_projects() -> None:
    fleet = fleet_of()
    types, rules = NodeTypes(training=("dgx",)), Rules(training_time=60)
    fleet.send(events.DepartmentChanged(Department("d", {}, 1, node_types=types)))
    fleet.submit(1, project="a")
    assert not runs(fleet, 1)
    fleet.send(events.DepartmentChanged(Department("d", {}, 2, rules=rules)))
    assert runs(fleet, 1)
    fleet.wait(61)
    assert fleet.workload(1).phase is Phase.STOPPING


def placed(fleet: Fleet) -> list[int]:
    """The workloads that were placed, in order."""
    return [int(one.workload[-12:], 16) for one in fleet.decisions if isinstance(one, Placed)]


def crowd(fleet: Fleet, gpus: int, **projects: int) -> list[str]:
    """One-GPU workloads of each project wait while nodes are away; whose start, in order, once these come."""
    whose: dict[int, str] = {}
    fleet.inventory("c1", [])
    for name, number in projects.items():
        for _ in range(number):
            whose[len(whose) + 1] = name
            fleet.submit(len(whose), project=name)
    fleet.decisions.clear()
    fleet.inventory("c1", [node(f"n{at}", 1) for at in range(gpus)])
    return [whose[number] for number in placed(fleet)]


def test_the_queue_that_holds_least_of_its_fair_share_comes_first() -> None:
    fleet = Fleet()
    fleet.project("a", {"default": 0}, weight=1000)
    fleet.project("b", {"default": 0}, weight=3000)
    assert crowd(fleet, 8, a=8, b=8) == ["a", "b", "b", "b", "a", "b", "b", "b"]


def test_what_is_deserved_comes_before_what_is_not() -> None:
    fleet = Fleet()
    fleet.project("a", {"default": 0}, weight=9000)
    fleet.project("b", {"default": 3}, weight=1000)
    order = crowd(fleet, 6, a=6, b=6)
    assert order[:4].count("b") == 3
    assert order.count("a") == 3


def test_departments_come_before_their_projects() -> None:
    fleet = Fleet()
    for department, projects in (("d", ("a", "b", "c")), ("e", ("x",))):
        fleet.department(department, {"default": 4})
        for project in projects:
            fleet.project(project, {"default": 0}, department=department)
    order = crowd(fleet, 8, a=4, b=4, c=4, x=8)
    assert order.count("x") == 4, "one project of a department has as much as three of another"
    assert [order.count(name) for name in "abc"] == [2, 1, 1]


def test_the_higher_rank_is_served_first() -> None:
    fleet = Fleet()
    fleet.project("a", {"default": 0}, rank=0)
    fleet.project("b", {"default": 0}, rank=1)
    assert crowd(fleet, 4, a=4, b=4) == ["b"] * 4


@pytest.mark.parametrize("silent", [False, True])
def test_standing(silent: bool) -> None:
    fleet = fleet_of()
    fleet.department("d", {"default": 12})
    fleet.submit(1, request(role(whole(4))), project="a")
    fleet.submit(2, request(role(whole(8), 2)), project="b")
    fleet.submit(3, request(role(whole(9))), project="b")
    fleet.submit(4, request(role(whole(1)), pools=("default",)), project="a")
    if silent:
        fleet.now += 60 * SECOND
        fleet.send()
    standing = standing_of(fleet.world, "default")
    assert standing.total.gpu == (0 if silent else 16 * GPU)
    assert [queue.name for queue in standing.queues] == ["d", "a", "b", "p"]
    shares = standing.shares[0]
    assert shares is not None
    assert standing.shares[1:] == (None, None)
    wanted = [share.wanted // GPU for share in shares]
    assert wanted[1:3] == [5, 16], "what could never run does not count"
    if not silent:
        assert [share.fair // GPU for share in shares] == [16, 5, 11, 0]
        assert fleet.workload(2).id == workload_id(2)


def test_a_new_revision_that_may_be_preempted_is_charged_as_such() -> None:
    fleet = fleet_of()
    fleet.submit(1, served(1, preemptible=False), project="a")
    assert fleet.world.queues.account("a", "default").non_preemptible == 2 * GPU
    fleet.submit(1, served(2, preemptible=True), project="a")
    assert fleet.world.queues.account("a", "default").non_preemptible == 0


def served(generation: int, *, preemptible: bool) -> Request:
    kind = WorkloadKind.INFERENCE
    return request(role(whole(1), 2), kind=kind, priority=125, generation=generation, preemptible=preemptible)
