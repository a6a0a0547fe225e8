"""A standing that is kept says what one made anew would say, whatever was charged, asked for, changed or undone."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.books.accounts import Owner
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.books.world import World
from tests.support.fleets import Fleet, node, request, role, whole

PROJECTS = ("a", "b", "c", "d")
POOLS = ("default", "other")
STEPS = st.tuples(
    st.sampled_from(["charge", "release", "submit", "quota", "remove", "department", "drain", "undone", "look"]),
    st.sampled_from(PROJECTS),
    st.sampled_from(POOLS),
    st.integers(0, 4),
)


def same(world: World, pool: str) -> None:
    kept = standing_of(world, pool)
    assert standing_of(world, pool) is kept or world.limits.usage_weight
    arrays = kept.refreshed(world.queues)
    world.standings.clear()
    fresh = standing_of(world, pool)
    assert (kept.total, kept.queues, kept.shares) == (fresh.total, fresh.queues, fresh.shares)
    assert (kept.departments, kept.projects) == (fresh.departments, fresh.projects)
    made = fresh.refreshed(world.queues)
    for one, other in zip(arrays[:-2], made[:-2], strict=True):
        assert np.array_equal(one, other)
    assert arrays.accounts == made.accounts


def step(fleet: Fleet, number: int, what: str, project: str, pool: str, gpus: int) -> None:
    queues, owner = fleet.world.queues, Owner(project, "me", f"w-{project}", preemptible=True)
    if what == "charge":
        queues.charge(owner, pool, Amount(gpus * GPU))
    elif what == "release" and queues.account(project, pool).allocated:
        queues.charge(owner, pool, queues.account(project, pool).held, -1)
    elif what == "submit":
        fleet.submit(number, request(role(whole(gpus)), pools=(pool,)), project=project)
    elif what == "quota":
        fleet.project(project, {pool: gpus}, department="xy"[gpus % 2], weight=gpus * 500)
    elif what == "remove":
        fleet.send(events.ProjectRemoved(project))
    elif what == "department":
        fleet.department("xy"[gpus % 2], {pool: gpus})
    elif what == "drain":
        fleet.inventory("c1", [node("n1", 8)] if gpus % 2 else [])


@given(st.lists(STEPS, max_size=25), st.booleans())
def test_kept_is_made(steps: list[tuple[str, str, str, int]], used: bool) -> None:
    fleet = Fleet(node("n1", 8), node("m1", 8, pool="other"), limits=Limits(usage_weight=500 if used else 0))
    fleet.checked = 0.0
    for project in PROJECTS:
        fleet.project(
            project, dict.fromkeys(POOLS[: 1 + (project < "c")], 2), department="xnone"[: 1 + 4 * (project > "b")]
        )
    world = fleet.world
    for number, (what, project, pool, gpus) in enumerate(steps, 1):
        if what == "undone":
            fleet.state.begin(fleet.now)
            world.queues.charge(Owner(project, "me", "w", preemptible=True), pool, Amount((1 + gpus) * GPU))
            same(world, pool)
            fleet.state.abort()
        elif what == "look":
            standing_of(world, pool)
        else:
            step(fleet, number, what, project, pool, gpus)
    for pool in POOLS:
        same(world, pool)
