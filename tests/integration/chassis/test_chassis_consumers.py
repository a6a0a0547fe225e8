"""The consumer loops on the real Kafka: ends, offline partitions, topics that join, foreign records, the breaker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import LeaderNotAvailableError

from muster.api.v1 import dead_letters_pb2 as pb
from muster_chassis import consumer as consumer_module
from muster_chassis import identity, metrics
from muster_chassis.assigned_consumer import AssignedConsumer
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.events import Event, Origin, Reject
from muster_chassis.reader import Reader
from muster_chassis.topics import SUBMISSIONS, TRIGGERS, assignments, reports
from muster_chassis.unit import ASSIGNMENTS
from muster_stack.embedded import EmbeddedKafka
from tests.support.calls import Call
from tests.support.offline import without_leader
from tests.support.records import poison, record
from tests.support.removing import remove_records
from tests.support.stations import DECODER, Journal, station
from tests.support.waiting import eventually, until


@asynccontextmanager
async def _outsider(kafka: str) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=kafka, max_request_size=20 << 20)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def _write(producer: AIOKafkaProducer, *records: Origin) -> None:
    for one in records:
        await producer.send_and_wait(one.topic, one.value, one.key, headers=list(one.headers), partition=one.partition)


async def test_the_end_of_a_topic_is_reached_behind_transaction_markers(database: Any, kafka: str) -> None:
    async with station("scheduler", database.url("scheduler"), kafka) as here:
        east = assignments("east")
        await here.bus.create([east])
        relay = here.relay(lane=ASSIGNMENTS, transactional_id="muster-assignments")
        await here.publish("w1", "w2", topic=east)
        await until(lambda: relay.last == 2)
        journal = Journal()
        consumer = here.consume(journal, east, assigned=True, committed_only=True, from_beginning=True)
        await asyncio.wait_for(consumer.caught_up.wait(), 20)
        assert [name for name, _ in journal.handled] == ["w1", "w2"]


async def test_an_empty_topic_is_read_to_its_end_at_once(database: Any, kafka: str) -> None:
    async with station("submission", database.url("submission"), kafka) as here:
        consumer = here.consume(Journal(), assigned=True)
        await asyncio.wait_for(consumer.caught_up.wait(), 20)


async def test_it_knows_until_when_a_topic_is_read(database: Any, own_kafka: EmbeddedKafka) -> None:
    topic = SUBMISSIONS.name
    async with station("submission", database.url("submission"), own_kafka.bootstrap) as here:
        consumer = here.consume(Journal(), assigned=True)
        await until(lambda: consumer.read_until(topic))
        began = time.time()
        await until(lambda: (consumer.read_until(topic) or 0.0) > began)  # the end is reached, so time goes on
        own_kafka.stop()
        stopped = time.time()
        await until(lambda: time.time() > stopped + 2 * consumer_module._FRESH_SECONDS)
        assert (consumer.read_until(topic) or 0.0) <= stopped + consumer_module._FRESH_SECONDS


OFFLINE = TopicPartition(SUBMISSIONS.name, 0)


@pytest.mark.parametrize("assigned", [False, True], ids=["group", "assigned"])
async def test_a_partition_without_a_leader_holds_up_no_other(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch, assigned: bool
) -> None:
    async with station("submission", database.url("submission"), kafka) as here, _outsider(kafka) as producer:
        await _write(producer, record("w1"), record("w2", partition=1))
        offline = without_leader(monkeypatch)
        offline.add(OFFLINE)
        monkeypatch.setattr(consumer_module, "_OFFLINE_SECONDS", 3600)
        journal = Journal()
        consumer = here.consume(journal, assigned=assigned)
        await until(lambda: journal.handled)
        await until(lambda: here.bus.health.waiting)
        told = "muster.submissions/0 has no leader; its records wait"
        assert here.bus.health.waiting == {"partition muster.submissions/0": told}
        assert here.bus.health.serving
        assert journal.handled == [("w2", 0)]
        assert not consumer.caught_up.is_set(), "a takeover gives an election time"
        assert consumer.read_until(SUBMISSIONS.name) is None
        monkeypatch.setattr(consumer_module, "_OFFLINE_SECONDS", 0)
        await asyncio.wait_for(consumer.caught_up.wait(), 20)
        assert consumer.unread(SUBMISSIONS.name)
        offline.clear()
        await until(lambda: len(journal.handled) == 2)
        await until(lambda: not consumer.unread(SUBMISSIONS.name))
        await until(lambda: not here.bus.health.waiting)


async def test_a_partition_that_loses_its_leader_later_is_named(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with station("submission", database.url("submission"), kafka) as here, _outsider(kafka) as producer:
        journal = Journal()
        consumer = here.consume(journal, assigned=True)
        await asyncio.wait_for(consumer.caught_up.wait(), 20)
        offline = without_leader(monkeypatch)
        offline.add(OFFLINE)
        await until(lambda: "partition muster.submissions/0" in here.bus.health.waiting)
        await _write(producer, record("w1", partition=1))
        await until(lambda: journal.handled)
        offline.clear()
        await until(lambda: not here.bus.health.waiting)
        await _write(producer, record("w2"))
        await until(lambda: journal.handled == [("w1", 0), ("w2", 0)])


async def test_a_partition_is_not_read_before_it_is_known_where_it_begins(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = {OFFLINE}
    real: Any = AIOKafkaConsumer.end_offsets

    async def ends(self: AIOKafkaConsumer, partitions: list[TopicPartition]) -> Any:
        if silent & set(partitions):
            raise LeaderNotAvailableError(OFFLINE)
        return await real(self, partitions)

    monkeypatch.setattr(AIOKafkaConsumer, "end_offsets", ends)
    async with station("submission", database.url("submission"), kafka) as here, _outsider(kafka) as producer:
        await _write(producer, record("w1"), record("w2", partition=1))
        journal = Journal()
        consumer = here.consume(journal, assigned=True)
        await until(lambda: here.bus.health.waiting)
        told = "muster.submissions/0 does not answer; its records wait"
        assert here.bus.health.waiting == {"partition muster.submissions/0": told}
        assert journal.handled == [("w2", 0)]
        silent.clear()
        await until(lambda: len(journal.handled) == 2)
        await asyncio.wait_for(consumer.caught_up.wait(), 20)


@pytest.mark.parametrize("assigned", [True, False])
async def test_records_that_were_removed_before_they_were_read_are_told(
    database: Any, kafka: str, *, assigned: bool
) -> None:
    def missed() -> float:
        return metrics.value(consumer_module.MISSED, topic=SUBMISSIONS.name)

    async with station("submission", database.url("submission"), kafka) as here, _outsider(kafka) as producer:
        await _write(producer, record("w1"))
        journal, before = Journal(), missed()
        consumer = here.consume(journal, assigned=assigned)
        await until(lambda: journal.handled)
        await consumer.stop()
        await _write(producer, record("w2"), record("w3"))
        await remove_records(SUBMISSIONS, bootstrap_servers=kafka)
        here.consume(journal, assigned=assigned)
        await until(lambda: missed() == before + 2)


async def test_a_stopped_topic_is_read_until_it_stopped(database: Any, kafka: str) -> None:
    topic = SUBMISSIONS.name
    async with station("submission", database.url("submission"), kafka) as here, _outsider(kafka) as producer:
        consumer = here.consume(Journal(), assigned=True, records=10)
        await _write(producer, *(poison(f"w{n}") for n in range(150)))
        await until(lambda: consumer.intake.breakers.stopped)
        stopped = time.time()
        await until(lambda: time.time() > stopped + 3)
        assert (consumer.read_until(topic) or 0.0) <= stopped


async def test_a_takeover_does_not_wait_for_a_topic_that_has_stopped(database: Any, kafka: str) -> None:
    async with station("submission", database.url("submission"), kafka) as here, _outsider(kafka) as producer:
        consumer = here.consume(Journal(), assigned=True, records=10)
        await _write(producer, *(poison(f"w{n}") for n in range(150)))
        await until(lambda: consumer.intake.breakers.stopped)
        await consumer.stop()
        after = here.consume(Journal(), assigned=True, records=10)
        await asyncio.wait_for(after.caught_up.wait(), 20)
        assert after.unread(SUBMISSIONS.name)
        assert (after.read_until(SUBMISSIONS.name) or 0.0) < time.time() - 1


async def test_a_topic_joins_while_it_runs(database: Any, kafka: str) -> None:
    async with station("scheduler", database.url("scheduler"), kafka) as here:
        await here.bus.create([reports("east"), reports("west")])
        journal = Journal()
        consumer = here.consume(journal, reports("east"), assigned=True)
        assert isinstance(consumer, AssignedConsumer)
        async with _outsider(kafka) as producer:
            await _write(producer, record("e1", topic=reports("east")))
            await until(lambda: len(journal.handled) == 1)
            consumer.add(reports("west"))
            await _write(producer, record("e2", topic=reports("east")), record("w1", topic=reports("west")))
            await until(lambda: len(journal.handled) == 3)
        await asyncio.wait_for(consumer.caught_up.wait(), 20)
        assert sorted(journal.handled) == [("e1", 0), ("e2", 0), ("w1", 0)]


def _cloud_event(origin: Origin) -> Event:
    """A foreign record: its id is text of its own, its value is no message of ours."""
    event_id = origin.header("ce_id")
    if event_id is None:
        raise Reject("no ce_id")
    return Event(event_id, "t", "s", "", 0, datetime(2026, 1, 1, tzinfo=UTC), None, origin, None)


async def test_foreign_records_have_a_decoder_of_their_own(database: Any, kafka: str) -> None:
    async with station("submission", database.url("submission"), kafka) as here, _outsider(kafka) as producer:
        seen: list[str] = []

        async def handle(_unit: Any, events: Sequence[Event]) -> None:
            seen.extend(event.id for event in events)

        here.consume(handle, SUBMISSIONS, TRIGGERS, decoders={TRIGGERS.name: _cloud_event})
        for name in ("build-7", "build-7"):
            await producer.send_and_wait(TRIGGERS.name, b"{}", headers=[("ce_id", name.encode())])
        await producer.send_and_wait(TRIGGERS.name, b"\xff\x00", headers=[])
        await _write(producer, record("w1", 1))
        await until(lambda: len(seen) == 3)
        assert sorted(seen)[-2:] == ["build-7", "build-7"]

        async def listed() -> pb.ListDeadLettersResponse:
            return await DeadLetters(here.database).ListDeadLetters(pb.ListDeadLettersRequest(), Call())

        letters = await eventually(listed, lambda answer: bool(answer.dead_letters))
        assert [letter.reason for letter in letters.dead_letters] == ["no ce_id"]


async def test_a_consumer_stops_when_everything_is_rejected_and_goes_on_when_resumed(database: Any, kafka: str) -> None:
    async with (
        station("submission", database.url("submission"), kafka),
        station("policy", database.url("policy"), kafka) as here,
        _outsider(kafka) as producer,
    ):
        journal = Journal()
        consumer = here.consume(journal, records=10)
        await _write(producer, *(poison(f"w{n}") for n in range(150)))
        await until(lambda: consumer.intake.breakers.stopped)
        await _write(producer, record("good", 1))
        # It looks after each batch, and where batches end depends on what one poll of the partitions brought.
        assert 100 <= await here.database.pool.fetchval("SELECT count(*) FROM parked") < 110
        resume = pb.ResumeConsumerRequest(idempotency_key=identity.event_id())
        answer = await DeadLetters(here.database).ResumeConsumer(resume, Call())
        assert list(answer.topics) == ["muster.submissions"]
        await until(lambda: journal.handled)
        assert journal.handled == [("good", 1)]
        assert await here.database.pool.fetchval("SELECT count(*) FROM parked") == 150
        assert here.bus.health.serving


async def test_a_redrive_goes_through_the_loop(database: Any, kafka: str) -> None:
    async with (
        station("submission", database.url("submission"), kafka) as sender,
        station("policy", database.url("policy"), kafka) as here,
    ):
        sender.relay()
        here.relay()
        journal = Journal(refuse={"w1": Reject("not yet")})
        here.consume(journal)
        await sender.publish("w1", "w1", "w2")
        await until(lambda: journal.handled)
        service = DeadLetters(here.database)

        async def listed() -> list[pb.DeadLetter]:
            return list((await service.ListDeadLetters(pb.ListDeadLettersRequest(), Call())).dead_letters)

        # w2 stands on another partition and may be handled before w1 is read.
        [letter] = await eventually(listed, lambda letters: any(one.parked == 1 for one in letters))
        journal.refuse.clear()
        request = pb.RedriveDeadLettersRequest(ids=[letter.id], idempotency_key="once")
        answer = await service.RedriveDeadLetters(request, Call())
        assert answer.handled == 1
        again = await service.RedriveDeadLetters(request, Call())
        assert again.handled == 1
        await until(lambda: journal.versions("w1") == [1, 2])


async def test_an_agent_reads_from_the_beginning(kafka: str, database: Any) -> None:
    async with station("scheduler", database.url("scheduler"), kafka) as here, _outsider(kafka) as producer:
        east = assignments("east")
        await here.bus.create([east])
        handled: list[str] = []
        rejected: list[str] = []

        async def handle(events: Sequence[Event]) -> None:
            handled.extend(event.aggregate for event in events)

        async def reject(_origin: Origin, reason: str) -> None:
            rejected.append(reason)

        await _write(producer, record("w1", topic=east), poison("w2", topic=east), record("w3", topic=east))
        reader = Reader(here.bus, [east], DECODER, handle, on_reject=reject, committed_only=True)
        here.go(reader.run)
        await asyncio.wait_for(reader.caught_up.wait(), 20)
        assert handled == ["w1", "w3"]
        assert len(rejected) == 1
