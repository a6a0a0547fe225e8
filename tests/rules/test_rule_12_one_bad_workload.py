"""Rule 12, the scheduler's part: a workload that a cycle fails on is set aside, and the rest is decided.

The failure is made by substituting a part of the cycle, always for the same workload. Taken out here: the containment
(the cycle's failure ends the transaction, and comes again with every batch of records).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partialmethod
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from muster_chassis import metrics
from muster_chassis.events import Retry
from muster_chassis.health import Health
from muster_chassis.unit import Unit
from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import WaitingReason
from muster_scheduler.adapters.postgres import _encoded
from muster_scheduler.domain import decisions, events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.workloads import Workload, WorkloadKind
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import EndWish, Wish
from muster_scheduler.domain.life import fleet as life_fleet
from muster_scheduler.domain.placement import ahead
from muster_scheduler.domain.state import Plan
from muster_scheduler.domain.turning import batching, cycle, turns
from muster_scheduler.handlers import BATCHES_FAILED, Handlers
from muster_scheduler.ports import Unpublishable
from tests.support.fleets import Fleet, node, request, role, whole

BAD = 2
_BOOM = "the part fails on this workload"


@dataclass
class Kept:
    """Takes what is written and published; `unpublishable`: whose decisions have no record."""

    plans: list[Plan] = field(default_factory=list)
    unpublishable: str = ""

    async def write(self, unit: Unit, plan: Plan, world: World) -> None:
        self.plans.append(plan)

    async def revive(self, unit: Unit, workload_ids: Sequence[str]) -> list[Workload]:
        return []

    def publish(self, unit: Unit, plan: Plan, world: World) -> None:
        for decision in plan.decisions:
            if isinstance(decision, Wish | EndWish):
                continue  # of a node
            if decision.workload == self.unpublishable and decision.workload not in world.quarantined:
                raise Unpublishable(decision.workload, _BOOM)


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


class Leader:
    """The handlers over a fleet, and transactions that all commit."""

    def __init__(self, fleet: Fleet, kind: type[Handlers] = Handlers) -> None:
        self.fleet, self.kept, self.health = fleet, Kept(), Health()
        self.handlers = kind(fleet.state, self.kept, self.kept, lambda _: None, health=self.health)
        self.handlers.deciding = True

    async def transact(self, *incoming: Any, **options: Any) -> Plan:
        turn = Turn(datetime.fromtimestamp(self.fleet.now / 1e6, UTC))
        try:
            plan = await self.handlers.transact(cast("Unit", turn), incoming, **options)
        except BaseException:
            for act in turn.undone:
                act()
            raise
        for act in turn.committed:
            act()
        return plan

    def phases(self, *numbers: int) -> list[Phase]:
        return [self.fleet.workload(number).phase for number in numbers]


class _Uncontained(Handlers):
    """Lets a cycle's failure end the transaction."""

    def _decide(self, now: int, arrived: Any, revived: Any, before: Any, steps: Any) -> Plan:
        self._take_in(now, arrived, revived, before, ())
        self.state.propose()
        return self.state.plan()


def _poisoned(monkeypatch: pytest.MonkeyPatch, fleet: Fleet) -> None:
    """Has the cycle fail on one workload, whether it comes alone or in a batch."""
    place, place_many = cycle.place, batching.place_many
    bad = fleet.admitted(BAD, request()).workload

    def failing_place(world: World, workload: Workload, *rest: Any) -> Any:
        if workload.id == bad:
            raise ZeroDivisionError(_BOOM)
        return place(world, workload, *rest)

    def failing_batch(world: World, *rest: Any) -> int:
        if bad in world.waiting:
            raise ZeroDivisionError(_BOOM)
        return place_many(world, *rest)

    monkeypatch.setattr(cycle, "place", failing_place)
    monkeypatch.setattr(cycle, "place_many", failing_batch)


def _fleet() -> Fleet:
    return Fleet(node("n1", 8))


