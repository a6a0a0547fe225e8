"""Rule 8: a Kafka that comes back empty loses nothing that was acknowledged.

Taken out here: the comparison of the cluster's id and that of acknowledged offsets (events of the old bus never arrive,
those acknowledged by the wiped broker are lost), and the group's name that carries the id (a consumer resumes in the
middle of the new log).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis.acknowledged import Acknowledged
from muster_chassis.broker import Broker
from muster_chassis.bus import Bus, BusLost, MemoryIdentity, Session
from muster_chassis.outbox import Relay
from muster_chassis.topics import SUBMISSIONS, owned_by
from muster_stack.embedded import EmbeddedKafka
from tests.support.stations import Journal, Station, station
from tests.support.waiting import until


class _Blind(Bus):
    """Looks once and never compares."""

    async def check(self) -> bool:
        return True if self._session is not None else await super().check()


async def _after_a_loss(database: Any, kafka: EmbeddedKafka, kind: type[Bus]) -> list[tuple[str, int]]:
    """What a consumer has handled in the end: one event before the loss, two that it had not read, one after it."""
    async with (
        station("submission", database.url("submission"), kafka.bootstrap, watch=True, kind=kind) as sender,
        station("policy", database.url("policy"), kafka.bootstrap, watch=True, kind=kind) as receiver,
    ):
        relay = sender.relay()
        journal = Journal()
        consumer = receiver.consume(journal)
        await sender.publish("early")
        await until(lambda: journal.handled)
        await consumer.stop()
        await sender.publish("w1")
        await sender.publish("w1")
        await until(lambda: relay.last == 3)
        kafka.kill()
        kafka.wipe()
        await sender.publish("late")
        await _topics_exist(sender)
        receiver.consume(journal)
        await _settled(journal, receiver, seconds=60 if kind is Bus else 12)
        return sorted(journal.handled)


async def _topics_exist(sender: Station) -> None:
    """The blind service creates nothing on the new bus; someone else might have, so that only its blindness counts."""
    await sender.bus.create([SUBMISSIONS])


async def _settled(journal: Journal, receiver: Station, *, seconds: float) -> None:
    """Until all four have come, in whatever order their partitions brought them, or long enough to see that not."""
    arrived = asyncio.ensure_future(until(lambda: len(set(journal.handled)) == 4, within=seconds))
    await asyncio.wait({arrived})
    if arrived.exception() is None:
        await until(lambda: receiver.bus.cluster_id)


async def test_nothing_is_lost_with_the_bus(database: Any, own_kafka: EmbeddedKafka) -> None:
    handled = await _after_a_loss(database, own_kafka, Bus)
    assert handled == [("early", 1), ("late", 1), ("w1", 1), ("w1", 2)]


async def test_what_the_log_lacks_shows_the_loss_as_well(database: Any, own_kafka: EmbeddedKafka) -> None:
    """Without the comparison of ids: the new log is shorter than what had been acknowledged."""
    handled = await _after_a_loss(database, own_kafka, _Blind)
    assert handled == [("early", 1), ("late", 1), ("w1", 1), ("w1", 2)]


async def test_without_either_events_are_lost(
    database: Any, own_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Acknowledged, "_told", lambda *_: set())
    handled = await _after_a_loss(database, own_kafka, _Blind)
    assert ("w1", 1) not in handled


async def test_work_on_the_old_bus_ends_when_it_is_another(own_kafka: EmbeddedKafka) -> None:
    bus = Bus(Broker(own_kafka.bootstrap), client="t", identity=MemoryIdentity(), owned=owned_by("policy"))
    told: list[str] = []

    async def tell(cluster_id: str) -> None:
        told.append(cluster_id)

    bus.on_change(tell)
    before = await bus.open()
    watch = asyncio.ensure_future(bus.watch())
    sessions: list[Session] = []

    async def work() -> None:
        async with bus.session() as session:
            sessions.append(session)
            own_kafka.kill()
            own_kafka.wipe()
            await asyncio.get_running_loop().create_future()

    with pytest.raises(BusLost):
        await asyncio.wait_for(work(), 30)
    async with bus.session() as session:
        sessions.append(session)
    watch.cancel()
    await asyncio.wait({watch})
    await bus.close()
    assert sessions[0].cluster_id == before
    assert [sessions[1].cluster_id] == told


async def test_a_change_while_the_service_was_down_is_seen_at_its_start(
    database: Any, own_kafka: EmbeddedKafka
) -> None:
    async with station("submission", database.url("submission"), own_kafka.bootstrap) as sender:
        relay = sender.relay()
        await sender.publish("w1")
        await until(lambda: relay.last == 1)
    own_kafka.kill()
    own_kafka.wipe()
    async with (
        station("submission", database.url("submission"), own_kafka.bootstrap) as sender,
        station("policy", database.url("policy"), own_kafka.bootstrap) as receiver,
    ):
        journal = Journal()
        sender.relay()
        receiver.consume(journal)
        await until(lambda: journal.handled)
        assert journal.handled == [("w1", 1)]


class _RemembersForEver(Relay):
    """Keeps its position when the bus is another, as a relay does that writes it down too late."""

    async def _position(self, connection: Any) -> int:
        last = await connection.fetchval("SELECT max(last) FROM relay_positions WHERE lane = 0")
        return max(self.last, last or 0)


_SENT = ("w1", "w2", "w3", "late")


async def _arrived_on_the_new_bus(database: Any, kafka: EmbeddedKafka, kind: type[Relay]) -> set[str]:
    """What a consumer gets that begins after the loss, while the sender lives through it."""
    async with (
        station("submission", database.url("submission"), kafka.bootstrap, watch=True) as sender,
        station("policy", database.url("policy"), kafka.bootstrap, watch=True) as receiver,
    ):
        relay = kind(sender.database, sender.bus)
        sender.go(relay.run)
        await sender.publish(*_SENT[:-1])
        await until(lambda: relay.last == len(_SENT) - 1)
        kafka.kill()
        kafka.wipe()
        await sender.publish(_SENT[-1])
        journal = Journal()
        receiver.consume(journal)
        # With the last row acknowledged on the new bus, everything is there that ever will be.
        await until(lambda: ("late", 1) in journal.handled and relay.last == len(_SENT), within=40)
        there = await _on_the_topic(kafka.bootstrap)
        await until(lambda: {name for name, _ in journal.handled} == there)
        return there


async def _on_the_topic(bootstrap: str) -> set[str]:
    """The workloads of which the topic of submissions holds a record; some may be there twice."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        partitions = [TopicPartition(SUBMISSIONS.name, number) for number in range(SUBMISSIONS.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        wanted, found = sum((await consumer.end_offsets(partitions)).values()), list[str]()
        while len(found) < wanted:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found.extend((record.key or b"").decode() for record in records)
        return set(found)
    finally:
        await consumer.stop()


async def test_everything_kept_is_published_again(database: Any, own_kafka: EmbeddedKafka) -> None:
    assert await _arrived_on_the_new_bus(database, own_kafka, Relay) == set(_SENT)


async def test_from_the_old_position_only_the_rest_is(database: Any, own_kafka: EmbeddedKafka) -> None:
    assert await _arrived_on_the_new_bus(database, own_kafka, _RemembersForEver) == {"late"}
