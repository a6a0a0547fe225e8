"""Rule 1: Kafka delivers at least once, the truth is in PostgreSQL.

Inbox, state and outbox are one transaction and the offset comes after it. Taken out here: the inbox (a redelivery is
handled twice), the order of the two commits (a crash loses a record), and the one transaction (a failed record leaves
half of its work behind).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis.admission import Admission, Entry
from muster_chassis.events import Event
from muster_chassis.group_consumer import GroupConsumer
from muster_chassis.intake import Intake
from muster_chassis.topics import SUBMISSIONS
from muster_chassis.unit import Unit
from tests.support.records import intake, record, with_ledger
from tests.support.stations import DECODER, Journal, opened, station
from tests.support.waiting import until


class _NoInbox(Intake):
    """Takes everything for new."""

    async def _admit(self, unit: Unit, entries: Sequence[Entry]) -> Admission:
        return Admission([entry.event for entry in entries if entry.event is not None])


class _OffsetFirst(GroupConsumer):
    """Commits the offset, then handles."""

    async def _process(self, consumer: AIOKafkaConsumer, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        await consumer.commit()
        await super()._process(consumer, polled)


async def _count_after_redelivery(database: Any, kind: type[Intake]) -> int:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        same = [record("w1")]
        for _ in range(2):
            await intake(here, ledger, kind).process(same, {})
        return (await ledger.truth(here))["w1"]


async def test_a_redelivered_record_is_handled_once(database: Any) -> None:
    assert await _count_after_redelivery(database, Intake) == 1


async def test_without_the_inbox_it_is_handled_twice(database: Any) -> None:
    assert await _count_after_redelivery(database, _NoInbox) == 2


async def _arrived_after_a_crash(database: Any, kafka: str, kind: type[GroupConsumer]) -> list[tuple[str, int]]:
    """What a second consumer gets when the first one dies while it handles the record."""
    async with (
        station("submission", database.url("submission"), kafka) as sender,
        station("policy", database.url("policy"), kafka) as receiver,
    ):
        sender.relay()
        holding = asyncio.Event()

        async def die(unit: Unit, events: Sequence[Event]) -> None:
            holding.set()
            await asyncio.get_running_loop().create_future()

        journal = Journal()
        options: dict[str, Any] = {"name": "policy", "instance": "p-0", "topics": [SUBMISSIONS], "decoder": DECODER}
        first = receiver.begin(kind(receiver.database, receiver.bus, handler=die, **options).run)
        await sender.publish("w1")
        await asyncio.wait_for(holding.wait(), 20)
        first.cancel()
        await asyncio.wait({first})
        second = kind(receiver.database, receiver.bus, handler=journal, **options)
        receiver.go(second.run)
        await sender.publish("w2")
        await until(lambda: any(name == "w2" for name, _ in journal.handled))
        return sorted(journal.handled)


async def test_a_crash_in_the_handler_loses_nothing(database: Any, kafka: str) -> None:
    assert await _arrived_after_a_crash(database, kafka, GroupConsumer) == [("w1", 1), ("w2", 1)]


async def test_with_the_offset_first_a_crash_loses_the_record(database: Any, kafka: str) -> None:
    assert await _arrived_after_a_crash(database, kafka, _OffsetFirst) == [("w2", 1)]


async def test_a_failed_batch_leaves_nothing_and_is_redone_one_by_one(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        ledger.refuse["bad"] = ValueError("no")
        await intake(here, ledger).process([record("w1"), record("bad"), record("w2")], {})
        assert await ledger.truth(here) == {"w1": 1, "w2": 1} == ledger.memory


async def test_nobody_reads_another_services_tables(database: Any) -> None:
    async with opened(database.url("policy")), opened(database.url("submission"), "submission") as other:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await other.pool.fetch("SELECT * FROM policy.inbox")