def _admissions(fleet: Fleet, numbers: Sequence[int]) -> list[Any]:
    return [fleet.admitted(number, request(role(whole(1)))) for number in numbers]


async def test_the_others_are_placed_and_the_bad_one_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    _poisoned(monkeypatch, fleet)
    leader = Leader(fleet)
    plan = await leader.transact(*_admissions(fleet, (1, BAD, 3)))
    assert leader.phases(1, BAD, 3) == [Phase.INITIALIZING, Phase.PENDING, Phase.INITIALIZING]
    bad = fleet.workload(BAD)
    found = fleet.state.world.quarantined[bad.id]
    assert found.error == f"ZeroDivisionError: {_BOOM}"
    assert "failing_place" in found.trace
    told = [one for one in plan.decisions if isinstance(one, decisions.Waiting) and one.workload == bad.id]
    assert [one.reason.code for one in told] == [WaitingReason.QUARANTINED]
    assert plan.touched.quarantined == {bad.id: None}
    said = explain(fleet.state.world, bad)
    assert said.reason is not None
    assert said.reason.code is WaitingReason.QUARANTINED
    assert any("muster quarantine release" in each for each in said.unblockers)


async def test_without_the_containment_nobody_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    _poisoned(monkeypatch, fleet)
    leader = Leader(fleet, _Uncontained)
    with pytest.raises(ZeroDivisionError):
        await leader.transact(*_admissions(fleet, (1, BAD, 3)))
    assert fleet.state.world.workloads == {}


async def test_it_stays_aside_in_the_next_cycles_and_until_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    leader = Leader(fleet)
    with monkeypatch.context() as poison:
        _poisoned(poison, fleet)
        await leader.transact(*_admissions(fleet, (1, BAD)))
        await leader.transact(*_admissions(fleet, (3,)))
        assert leader.phases(1, BAD, 3) == [Phase.INITIALIZING, Phase.PENDING, Phase.INITIALIZING]
    await leader.transact()
    assert leader.phases(BAD) == [Phase.PENDING]
    await leader.handlers.release(
        cast("Unit", (turn := Turn(datetime.fromtimestamp(fleet.now / 1e6, UTC)))), [fleet.workload(BAD).id]
    )
    for act in turn.committed:
        act()
    assert leader.phases(BAD) == [Phase.INITIALIZING]
    assert fleet.state.world.quarantined == {}


async def test_a_new_generation_of_a_service_is_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    leader = Leader(fleet)
    with monkeypatch.context() as poison:
        _poisoned(poison, fleet)
        await leader.transact(fleet.admitted(BAD, request(role(whole(1)), kind=WorkloadKind.INFERENCE)))
    assert list(fleet.state.world.quarantined) == [fleet.workload(BAD).id]
    changed = request(role(whole(2)), kind=WorkloadKind.INFERENCE, generation=2)
    plan = await leader.transact(fleet.admitted(BAD, changed))
    assert leader.phases(BAD) == [Phase.INITIALIZING]
    assert plan.touched.quarantined == {fleet.workload(BAD).id: None}


async def test_a_failed_transaction_forgets_what_it_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    _poisoned(monkeypatch, fleet)
    leader = Leader(fleet)
    await leader.transact(*_admissions(fleet, (1,)))
    before = fleet.state.digest()

    async def fail(*_: Any) -> None:
        raise ConnectionError("no database")

    monkeypatch.setattr(leader.kept, "write", fail)
    with pytest.raises(ConnectionError):
        await leader.transact(*_admissions(fleet, (BAD,)))
    assert fleet.state.digest() == before
    assert fleet.state.world.quarantined == {}


async def test_a_decision_without_a_record_sets_its_workload_aside() -> None:
    fleet = _fleet()
    leader = Leader(fleet)
    incoming = _admissions(fleet, (1, BAD))
    leader.kept.unpublishable = incoming[1].workload
    with pytest.raises(Retry):
        await leader.transact(*incoming)
    await leader.transact(*incoming)
    assert leader.phases(1, BAD) == [Phase.INITIALIZING, Phase.PENDING]
    assert list(fleet.state.world.quarantined) == [incoming[1].workload]


