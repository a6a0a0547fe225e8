"""The heaps of turns say what a look at every queue would say, whatever is charged, blocked and woken between turns."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.books.accounts import Owner
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.turning.turns import Turns
from tests.support.fleets import Fleet, node, request, role, whole

PROJECTS = ("a", "b", "c", "d", "e", "f")
POOLS = ("default", "other")


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Six projects in two departments and none; two workloads of each wait, since no node is there yet."""
    fleet = Fleet(node("n1", 8), node("m1", 8, pool="other"))
    fleet.inventory("c1", [])
    for department in ("x", "y"):
        fleet.department(department, dict.fromkeys(POOLS, draw(st.integers(0, 3))))
    for number, project in enumerate(PROJECTS):
        department = draw(st.sampled_from(["x", "y", "none"]))
        weight = draw(st.sampled_from([0, 1000, 3000]))
        quotas = dict.fromkeys(POOLS, draw(st.integers(0, 3)))
        fleet.project(project, quotas, department=department, weight=weight)
        for pool in draw(st.sets(st.sampled_from(POOLS))):
            fleet.submit(2 * number + POOLS.index(pool), request(role(whole(1)), pools=(pool,)), project=project)
    fleet.world.waiting.wake_all()
    return fleet


def expected(world: World, turns: Turns) -> str | None:
    """Level by level, the least full queue of the first pool: every one looked at."""
    heads: dict[str, list[str]] = {}
    for project in world.waiting.projects():
        head = world.waiting.head(project)
        assert head is not None
        heads.setdefault(head[1].pools[0], []).append(project)
    if not heads:
        return None
    pool = min(heads)
    if len(heads[pool]) == 1:
        return heads[pool][0]
    standing = turns.standing(pool)

    def key(project: str) -> tuple[int, str, int, str]:
        own = standing.fullness(standing.projects[project], world.queues.account(project, pool).held)
        department = world.queues.department_of(project)
        if department is None:
            return own, project, own, project
        row = standing.departments[department.name]
        over = standing.fullness(row, world.queues.department_account(department.name, pool).held)
        return over, department.name, own, project

    return min(heads[pool], key=key)


@given(
    fleets(),
    st.lists(
        st.tuples(
            st.sampled_from(["charge", "release", "block", "wake", "remove"]),
            st.sampled_from(PROJECTS),
            st.sampled_from(POOLS),
            st.integers(1, 4),
        ),
        max_size=30,
    ),
)
def test_turns_are_those_of_a_look_at_everybody(fleet: Fleet, steps: list[tuple[str, str, str, int]]) -> None:
    world = fleet.world
    turns = Turns(world)
    for what, project, pool, gpus in steps:
        found = turns.next()
        assert (found[0].project if found else None) == expected(world, turns)
        owner = Owner(project, "me", f"w-{project}", preemptible=True)
        if what == "charge":
            world.queues.charge(owner, pool, Amount(gpus * GPU))
        elif what == "release" and world.queues.account(project, pool).allocated:
            world.queues.charge(owner, pool, world.queues.account(project, pool).held, -1)
        elif what == "block" and found:
            world.waiting.block(found[1], Reason(WaitingReason.NOT_EVALUATED))
        elif what == "wake":
            world.waiting.wake_project(project)
        elif what == "remove" and found:
            world.waiting.remove(found[0].id)


def test_a_turn_costs_the_same_however_many_were_before(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet()
    for project in PROJECTS:
        fleet.project(project, {"default": 2})
        fleet.submit(PROJECTS.index(project), request(role(whole(1))), project=project)
    fleet.world.waiting.wake_all()
    asked: list[int] = []
    fullness = Standing.fullness

    def counted(standing: Standing, row: int, held: Amount) -> int:
        asked.append(row)
        return fullness(standing, row, held)

    monkeypatch.setattr(Standing, "fullness", counted)
    turns, costs = Turns(fleet.world), []
    for _ in range(200):
        assert turns.next() is not None
        for project in PROJECTS:
            fleet.world.queues.charge(Owner(project, "me", f"w-{project}", preemptible=True), "default", Amount(GPU))
        costs.append(len(asked))
        asked.clear()
    assert max(costs[1:]) <= 2 * min(costs[1:])
