"""A transaction of the leader says where its time went, and what it did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from muster_chassis import metrics
from muster_chassis.lease import Term
from muster_chassis.unit import Unit
from muster_scheduler.commands import adoptable
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.state import Plan
from muster_scheduler.domain.steps import Step, Steps
from muster_scheduler.errors import AgentAlive
from muster_scheduler.handlers import DECIDED, STEP, UNFINISHED, Handlers
from muster_scheduler.rpc import Desk
from tests.support.fleets import Fleet, node, request


@dataclass
class Kept:
    """Takes what is written and published, or refuses to."""

    broken: bool = False
    plans: list[Plan] = field(default_factory=list)

    async def write(self, unit: Unit, plan: Plan, world: World) -> None:
        if self.broken:
            raise ConnectionError("no database")
        self.plans.append(plan)

    async def revive(self, unit: Unit, workload_ids: Sequence[str]) -> list[Workload]:
        return []

    def publish(self, unit: Unit, plan: Plan, world: World) -> None:
        self.plans.append(plan)


@dataclass
class Turn:
    """A unit without a database."""

    now: datetime
    committed: list[Callable[[], object]] = field(default_factory=list)
    undone: list[Callable[[], object]] = field(default_factory=list)

    def after_commit(self, act: Callable[[], object]) -> None:
        self.committed.append(act)

    def after_rollback(self, act: Callable[[], object]) -> None:
        self.undone.append(act)


def leader(fleet: Fleet, kept: Kept, visits: int = 20_000) -> Handlers:
    handlers = Handlers(fleet.state, kept, kept, lambda _: None, visits=visits)
    handlers.deciding = True
    return handlers


def observed() -> dict[str, float]:
    found = (sample for family in STEP.collect() for sample in family.samples if sample.name.endswith("_count"))
    return {sample.labels["step"]: sample.value for sample in found}


async def test_each_step_is_observed_once_a_transaction() -> None:
    fleet, kept = Fleet(node("n1", 2)), Kept()
    turn = Turn(datetime.fromtimestamp(fleet.now / 1e6, UTC))
    before, placed = observed(), metrics.value(DECIDED, kind="Placed")
    admitted = fleet.admitted(1, request())
    await leader(fleet, kept).transact(cast("Unit", turn), [admitted])
    for act in turn.committed:
        act()
    after = observed()
    grown = {step for step, count in after.items() if count == before.get(step, 0) + 1}
    assert grown == {step.value for step in Step} - {Step.ROOM}
    assert metrics.value(DECIDED, kind="Placed") == placed + 1
    assert len(kept.plans) == 2


async def test_silence_is_judged_up_to_where_reports_are_read() -> None:
    fleet = Fleet(node("n1"))
    turn = Turn(datetime.fromtimestamp(fleet.now / 1e6, UTC))
    handlers = leader(fleet, Kept())
    handlers.read_until = lambda: {"c1": 7, "c2": 8}
    handlers.unread = frozenset({"c2"})
    await handlers.transact(cast("Unit", turn), [])
    for act in turn.committed:
        act()
    assert fleet.world.read_until == {"c1": 7, "c2": 0}


async def test_what_is_not_committed_is_not_counted() -> None:
    fleet, kept = Fleet(node("n1", 2)), Kept(broken=True)
    turn = Turn(datetime.fromtimestamp(fleet.now / 1e6, UTC))
    before, digest = observed(), fleet.state.digest()
    handlers = leader(fleet, kept)
    with pytest.raises(ConnectionError):
        await handlers.transact(cast("Unit", turn), [fleet.admitted(1, request())])
    for act in turn.undone:
        act()
    assert observed() == before
    assert fleet.state.digest() == digest
    async with handlers.reading() as state:
        assert state is fleet.state


async def test_a_cycle_that_spent_its_work_is_followed_by_another() -> None:
    fleet, kept = Fleet(node("n1", 2)), Kept()
    turn = Turn(datetime.fromtimestamp(fleet.now / 1e6, UTC))
    handlers, before = leader(fleet, kept, visits=1), metrics.value(UNFINISHED)
    await handlers.transact(cast("Unit", turn), [fleet.admitted(number, request()) for number in range(1, 5)])
    for act in turn.committed:
        act()
    assert metrics.value(UNFINISHED) == before + 1
    assert handlers.again.is_set()


def test_without_a_clock_nothing_is_measured() -> None:
    steps = Steps()
    steps.done(Step.PLACE)
    assert steps.seconds == {}


def test_the_time_of_a_step_is_that_since_the_one_before() -> None:
    times = iter((10.0, 11.0, 14.0, 14.5))
    steps = Steps(lambda: next(times))
    for step in (Step.ORDER, Step.PLACE, Step.ORDER):
        steps.done(step)
    assert steps.seconds == {Step.ORDER: 1.5, Step.PLACE: 3.0}


class Undisputed:
    """The term of a leader that nothing deposes."""

    async def fence(self, unit: Unit) -> None: ...


async def test_a_command_is_judged_on_the_state_that_it_changes() -> None:
    """A report that is being taken in while the operator asks: the agent is alive after all."""
    fleet, kept = Fleet(node("n1", 2)), Kept()
    late = fleet.now + 60 * SECOND
    handlers, absent = leader(fleet, kept), cast("Any", None)
    desk = Desk(absent, absent, absent, absent)
    desk.open(handlers, cast("Term", Undisputed()))
    stranger = fleet.heartbeat("c1")
    fleet.send(events.HeartbeatSeen("c1", stranger.order._replace(instance="newcomer")))
    adoptable(fleet.state, "c1", "newcomer", now=late, force=False)

    report, command = Turn(datetime.fromtimestamp(late / 1e6, UTC)), Turn(datetime.fromtimestamp(late / 1e6, UTC))
    await handlers.transact(cast("Unit", report), [fleet.heartbeat("c1")])
    asked = asyncio.ensure_future(
        desk.command(
            cast("Unit", command),
            events.ClusterAdopted("c1", "newcomer"),
            judge=lambda state: adoptable(state, "c1", "newcomer", now=late, force=False),
        )
    )
    await asyncio.sleep(0)
    for act in report.committed:
        act()
    with pytest.raises(AgentAlive):
        await asked
    for act in command.undone:
        act()
    async with handlers.reading() as state:
        assert state.world.clusters["c1"].instance == "agent-c1"
