"""Where quotas promise more than can be kept: it is legal, and whoever is locked out by it can read why."""

from __future__ import annotations

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.adapters.accounts import accounts
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.overpromised import Promises
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.asked.quotas import Line, Quota
from muster_scheduler.domain.books.queues import Department, Project
from tests.support.fleets import GIB, Fleet, node, request, role, whole


def told(fleet: Fleet, project: str = "p", viewer: Viewer = EVERYONE) -> tuple[str, ...]:
    return Promises(fleet.world, "default").of(project, viewer)


def fleet_of(*, department: Quota | None, each: int = 8, gpus: int = 16) -> Fleet:
    """Two projects that deserve so many GPUs each, below one department."""
    fleet = Fleet(node("n1", gpus), quota=each)
    fleet.project("q", {"default": each})
    quotas = {"default": department} if department else {}
    fleet.send(events.DepartmentChanged(Department("d", quotas, 1)))
    return fleet


@pytest.mark.parametrize("department", [None, Quota(16 * GPU), Quota(16 * GPU, 16 * GPU, 0)])
def test_nothing_is_said_where_all_of_it_can_be_kept(department: Quota | None) -> None:
    assert told(fleet_of(department=department)) == ()


def test_a_department_that_deserves_less_than_its_projects() -> None:
    (said,) = told(fleet_of(department=Quota(10 * GPU)))
    assert said == (
        "department d deserves 10 GPUs and its projects 16 GPUs together: what is beyond that is theirs only while "
        "nobody else deserves it, and non-preemptible work never gets it"
    )


@pytest.mark.parametrize("quota", [Quota(4 * GPU, 10 * GPU), Quota(10 * GPU, None, 0)])
def test_a_department_that_may_hold_less_than_its_projects_deserve(quota: Quota) -> None:
    said = told(fleet_of(department=quota))
    assert said == (
        "department d may hold 10 GPUs and its projects deserve 16 GPUs together: they can never have all of it",
    )


def test_more_is_deserved_than_the_pool_has() -> None:
    fleet = fleet_of(department=None, gpus=8)
    fleet.send(events.ProjectChanged(Project("alone", "", {"default": Quota(1 * GPU)}, 1)))
    for project in ("p", "alone"):
        assert told(fleet, project) == ("all in the pool deserve 17 GPUs together, and it has 8 GPUs",)


def test_cpu_and_memory_are_promised_like_gpus() -> None:
    fleet = fleet_of(department=Quota(16 * GPU, cpu=Line(1000), memory=Line(None, 4 * GIB)))
    own = Quota(8 * GPU, cpu=Line(2000), memory=Line(8 * GIB))
    fleet.send(events.ProjectChanged(Project("p", "d", {"default": own}, 1)))
    cpu, memory = told(fleet)
    assert cpu.startswith("department d deserves 1 CPU and its projects 2 CPU together")
    assert memory.startswith("department d may hold 4Gi of memory and its projects deserve 8Gi of memory together")


def test_a_quota_below_what_is_in_use_stops_nothing_and_is_told() -> None:
    fleet = Fleet(node("n1", 16), quota=8)
    fleet.submit(1, request(role(whole(6)), preemptible=False))
    fleet.project("p", {"default": 4})
    assert told(fleet) == (
        "p holds 6 GPUs of non-preemptible work and deserves 4 GPUs: 2 GPUs too much to start more of it",
    )
    fleet.project("p", {"default": 4}, limit=5)
    assert told(fleet) == ("p holds 6 GPUs and may hold 5 GPUs: 1 GPU too much to start more",)
    fleet.send(events.DepartmentChanged(Department("d", {"default": Quota(4 * GPU, 5 * GPU)}, 1)))
    assert "department d holds 6 GPUs and may hold 5 GPUs: 1 GPU too much to start more" in told(fleet)
    assert fleet.workload(1).active


def test_of_a_project_that_takes_no_part_there_nothing_is_said() -> None:
    assert told(fleet_of(department=Quota(10 * GPU)), "nobody") == ()


def test_accounts_tell_it_where_shares_are_asked_for() -> None:
    fleet = fleet_of(department=Quota(10 * GPU))
    fleet.submit(1, request(role(whole(1))))
    (plain,), (with_shares,) = accounts(fleet.world, None, EVERYONE), accounts(fleet.world, None, EVERYONE, shares=True)
    assert not plain.warnings
    assert tuple(with_shares.warnings) == told(fleet)
