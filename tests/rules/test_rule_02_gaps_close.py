"""Rules 2 and 8: versions that a consumer lacks are shown, and come again; Kafka's own losses are noticed.

Taken out here: what the relay remembers of acknowledged offsets (what Kafka lost stays lost), the look at what is newer
on a compacted topic (an old record comes behind the newest), and the header of a snapshot (it waits for ever).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from muster.api.v1 import dead_letters_pb2 as pb
from muster_chassis import gaps, outbox, republishing
from muster_chassis import intake as intake_module
from muster_chassis.acknowledged import Acknowledged
from muster_chassis.codec import SNAPSHOT
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.errors import InvalidArgument, NotFound
from muster_chassis.events import Origin
from muster_chassis.gaps import gaps_of
from muster_chassis.topics import SUBMISSIONS, assignments
from muster_chassis.unit import lane_of
from muster_stack.embedded import EmbeddedKafka
from tests.support.calls import Call
from tests.support.offline import without_leader
from tests.support.records import intake, record, with_ledger
from tests.support.removing import remove_records
from tests.support.stations import Journal, Station, asked, opened, station
from tests.support.waiting import eventually, until

EAST = assignments("east")


def _lose(broker: EmbeddedKafka, topic: str) -> None:
    """Kafka comes back with the id that it had, and without what it had of a topic."""
    broker.stop()
    logs = [path for path in Path(broker.folder).rglob(f"{topic}-*") if path.is_dir()]
    assert logs
    for path in logs:
        shutil.rmtree(path)
    broker.start()


async def _after_a_loss(database: Any, broker: EmbeddedKafka) -> list[tuple[str, int]]:
    """What a consumer reads that begins once Kafka has lost what was published; nothing new is published."""
    url = database.url
    async with station("submission", url("submission"), broker.bootstrap) as here:
        relay = here.relay()
        await here.publish("w1", "w2", "w1")
        await until(lambda: relay.last == 3)
        await eventually(lambda: here.database.pool.fetchval("SELECT count(*) FROM acknowledged_offsets"))
        await asyncio.to_thread(_lose, broker, SUBMISSIONS.name)
        async with station("policy", url("policy"), broker.bootstrap) as there:
            journal = Journal()
            there.consume(journal)
            with suppress(TimeoutError):
                await until(lambda: len(journal.handled) == 3, within=30)
            here.alive()
            return sorted(journal.handled)


async def test_what_kafka_has_lost_is_published_again(
    database: Any, own_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_COMPARE", 1.0)
    assert await _after_a_loss(database, own_kafka) == [("w1", 1), ("w1", 2), ("w2", 1)]


async def test_an_offline_partition_hides_no_loss_of_the_others(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with station("submission", database.url("submission"), kafka) as here:
        relay = here.relay()
        await here.publish(*(f"w{number}" for number in range(100)))
        await until(lambda: relay.last == 100)
        assert len(await relay._ends()) == SUBMISSIONS.partitions
        without_leader(monkeypatch).add(TopicPartition(SUBMISSIONS.name, 0))
        assert {number for _, number in await relay._ends()} == set(range(1, SUBMISSIONS.partitions))


async def test_without_what_is_remembered_it_stays_lost(
    database: Any, own_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_COMPARE", 1.0)
    monkeypatch.setattr(Acknowledged, "_told", lambda *_: set())
    assert await _after_a_loss(database, own_kafka) == []


async def _republish(here: Station, **asked: Any) -> pb.RepublishResponse:
    request = pb.RepublishRequest(topic=SUBMISSIONS.name, idempotency_key=asked.pop("again", "k"), **asked)
    return await DeadLetters(here.database).Republish(request, Call())


async def test_a_gap_is_shown_with_what_is_missing_and_closes(database: Any, kafka: str) -> None:
    async with station("submission", database.url("submission"), kafka) as here:
        relay = here.relay()
        async with station("policy", database.url("policy"), kafka) as there:
            journal = Journal()
            there.consume(journal)
            await here.publish("w1")
            await until(lambda: journal.handled == [("w1", 1)])
        await here.publish("w1", "w1", "w2")
        await until(lambda: relay.last == 4)
        await remove_records(SUBMISSIONS, bootstrap_servers=kafka)
        await here.publish("w1")
        async with station("policy", database.url("policy"), kafka) as there:
            journal = Journal()
            there.consume(journal)

            async def listed() -> Sequence[pb.Gap]:
                return (await gaps_of(there.database.pool, "policy")).gaps

            (gap,) = await eventually(listed)
            assert (gap.service, gap.topic, gap.aggregate) == ("policy", SUBMISSIONS.name, "w1")
            assert (gap.first, gap.last, gap.waiting) == (2, 3, 1)
            answer = await _republish(here, key="w1")
            assert (answer.sent, answer.finished, answer.snapshot) == (4, True, False)
            await until(lambda: [one for one in journal.handled if one[0] == "w1"] == [("w1", 2), ("w1", 3), ("w1", 4)])
            assert not await listed()
            assert ("w2", 1) not in journal.handled  # nothing shows that it is missing
            assert (await _republish(here, again="other")).sent == 5
            await until(lambda: ("w2", 1) in journal.handled)
            assert await _republish(here, key="w1") == answer, "the same call again does nothing"


async def test_what_cannot_be_published_again_is_refused_by_name(database: Any) -> None:
    async with opened(database.url("policy"), "policy") as here:
        letters = DeadLetters(here)
        for topic, told in (("muster.nothing", "no service publishes"), ("muster.triggers", "no service publishes")):
            with pytest.raises(NotFound, match=told):
                await letters.Republish(pb.RepublishRequest(topic=topic, idempotency_key="k"), Call())
        with pytest.raises(InvalidArgument, match="by each new term of the scheduler"):
            await letters.Republish(pb.RepublishRequest(topic=EAST.name, idempotency_key="k"), Call())
        with pytest.raises(NotFound, match=r"submission publishes muster\.submissions, and not policy"):
            await letters.Republish(pb.RepublishRequest(topic=SUBMISSIONS.name, idempotency_key="k"), Call())
        wrong = pb.RepublishRequest(topic="muster.admissions", key="x" * 501, idempotency_key="k")
        with pytest.raises(InvalidArgument, match="expected the id of an aggregate"):
            await letters.Republish(wrong, Call())


async def _again_on_a_compacted_topic(database: Any, kafka: str) -> list[tuple[str, int]]:
    """In which order the records of one key go out again."""
    async with station("scheduler", database.url("scheduler"), kafka) as here:
        await here.bus.create([EAST])
        await here.publish("w1", "w2", "w1", topic=EAST)
        sent: list[tuple[str, int]] = []

        async def send(rows: Sequence[Any]) -> None:
            sent.extend((row["aggregate"], row["version"]) for row in rows)

        async with here.database.acquired() as connection:
            await republishing.ask_once(connection, EAST.name, "a test")
            await republishing.ask_once(connection, EAST.name, "a test")
            while await republishing.step(connection, lane_of(EAST.name), 10**9, (), send):
                pass
        return sent


async def test_of_a_compacted_topic_only_the_newest_go_out_again(database: Any, kafka: str) -> None:
    assert await _again_on_a_compacted_topic(database, kafka) == [("w2", 1), ("w1", 2)]


async def test_without_that_look_old_ones_do_as_well(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "_OF_TOPIC", republishing._OF_TOPIC.replace("NOT $6", "true OR NOT $6"))
    assert await _again_on_a_compacted_topic(database, kafka) == [("w1", 1), ("w2", 1), ("w1", 2)]


def _snapshot(workload: str, version: int) -> Origin:
    plain = record(workload, version)
    return Origin(
        plain.topic, plain.partition, plain.offset, plain.key, plain.value, (*plain.headers, (SNAPSHOT, b"1"))
    )


async def _with_a_snapshot(database: Any) -> tuple[list[int], int]:
    """What is handled of versions 1, 4, a snapshot as of 9, 3 and 10; and how many records wait in the end."""
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        for one in (record("w1", 1), record("w1", 4), _snapshot("w1", 9), record("w1", 3), record("w1", 10)):
            await consumer.process([one], {})
            await consumer.sweep()
        waiting = await here.pool.fetchval("SELECT count(*) FROM parked WHERE done_at IS NULL")
        assert (await gaps_of(here.pool, "policy")).total == min(1, waiting)
        return [version for _, version in ledger.order], waiting


async def test_a_snapshot_closes_every_gap_before_it(database: Any) -> None:
    assert await _with_a_snapshot(database) == ([1, 9, 10], 0)


async def test_without_its_header_it_waits_as_the_others_do(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "is_snapshot", lambda _: False)
    assert await _with_a_snapshot(database) == ([1], 4)


async def test_a_snapshot_closes_a_gap_of_which_even_the_numbers_are_removed(database: Any, kafka: str) -> None:
    async def snapshot(unit: Any, topic: str, key: str) -> bool:
        unit.publish(topic, key, asked(key), headers={SNAPSHOT: "1"})
        return True

    async with station("submission", database.url("submission"), kafka) as here:
        relay = here.relay()
        async with station("policy", database.url("policy"), kafka) as there:
            journal = Journal()
            there.consume(journal)
            await here.publish("w1")
            await until(lambda: journal.versions("w1") == [1])
        await here.publish("w1")
        await until(lambda: relay.last == 2)
        await remove_records(SUBMISSIONS, bootstrap_servers=kafka)
        await here.publish("w1")
        async with station("policy", database.url("policy"), kafka) as there:
            journal = Journal()
            there.consume(journal)

            async def gaps() -> int:
                return int((await gaps_of(there.database.pool, "policy")).total)

            await eventually(gaps)
            await here.database.pool.execute("DELETE FROM outbox")
            await here.database.pool.execute("DELETE FROM aggregate_versions")
            request = pb.RepublishRequest(topic=SUBMISSIONS.name, key="w1", idempotency_key="k")
            assert (await DeadLetters(here.database, snapshot).Republish(request, Call())).snapshot
            await until(lambda: journal.versions("w1"))
            assert journal.versions("w1")[-1] > 10**9
            await eventually(gaps, lambda total: total == 0)


async def test_where_events_are_not_kept_any_more_the_owner_publishes_its_state(database: Any, kafka: str) -> None:
    asked = []

    async def snapshot(unit: Any, topic: str, key: str) -> bool:
        asked.append((topic, key))
        return key == "w1"

    async with station("submission", database.url("submission"), kafka) as here:
        here.relay()
        letters = DeadLetters(here.database, snapshot)
        answers = [
            await letters.Republish(pb.RepublishRequest(topic=SUBMISSIONS.name, key=key, idempotency_key=key), Call())
            for key in ("w1", "w9")
        ]
        told = [(answer.sent, answer.finished, answer.snapshot) for answer in answers]
        assert told == [(1, True, True), (0, True, False)]
        await here.publish("w2")
        kept = pb.RepublishRequest(topic=SUBMISSIONS.name, key="w2", idempotency_key="x")
        assert not (await letters.Republish(kept, Call())).snapshot
        assert asked == [(SUBMISSIONS.name, "w1"), (SUBMISSIONS.name, "w9")]
    assert gaps.owner_of("muster.decisions") == "scheduler"
