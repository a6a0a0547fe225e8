"""Rules 9 and 11: an inventory in parts counts when it is whole, and its parts outlive the leader that read them.

Taken out here: the wait for every part (a node whose part is still to come counts as gone), the digest (parts of two
inventories become a cluster that never was), the rows of the parts (their offset is behind the next leader, which waits
for ever for what was read), and the wait for every part of what an agent holds (strays are forgotten, and their hour
begins again every five minutes).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster_scheduler.adapters import postgres, rebuild
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.decisions import Release
from muster_scheduler.domain.fleet.nodes import Mode
from muster_scheduler.domain.fleet.snapshots import IncomingInventory, SnapshotPart
from muster_scheduler.domain.life import fleet as clusters
from muster_scheduler.domain.state import State
from tests.support.checked_fleet import driven
from tests.support.fleets import START, Fleet, workload_id
from tests.support.scheduler_tables import Tables, TablesUnit
from tests.support.snapshots import Reporting


def _cluster() -> Fleet:
    """A cluster that was registered and has reported nothing."""
    made = Fleet()
    made.state = State()
    made.send(events.ClusterRegistered("c1"))
    return made


def _names(state: State) -> set[str]:
    return {name for (_, name), node in state.world.inventory.nodes.items() if node.present}


def _modes(made: Fleet) -> list[Mode]:
    return [device.mode for _, node in sorted(made.world.inventory.nodes.items()) for device in node.devices]


def _a_part_takes_nothing_from_the_others() -> None:
    made, agent = _cluster(), Reporting()
    made.send(*agent.full("n1", "n2", "n3"))
    for part in agent.full("n1", "n2", "n3"):
        made.send(part)
        assert _names(made.state) == {"n1", "n2", "n3"}
        assert _modes(made) == [Mode.IDLE] * 3


def test_an_inventory_counts_when_it_is_whole() -> None:
    _a_part_takes_nothing_from_the_others()


def test_a_part_that_counts_as_the_whole_takes_the_other_nodes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IncomingInventory, "complete", property(lambda _: True))
    monkeypatch.setattr(IncomingInventory, "genuine", property(lambda _: True))
    with pytest.raises(AssertionError):
        _a_part_takes_nothing_from_the_others()


def _parts_of_two_inventories_are_none() -> None:
    made = _cluster()
    first, second = Reporting().full("n1", "n2")
    _, other = Reporting().full("n1", "n3")
    made.send(first, events.InventoryPartReported("c1", second.order, second.place, second.digest, other.part))
    assert _names(made.state) in ({"n1", "n2"}, set())


def test_parts_that_do_not_match_their_digest_are_no_inventory() -> None:
    _parts_of_two_inventories_are_none()


def test_without_the_digest_two_inventories_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IncomingInventory, "genuine", property(lambda _: True))
    with pytest.raises(AssertionError):
        _parts_of_two_inventories_are_none()


def _a_leader_ends_between_two_parts() -> None:
    tables, (first, second) = Tables(), Reporting().full("n1", "n2")
    state = State()
    _written(state, tables, events.ClusterRegistered("c1"), first)
    connection: Any = tables
    after = asyncio.run(rebuild.load(connection, Limits(), START))
    _written(after, tables, second)
    assert _names(after) == {"n1", "n2"}


def _written(state: State, tables: Tables, *incoming: events.Event) -> None:
    state.begin(START)
    for event in incoming:
        state.apply(event)
    unit: Any = TablesUnit(tables)
    driven(PostgresStore().write(unit, state.plan(), state.world))
    state.commit()


def test_parts_outlive_their_leader() -> None:
    _a_leader_ends_between_two_parts()


def test_without_their_rows_an_inventory_is_never_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Tables):
        async def execute(self, sql: str, *columns: Any) -> None:
            if sql != postgres._PARTS:
                await super().execute(sql, *columns)

    monkeypatch.setattr(f"{__name__}.Tables", Forgetful)
    with pytest.raises(AssertionError):
        _a_leader_ends_between_two_parts()


def _a_stray_of_every_part_is_released_after_an_hour() -> None:
    made = _cluster()
    for _ in range(13):
        snapshot = made.sequence + 1
        for number in (1, 2):
            stray = events.Held(workload_id(number), 1, 1, 1, ())
            place = SnapshotPart(snapshot, number, 2)
            made.send(events.AssignmentsHeld("c1", made.order(), (stray,), 1, place))
        made.now += 300 * SECOND
    made.send(made.heartbeat("c1"))
    released = [decision.workload for decision in made.decisions if isinstance(decision, Release)]
    assert sorted(released) == [workload_id(1), workload_id(2)]


def test_what_is_held_is_judged_when_it_is_whole() -> None:
    _a_stray_of_every_part_is_released_after_an_hour()


def test_a_part_that_counts_as_all_that_is_held_forgets_strays(monkeypatch: pytest.MonkeyPatch) -> None:
    # As before there were parts: each record is a list of its own.
    monkeypatch.setattr(clusters, "_completes", lambda *_: True)
    before = clusters.on_held

    def alone(world: Any, event: events.AssignmentsHeld) -> None:
        place = SnapshotPart(event.order.sequence, 1, 1)
        before(world, events.AssignmentsHeld(event.cluster, event.order, event.held, event.highest_epoch, place))

    monkeypatch.setitem(State.apply.__globals__["_HANDLERS"], events.AssignmentsHeld, alone)
    with pytest.raises(AssertionError):
        _a_stray_of_every_part_is_released_after_an_hour()
