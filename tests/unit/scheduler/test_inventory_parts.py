"""A full inventory in parts: nothing of it counts before all of it is here, and what is lost is named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster_chassis.events import Reject
from muster_chassis.health import Health
from muster_kernel.lifecycle import Phase
from muster_scheduler import incomplete
from muster_scheduler.adapters import rebuild
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import INCOMPLETE_AFTER, Limits
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState
from muster_scheduler.domain.decisions import Release
from muster_scheduler.domain.fleet.snapshots import SnapshotPart
from muster_scheduler.domain.state import State
from tests.support.checked_fleet import driven
from tests.support.fleets import Fleet, node, workload_id
from tests.support.scheduler_tables import Tables, TablesUnit
from tests.support.snapshots import Reporting, translated


def empty() -> Fleet:
    """A registered cluster of which nothing was reported."""
    fleet = Fleet()
    fleet.state = State()
    fleet.send(events.ClusterRegistered("c1"))
    fleet.project("p", {"default": 100})
    return fleet


def begun(tables: Tables) -> Fleet:
    """The same, in the tables."""
    fleet = Fleet()
    fleet.state = State()
    written(fleet, tables, events.ClusterRegistered("c1"))
    return fleet


def names(fleet: Fleet) -> list[str]:
    return sorted(name for (_, name), node in fleet.world.inventory.nodes.items() if node.present)


def condition(fleet: Fleet, health: Health) -> str:
    fleet.state.begin(fleet.now)
    incomplete.tell(fleet.state.plan(), fleet.world, health)
    fleet.state.commit()
    return health.waiting.get(incomplete.CONDITION, "")


def written(fleet: Fleet, tables: Tables, *incoming: events.Event) -> None:
    """One transaction that the tables take."""
    fleet.state.begin(fleet.now)
    for event in incoming:
        fleet.state.apply(event)
    fleet.state.propose()
    unit: Any = TablesUnit(tables)
    driven(PostgresStore().write(unit, fleet.state.plan(), fleet.world))
    fleet.state.commit()


def rebuilt(fleet: Fleet, tables: Tables) -> Fleet:
    """The next leader, from what the tables have."""
    after = empty()
    after.now = fleet.now
    connection: Any = tables
    after.state = asyncio.run(rebuild.load(connection, Limits(), fleet.now))
    return after


def test_an_inventory_counts_once_every_part_is_here() -> None:
    fleet, agent = empty(), Reporting()
    first, second, third = agent.full("n1", "n2", "n3")
    fleet.send(first)
    fleet.send(second)
    assert names(fleet) == []
    assert fleet.submit(1).phase is Phase.PENDING
    fleet.send(third)
    assert names(fleet) == ["n1", "n2", "n3"]
    assert fleet.workload(1).phase is Phase.INITIALIZING
    assert fleet.world.clusters["c1"].incoming is None


def test_the_order_of_the_parts_is_of_no_account_and_one_that_comes_twice_counts_once() -> None:
    fleet, agent = empty(), Reporting()
    first, second, third = agent.full("n1", "n2", "n3")
    fleet.send(third, first, third, first)
    assert names(fleet) == []
    fleet.send(second)
    assert names(fleet) == ["n1", "n2", "n3"]
    fleet.send(third)
    assert names(fleet) == ["n1", "n2", "n3"]
    assert fleet.world.clusters["c1"].incoming is None


def test_the_nodes_of_before_stay_until_the_next_inventory_is_whole() -> None:
    fleet, agent = empty(), Reporting()
    fleet.send(*agent.full("n1", "n2"))
    workload = fleet.submit(1)
    lost, *others = agent.full("n1", "n2", "n3")
    fleet.send(*others)
    assert names(fleet) == ["n1", "n2"]
    assert workload.phase is Phase.INITIALIZING
    assert fleet.submit(2).phase is Phase.INITIALIZING
    fleet.send(lost)
    assert names(fleet) == ["n1", "n2", "n3"]


def test_the_next_inventory_supersedes_an_incomplete_one() -> None:
    fleet, agent = empty(), Reporting()
    old = agent.full("n1", "n2", "n3")
    new = agent.full("n1", "n4")
    fleet.send(*old[:2])
    fleet.state.begin(fleet.now)
    fleet.state.apply(new[0])
    assert fleet.state.plan().dropped_inventories == (
        "inventory 1 of cluster c1 is given up: its parts 3 of 3 did not come",
    )
    fleet.state.commit()
    fleet.send(old[2])  # too late: a newer one is on its way
    assert names(fleet) == []
    fleet.send(new[1])
    assert names(fleet) == ["n1", "n4"]


def test_parts_that_do_not_make_up_the_digest_change_nothing() -> None:
    fleet, agent = empty(), Reporting()
    first, second = agent.full("n1", "n2")
    other = Reporting().full("n1", "n3")[1]
    fleet.send(first)
    forged = events.InventoryPartReported("c1", second.order, second.place, second.digest, other.part)
    fleet.state.begin(fleet.now)
    fleet.state.apply(forged)
    assert fleet.state.plan().dropped_inventories == ("inventory 1 of cluster c1 does not match its digest",)
    fleet.state.commit()
    assert names(fleet) == []
    fleet.send(*agent.full("n1", "n2"))
    assert names(fleet) == ["n1", "n2"]


def test_a_part_of_another_snapshot_is_never_mixed_in() -> None:
    fleet, agent = empty(), Reporting()
    first, _ = agent.full("n1", "n2")
    _, foreign = Reporting().full("n1", "n3")  # the same number of the same sequence, and another digest
    fleet.send(first, foreign)
    assert names(fleet) == []
    fleet.send(*agent.full("n1", "n2"))
    assert names(fleet) == ["n1", "n2"]


def test_a_new_start_of_the_agent_drops_what_the_one_before_left() -> None:
    fleet, old = empty(), Reporting()
    fleet.send(*old.full("n1", "n2"), old.full("n1", "n2")[0])
    after = Reporting(start=2).full("n1", "n3")  # its sequence begins again
    fleet.send(after[1])
    assert sorted(fleet.world.clusters["c1"].incoming.parts) == [2]
    fleet.send(after[0])
    assert names(fleet) == ["n1", "n3"]


def test_an_adopted_cluster_takes_nothing_from_the_parts_of_the_agent_before() -> None:
    fleet, old = empty(), Reporting(start=7)
    fleet.send(*old.full("n1", "n2"), old.full("n1", "n2")[0])
    place = SnapshotPart(fleet.sequence + 1, 1, 2)
    fleet.send(events.AssignmentsHeld("c1", fleet.order(start=7), (), 1, place))
    fleet.send(events.ClusterAdopted("c1", "new"))
    new = Reporting(instance="new").full("n1", "n3")
    fleet.send(*new)
    assert names(fleet) == ["n1", "n3"]
    fleet.send(events.AssignmentsHeld("c1", fleet.order()._replace(instance="new"), (), 1))
    assert fleet.world.clusters["c1"].held is None


def test_a_transaction_that_fails_leaves_no_mark_on_the_parts_before_it() -> None:
    fleet, agent, other = empty(), Reporting(), Reporting("c2")
    fleet.send(events.ClusterRegistered("c2"))
    first, second = agent.full("n1", "n2")
    fleet.send(first)
    fleet.state.begin(fleet.now)
    for event in (*other.full("n1", "n9"), second):  # for the time of it, another cluster has the cards of n1
        fleet.state.apply(event)
    assert not fleet.world.inventory.nodes["c1", "n1"].devices[0].healthy
    fleet.state.abort()
    fleet.send(second)
    assert fleet.world.inventory.nodes["c1", "n1"].devices[0].healthy


def test_changes_follow_an_inventory_in_parts_and_wait_where_it_is_incomplete() -> None:
    fleet, agent = empty(), Reporting()
    fleet.send(*agent.full("n1", "n2"), agent.delta(["n3"]))
    assert names(fleet) == ["n1", "n2", "n3"]
    first, second = agent.full("n1", "n2")
    fleet.send(first, agent.delta(["n4"]))
    fleet.send(second)  # made before the change that was lost: it alone cannot be the newest
    assert names(fleet) == ["n1", "n2", "n3"]
    fleet.send(*agent.full("n1", "n2", "n4"))
    assert names(fleet) == ["n1", "n2", "n4"]


def test_what_stays_incomplete_is_named_until_a_whole_one_came() -> None:
    fleet, agent, health = empty(), Reporting(), Health()
    fleet.send(*agent.full("n1", "n2", "n3")[::2])
    assert condition(fleet, health) == ""
    fleet.wait((INCOMPLETE_AFTER + SECOND) // SECOND)
    assert condition(fleet, health) == "cluster c1: inventory 1 lacks its parts 2 of 3: the last whole one counts"
    fleet.send(*agent.full("n1", "n2", "n3")[1:])
    assert "inventory 2 lacks its parts 1 of 3" in condition(fleet, health)
    fleet.send(*agent.full("n1", "n2", "n3"))
    assert condition(fleet, health) == ""


def test_a_lost_change_is_named_too() -> None:
    fleet, agent, health = empty(), Reporting(), Health()
    fleet.send(*agent.full("n1", "n2"))
    agent.delta(["n3"])
    fleet.send(agent.delta(["n4"]))
    fleet.wait((INCOMPLETE_AFTER + SECOND) // SECOND)
    assert "cluster c1: an inventory was lost" in condition(fleet, health)


def test_parts_outlive_the_leader_that_read_them() -> None:
    agent, tables = Reporting(), Tables()
    fleet = begun(tables)
    first, second, third = agent.full("n1", "n2", "n3")
    written(fleet, tables, first)
    written(fleet, tables, third)
    after = rebuilt(fleet, tables)
    assert after.state.digest() == fleet.state.digest()
    written(after, tables, second)
    assert names(after) == ["n1", "n2", "n3"]
    assert not tables.rows["inventory_parts"]
    assert rebuilt(after, tables).state.digest() == after.state.digest()


def test_parts_that_are_superseded_leave_no_row() -> None:
    agent, tables = Reporting(), Tables()
    fleet = begun(tables)
    written(fleet, tables, *agent.full("n1", "n2", "n3")[:2])
    written(fleet, tables, agent.full("n1", "n2")[1])
    assert sorted(tables.rows["inventory_parts"]) == [("c1", 2)]
    assert rebuilt(fleet, tables).state.digest() == fleet.state.digest()


def test_a_transaction_that_fails_is_done_again_with_the_same_parts() -> None:
    fleet, agent = empty(), Reporting()
    first, second = agent.full("n1", "n2")
    fleet.send(first)
    before = fleet.state.digest()
    for _ in range(2):
        fleet.state.begin(fleet.now)
        fleet.state.apply(second)
        fleet.state.propose()
        fleet.state.abort()
        assert fleet.state.digest() == before
    fleet.send(second)
    assert names(fleet) == ["n1", "n2"]


def test_a_silence_ends_with_the_last_part_of_what_is_held() -> None:
    fleet = Fleet(node("n1", 2))
    workloads = [fleet.submit(1), fleet.submit(2)]
    fleet.now += 60 * SECOND
    fleet.send()
    assert [w.phase for w in workloads] == [Phase.UNKNOWN] * 2
    snapshot = fleet.sequence + 1
    for number, workload in enumerate(workloads, 1):
        assert [w.phase for w in workloads] == [Phase.UNKNOWN] * 2
        (replica,) = workload.everyone()
        status = events.Status("worker", 0, replica.holder.k, "n1", ReplicaState.READY, gone=False)
        told = (events.Held(workload.id, 1, 1, 1, (status,)),)
        place = SnapshotPart(snapshot, number, 2)
        fleet.send(events.AssignmentsHeld("c1", fleet.order(), told, 1, place))
    assert [w.phase for w in workloads] == [Phase.RUNNING] * 2


def test_what_was_said_before_a_silence_does_not_end_it() -> None:
    fleet = Fleet(node("n1", 1))
    workload = fleet.submit(1)
    fleet.run(1)
    place = fleet.sequence + 1
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (), 1, SnapshotPart(place, 1, 2)))
    fleet.now += 60 * SECOND
    fleet.send()
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (), 1, SnapshotPart(place, 2, 2)))
    assert workload.phase is Phase.UNKNOWN
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (), 1))
    assert workload.phase is Phase.RUNNING


def test_the_part_of_what_is_held_that_does_not_come_is_named() -> None:
    fleet, health = Fleet(node("n1", 1)), Health()
    place = SnapshotPart(fleet.sequence + 1, 2, 3)
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (), 1, place))
    fleet.wait((INCOMPLETE_AFTER + SECOND) // SECOND)
    assert condition(fleet, health) == "cluster c1: the list of its held assignments lacks its parts 1, 3 of 3"
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (), 1))
    assert condition(fleet, health) == ""


def test_strays_of_one_part_are_not_forgotten_by_another() -> None:
    fleet = empty()
    strays = [events.Held(workload_id(number), 1, 1, 1, ()) for number in (7, 8)]
    for _ in range(2):
        for number, stray in enumerate(strays, 1):
            place = SnapshotPart(fleet.sequence + 2 - number, number, 2)  # the sequence of the first part
            fleet.send(events.AssignmentsHeld("c1", fleet.order(), (stray,), 1, place))
        fleet.now += 1800 * SECOND
    fleet.send(fleet.heartbeat("c1"))
    assert len(fleet.world.orphans) == 2
    fleet.now += 2 * SECOND
    made = fleet.send(fleet.heartbeat("c1"))
    assert sorted(d.workload for d in made if isinstance(d, Release)) == [workload_id(7), workload_id(8)]


def test_a_stray_that_no_part_names_any_more_is_forgotten() -> None:
    fleet = empty()
    strays = [events.Held(workload_id(number), 1, 1, 1, ()) for number in (7, 8)]
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), tuple(strays), 1))
    place = fleet.sequence + 1
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (strays[0],), 1, SnapshotPart(place, 1, 2)))
    assert len(fleet.world.orphans) == 2
    fleet.send(events.AssignmentsHeld("c1", fleet.order(), (), 1, SnapshotPart(place, 2, 2)))
    assert [key[1] for key in fleet.world.orphans] == [workload_id(7)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"number": 0}, "part 0 of 2"),
        ({"number": 3}, "part 3 of 2"),
        ({"count": 257}, "at most 256"),
        ({"digest": b"short"}, "has 5 bytes and should have 32"),
        ({"content": b"\xff"}, "cannot be decoded"),
    ],
)
def test_what_cannot_be_a_part_is_refused(change: dict[str, Any], said: str) -> None:
    message = Reporting().messages("n1", "n2")[0]
    for name, value in change.items():
        setattr(message.part if name in {"number", "count"} else message, name, value)
    with pytest.raises(Reject, match=said):
        translated(message)