async def test_where_nobody_is_to_blame_events_are_taken_in_and_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = _fleet()
    leader = Leader(fleet)
    with monkeypatch.context() as broken:

        def fail(_: World) -> None:
            raise ZeroDivisionError(_BOOM)

        broken.setattr(cycle, "look_at_arrivals", fail)
        await leader.transact(*_admissions(fleet, (1,)))
        assert leader.phases(1) == [Phase.PENDING]
        assert "nothing is decided" in leader.health.waiting["cycle"]
        assert leader.health.serving
    await leader.transact()
    assert leader.phases(1) == [Phase.INITIALIZING]
    assert leader.health.waiting == {}


async def test_a_batch_that_fails_by_itself_costs_only_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    leader = Leader(fleet)

    def fail(*_: Any) -> int:
        raise ZeroDivisionError(_BOOM)

    monkeypatch.setattr(cycle, "place_many", fail)
    failures = metrics.value(BATCHES_FAILED)
    with capture_logs() as lines:
        await leader.transact(*_admissions(fleet, (1, BAD, 3)))
        await leader.transact(*_admissions(fleet, (4,)))
    assert [line["event"] for line in lines] == [
        "batches of heads are switched off: one failed and no workload is to blame"
    ]
    assert metrics.value(BATCHES_FAILED) == failures + 1
    assert leader.phases(1, BAD, 3) == [Phase.INITIALIZING] * 3
    assert fleet.state.world.quarantined == {}
    assert not fleet.state.world.batches


class _Rows:
    """Encodes rows as the store does; that of one workload fails once it is placed, or always."""

    def __init__(self, kept: Kept, bad: str, *, always: bool = False) -> None:
        self._kept, self._bad, self._always = kept, bad, always

    async def write(self, unit: Unit, plan: Plan, world: World) -> None:
        """Writes, or blames the workload."""
        for workload_id in plan.touched.all_workloads():
            _encoded(workload_id, self._row, world.workloads[workload_id])
        await self._kept.write(unit, plan, world)

    async def revive(self, unit: Unit, workload_ids: Sequence[str]) -> list[Workload]:
        """None has left the memory."""
        return await self._kept.revive(unit, workload_ids)

    def _row(self, workload: Workload) -> str:
        if workload.id == self._bad and (self._always or workload.phase is Phase.INITIALIZING):
            raise OverflowError(_BOOM)
        return ""


async def test_a_row_that_cannot_be_encoded_sets_its_workload_aside() -> None:
    fleet = _fleet()
    leader = Leader(fleet)
    incoming = _admissions(fleet, (1, BAD))
    leader.handlers._store = _Rows(leader.kept, incoming[1].workload)
    with pytest.raises(Retry):
        await leader.transact(*incoming)
    await leader.transact(*incoming)
    assert leader.phases(1, BAD) == [Phase.INITIALIZING, Phase.PENDING]
    assert "its row cannot be encoded: OverflowError" in fleet.state.world.quarantined[incoming[1].workload].error


async def test_an_event_that_makes_a_row_impossible_is_poison_and_not_tried_for_ever() -> None:
    fleet = _fleet()
    leader = Leader(fleet)
    incoming = _admissions(fleet, (BAD,))
    leader.handlers._store = _Rows(leader.kept, incoming[0].workload, always=True)
    with pytest.raises(Retry):
        await leader.transact(*incoming)
    with pytest.raises(Unpublishable):  # no Retry: the intake counts its tries, then makes it a dead letter
        await leader.transact(*incoming)
    await leader.transact(*_admissions(fleet, (1,)))
    assert leader.phases(1) == [Phase.INITIALIZING]


