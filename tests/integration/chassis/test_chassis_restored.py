"""A PostgreSQL that is older than Kafka: what it forgot is named, nothing is published, an empty Kafka ends it.

Taken out here: the comparison before the first session. Versions are then given twice, and consumers drop the new
events as duplicates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from muster_chassis import identity, restored
from muster_chassis.broker import Broker
from muster_chassis.bus import Bus, BusLost, MemoryIdentity
from muster_chassis.database import Database
from muster_chassis.health import Health
from muster_chassis.restored import DatabaseBehind
from muster_chassis.topics import PARTITIONS, SUBMISSIONS
from muster_stack.embedded import EmbeddedKafka
from tests.support.offline import without_leader
from tests.support.restoring import copied
from tests.support.stations import Journal, Station, opened, station
from tests.support.waiting import eventually, until

_WEEK = timedelta(days=7)


@asynccontextmanager
async def _bus(database: Database, bootstrap: str) -> AsyncIterator[Bus]:
    made = Bus.of_service("submission", database, Broker(bootstrap), client="t", health=Health())
    try:
        yield made
    finally:
        await made.close()


async def _publish(here: Station, *workloads: str) -> None:
    """Publish one event for each; return once that is acknowledged and written down."""
    relay = here.relay()
    await here.publish(*workloads)
    last = await here.database.pool.fetchval("SELECT max(id) FROM outbox")
    await until(lambda: relay.last == last)
    await here.end()


async def test_events_that_the_database_has_forgotten_are_named_and_nothing_is_published(
    database: Any, own_kafka: EmbeddedKafka, postgres_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[dict[str, Any]] = []
    monkeypatch.setattr(restored._log, "error", lambda _, **about: named.append(about))
    async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
        await _publish(here, "w1", "w2")
    async with copied(database, postgres_server) as backup:
        async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
            await _publish(here, "w1", "w1", "w3")
        async with opened(backup.url("submission"), "submission") as old, _bus(old, own_kafka.bootstrap) as bus:
            assert not await bus.check()
            (told,) = bus.health.troubles.values()
            assert "does not know events of 2 aggregates on muster.submissions (such as w1" in told
            assert "muster up -d --empty-kafka" in told
            lost = [(one["aggregate"], one["first_version"], one["last_version"]) for one in named]
            assert lost == [("w1", 2, 3), ("w3", 1, 1)]
            assert not await bus.check(), "it stays so"
            assert len(named) == 2, "each is named once"
            assert await old.pool.fetchval("SELECT count(*) FROM bus_identity") == 1
            await asyncio.to_thread(own_kafka.wipe)
            await eventually(bus.check)
            assert not bus.health.troubles
            here = Station("submission", old, bus)
            relay = here.relay()
            await until(lambda: relay.last == 2)
            await here.end()


async def test_without_the_comparison_new_events_are_taken_for_old_ones(
    database: Any, own_kafka: EmbeddedKafka, postgres_server: Any
) -> None:
    async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
        await _publish(here, "w1")
    async with copied(database, postgres_server) as backup:
        async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
            await _publish(here, "w1")
        async with (
            station("submission", backup.url("submission"), own_kafka.bootstrap) as old,
            station("policy", database.url("policy"), own_kafka.bootstrap) as reader,
        ):
            journal = Journal()
            reader.consume(journal)
            await until(lambda: journal.versions("w1") == [1, 2])
            old.relay()
            await old.publish("w1", "w2")
            await until(lambda: journal.versions("w2") == [1])
            assert journal.versions("w1") == [1, 2], "the event after the restore is lost"


async def test_a_crash_before_positions_are_written_is_no_restore(database: Any, own_kafka: EmbeddedKafka) -> None:
    async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
        await _publish(here, "w1", "w2", "w1")
        await here.database.pool.execute("UPDATE acknowledged_offsets SET last = -1")
        await here.database.pool.execute("UPDATE relay_positions SET last = 0")
    async with opened(database.url("submission"), "submission") as again, _bus(again, own_kafka.bootstrap) as bus:
        assert await bus.check()


async def test_records_of_what_was_over_long_ago_prove_nothing(
    database: Any, own_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their version numbers are removed, and Kafka keeps the last segment of a quiet partition for longer."""
    async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
        await _publish(here, "w1")
        await here.database.pool.execute("DELETE FROM aggregate_versions")
        await here.database.pool.execute("DELETE FROM acknowledged_offsets")
    async with opened(database.url("submission"), "submission") as again:
        async with _bus(again, own_kafka.bootstrap) as bus:
            assert not await bus.check()
        real = identity.now
        monkeypatch.setattr(identity, "now", lambda: real() + 2 * _WEEK)
        async with _bus(again, own_kafka.bootstrap) as bus:
            assert await bus.check()


def _partition(workload: str) -> TopicPartition:
    """The partition of a workload's events."""
    numbers = list(range(PARTITIONS))
    return TopicPartition(SUBMISSIONS.name, DefaultPartitioner()(workload.encode(), numbers, numbers))


async def test_a_partition_without_a_leader_keeps_no_service_from_starting(
    database: Any, own_kafka: EmbeddedKafka, postgres_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other partitions are compared."""
    monkeypatch.setattr(restored, "_ASK_SECONDS", 1.0)
    named: list[str] = []
    warned: list[Any] = []
    monkeypatch.setattr(restored._log, "error", lambda _, **about: named.append(about["aggregate"]))
    monkeypatch.setattr(restored._log, "warning", lambda _, **about: warned.append(about["partitions"]))
    later = [f"w{number}" for number in range(2, 9)]
    async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
        await _publish(here, "w1")
    async with copied(database, postgres_server) as backup:
        async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
            await _publish(here, *later)
        gone = _partition("w2")
        without_leader(monkeypatch).add(gone)
        async with opened(database.url("submission"), "submission") as good, _bus(good, own_kafka.bootstrap) as bus:
            assert await bus.check()
        assert warned == [[f"{gone.topic}/{gone.partition}"]]
        async with opened(backup.url("submission"), "submission") as old, _bus(old, own_kafka.bootstrap) as bus:
            assert not await bus.check()
        assert named == [workload for workload in later if _partition(workload) != gone]


async def test_no_session_goes_on_while_another_bus_is_not_accepted(own_kafka: EmbeddedKafka) -> None:
    behind: list[str] = []

    async def verify(bus: str) -> None:
        if behind:
            raise DatabaseBehind(f"{bus} is ahead")

    bus = Bus(Broker(own_kafka.bootstrap), client="t", identity=MemoryIdentity(), verify=verify)
    try:
        await bus.open()

        async def work() -> None:
            async with bus.session():
                await asyncio.Event().wait()

        working = asyncio.create_task(work())
        behind.append("from now on")
        await asyncio.to_thread(own_kafka.wipe)

        async def refused() -> bool:
            return not await bus.check() and "restored" in bus.health.troubles

        await eventually(refused)
        with pytest.raises(BusLost):
            await working
        behind.clear()
        await eventually(bus.check)
        async with bus.session() as session:
            assert session.cluster_id == own_kafka.cluster_id
    finally:
        await bus.close()
