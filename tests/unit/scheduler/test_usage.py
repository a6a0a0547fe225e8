"""Past use in fair shares: it is counted from what was held, fades, outlives a restart, and changes who comes first."""

from __future__ import annotations

import asyncio

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.settings import SchedulerSettings
from tests.support.fleets import Fleet, node, request, role, whole
from tests.support.scheduler_tables import Tables, TablesUnit

HOUR = 3600 * SECOND
LIMITS = Limits(stale_after=10**18, silent_after=10**18, usage_weight=1000, usage_half_life=HOUR)


def fleet_of() -> Fleet:
    fleet = Fleet(node("n1", 8))
    fleet.world.limits = LIMITS
    for name in "ab":
        fleet.project(name, {"default": 0}, department=name)
        fleet.department(name, {"default": 0})
    return fleet


def row(standing: Standing, name: str) -> int:
    return standing.projects[name]


def usage(fleet: Fleet, project: str) -> int:
    standing = standing_of(fleet.world, "default")
    queue = standing.queues[row(standing, project)]
    assert standing.queues[queue.parent].usage == queue.usage
    return queue.usage


def test_what_was_held_counts_and_fades() -> None:
    fleet = fleet_of()
    fleet.submit(1, request(role(whole(8))), project="a")
    assert usage(fleet, "a") == 0
    fleet.wait(3600)
    assert usage(fleet, "a") == pytest.approx(500_000, abs=200)
    fleet.finish(1)
    assert usage(fleet, "a") == pytest.approx(500_000, abs=200)
    fleet.wait(2 * 3600)
    assert usage(fleet, "a") == pytest.approx(125_000, abs=200)


def test_who_used_more_gets_less() -> None:
    fleet = fleet_of()
    fleet.submit(1, request(role(whole(8))), project="a")
    fleet.wait(3600)
    fleet.finish(1)
    for number in range(2, 10):
        fleet.submit(number, request(role(whole(4), 2)), project="ab"[number % 2])
    standing = standing_of(fleet.world, "default")
    shares = standing.shares[0]
    assert shares is not None
    # Weights 1/2 + (1/2 - 1/2) and 1/2 + (1/2 - 0): 1 to 2 of 8 GPUs.
    assert [shares[row(standing, name)].fair // GPU for name in "ab"] == [3, 5]


def test_a_project_that_is_gone_has_used_nothing() -> None:
    fleet = fleet_of()
    fleet.submit(1, project="a")
    fleet.wait(60)
    fleet.finish(1)
    fleet.send(events.ProjectRemoved("a"))
    assert not fleet.world.queues.usage


def test_past_use_outlives_a_restart_and_an_abort() -> None:
    fleet = fleet_of()
    tables = Tables()
    fleet.state.begin(fleet.now)
    fleet.state.apply(fleet.admitted(1, project="a"))
    fleet.state.propose()
    for name, all_of_it in (("nodes", fleet.world.inventory.nodes), ("projects", fleet.world.queues.projects)):
        setattr(fleet.world.touched, name, dict.fromkeys(all_of_it))
    asyncio.run(PostgresStore().write(TablesUnit(tables), fleet.state.plan(), fleet.world))  # type: ignore[arg-type]
    fleet.state.commit()
    before = fleet.state.digest()
    fleet.state.begin(fleet.now + HOUR)
    fleet.state.apply(fleet.admitted(2, project="a"))
    fleet.state.propose()
    assert fleet.state.digest() != before
    fleet.state.abort()
    assert fleet.state.digest() == before
    made = asyncio.run(load(tables, LIMITS, fleet.now + HOUR))  # type: ignore[arg-type]
    assert made.world.queues.usage == fleet.world.queues.usage
    assert not made.world.touched.usage


def test_who_waits_is_weighed_anew_as_use_fades() -> None:
    fleet = fleet_of()
    assert fleet.state.next_time() is None
    fleet.submit(1, request(role(whole(8)), preemptible=False), project="p")
    fleet.submit(2, project="a")
    due = fleet.state.next_time()
    assert due is not None
    assert 0 < due - fleet.now <= HOUR // 256 + 1
    fleet.now = due
    fleet.send()
    later = fleet.state.next_time()
    assert later is not None
    assert later > due


def test_settings() -> None:
    settings = SchedulerSettings.model_construct(usage_weight=0.5, usage_half_life_seconds=60.0)
    limits = settings.limits()
    assert (limits.usage_weight, limits.usage_half_life) == (500, 60 * SECOND)


def test_a_queue_takes_back_what_is_its_share_once_the_others_use_is_not_forgotten() -> None:
    fleet = fleet_of()
    for number in range(1, 9):
        fleet.submit(number, project="a")
    fleet.wait(60)
    fleet.submit(9, request(role(whole(5))), project="b")
    assert fleet.workload(9).claim is None, "as long as nothing is used up, half of 8 GPUs is its share"
    fleet.wait(3600)
    assert fleet.workload(9).claim is not None, "a used half of what there was: b's weight is the larger one"