def _failing_mix(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    """Has the look-ahead fail on the record of one node pool."""
    is_old = ahead._is_old

    def failing(pool: Any, now: int) -> bool:
        if pool.name == bad:
            raise ZeroDivisionError(_BOOM)
        return is_old(pool, now)

    monkeypatch.setattr(ahead, "_is_old", failing)


def _two_pools() -> Fleet:
    fleet = Fleet(node("n1", 8, pool="good"), node("n2", 8, pool="bad"))
    for number, name in enumerate(("good", "bad"), start=1):
        fleet.send(events.NodePoolChanged(NodePool(number, "c1", name, 1, gpu=Strategy.FORESIGHT)))
    return fleet


def _in_pools(fleet: Fleet, *names: str) -> list[Any]:
    return [fleet.admitted(n, request(role(whole(1)), pools=(name,))) for n, name in enumerate(names, start=1)]


async def test_a_bad_node_pool_is_set_aside_and_the_others_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _two_pools()
    leader = Leader(fleet)
    world = fleet.state.world
    with monkeypatch.context() as poison:
        _failing_mix(poison, "bad")
        await leader.transact(*_in_pools(fleet, "good", "bad"))
        assert leader.phases(1, 2) == [Phase.INITIALIZING, Phase.PENDING]
        assert list(world.places_aside) == ["pool/bad"]
        assert world.quarantined == {}
        assert f"pool/bad: ZeroDivisionError: {_BOOM}" in leader.health.waiting["places"]
        waits = explain(world, fleet.workload(2))
        assert waits.reason is not None
        assert waits.reason.code is WaitingReason.QUARANTINED
        await leader.transact(fleet.admitted(3, request(role(whole(1)), pools=("good",))))
        assert leader.phases(3) == [Phase.INITIALIZING]
    await leader.transact(events.NodePoolChanged(NodePool(2, "c1", "bad", 2, gpu=Strategy.FORESIGHT)))
    assert leader.phases(2) == [Phase.INITIALIZING]
    assert (world.places_aside, leader.health.waiting) == ({}, {})


async def test_shares_that_cannot_be_made_of_one_pool_stop_that_pool_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _two_pools()
    leader = Leader(fleet)

    def failing(turn: Any, pool: Any) -> str:
        if pool._pool == "bad":
            raise ZeroDivisionError(_BOOM)
        return str(turn(pool))

    with monkeypatch.context() as poison:
        poison.setattr(turns._Pool, "turn", partialmethod(lambda pool, turn: failing(turn, pool), turns._Pool.turn))
        await leader.transact(*_in_pools(fleet, "bad", "good"))
        assert leader.phases(1, 2) == [Phase.PENDING, Phase.INITIALIZING]
        assert list(fleet.state.world.places_aside) == ["pool/bad"]
    turn = Turn(datetime.fromtimestamp(fleet.now / 1e6, UTC))
    await leader.handlers.release(cast("Unit", turn), ["pool/bad"])
    for act in turn.committed:
        act()
    assert leader.phases(1) == [Phase.INITIALIZING]


async def test_a_bad_cluster_is_set_aside_and_silence_of_the_others_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet()
    leader = Leader(fleet)
    fall_silent = life_fleet._fall_silent

    def failing(world: World, cluster: Any) -> None:
        if cluster.id == "c1":
            raise ZeroDivisionError(_BOOM)
        fall_silent(world, cluster)

    monkeypatch.setattr(life_fleet, "_fall_silent", failing)
    fleet.now += 600_000_000
    await leader.transact(*_admissions(fleet, (1,)))
    assert list(fleet.state.world.places_aside) == ["cluster/c1"]
    assert "cluster/c1: ZeroDivisionError" in leader.health.waiting["places"]


async def test_what_setting_aside_does_not_help_is_not_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _two_pools()
    leader = Leader(fleet)

    def failing(world: World) -> None:
        for name in ("bad", "good"):
            world.attends_place(f"pool/{name}")
        raise ZeroDivisionError(_BOOM)

    monkeypatch.setattr(cycle, "look_at_arrivals", failing)
    await leader.transact(*_in_pools(fleet, "good"))
    assert fleet.state.world.places_aside == {}
    assert "nothing is decided" in leader.health.waiting["cycle"]
