"""Rule 5, the floor of a takeover: the highest epoch of a topic is read from its end, however long its history is.

Taken out here: that only the end is read (all of the history is), and that more is read where the end is not ours.
"""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import TopicPartition

from muster_chassis import kafka as client
from muster_chassis.broker import Broker
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import assignments
from muster_scheduler.adapters import highest
from tests.support.agents import workload_id
from tests.support.identities import signed, verifier
from tests.support.offline import without_leader

TOPIC = assignments("west")
RECORDS = 2_000
FORGED = 500
EPOCH = 7
OURS = (("ce_source", b"scheduler"), ("generation", b"1"), ("attempt", b"1"))


async def _write(kafka: str, *, forged: int) -> None:
    """Records of epochs 1 to EPOCH in their order; behind them some that nobody has signed."""
    await create_topics(Broker(kafka), [TOPIC], client="test")
    producer = client.producer(Broker(kafka), client="test")
    await producer.start()
    try:
        for number in range(RECORDS):
            key = workload_id(number)
            epoch = 1 + number * EPOCH // RECORDS
            said = [*OURS, ("epoch", str(epoch).encode())]
            await producer.send(TOPIC.name, None, key.encode(), headers=signed(TOPIC.name, key, None, said))
        for number in range(forged):
            said = [*OURS, ("epoch", b"900")]
            await producer.send(TOPIC.name, None, workload_id(number).encode(), headers=said)
        await producer.flush()
    finally:
        await client.stop(producer)


async def _found(kafka: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The floor, and how many records were looked at for it."""
    looked = 0
    plain = highest._epoch

    def counted(record: Any, last: int) -> int:
        nonlocal looked
        looked += 1
        return plain(record, last)

    monkeypatch.setattr(highest, "_epoch", counted)
    return await highest.highest_epoch(Broker(kafka), [TOPIC.name], verifier(), client="test"), looked


async def test_only_the_end_of_a_topic_is_read(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await _write(kafka, forged=0)
    floor, looked = await _found(kafka, monkeypatch)
    assert floor == EPOCH
    assert 0 < looked <= highest._TAIL


async def test_without_that_all_of_its_history_is(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await _write(kafka, forged=0)
    monkeypatch.setattr(highest, "_TAIL", 1_000_000)
    assert await _found(kafka, monkeypatch) == (EPOCH, RECORDS)


async def test_where_the_end_is_forged_more_is_read(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await _write(kafka, forged=FORGED)
    floor, looked = await _found(kafka, monkeypatch)
    assert floor == EPOCH
    assert FORGED < looked <= RECORDS + FORGED


async def test_without_that_a_forger_hides_the_epoch(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await _write(kafka, forged=FORGED)
    monkeypatch.setattr(highest._Stretch, "is_first", property(lambda _: True))
    assert (await _found(kafka, monkeypatch))[0] == 0


async def test_a_topic_that_is_offline_keeps_no_scheduler_from_leading(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    east = assignments("east")
    await create_topics(Broker(kafka), [east], client="test")
    await _write(kafka, forged=0)
    offline = without_leader(monkeypatch)
    offline.add(TopicPartition(east.name, 0))
    topics = [east.name, TOPIC.name]
    assert await highest.highest_epoch(Broker(kafka), topics, verifier(), client="test") == EPOCH
    offline.add(TopicPartition(TOPIC.name, 0))
    with pytest.raises(TimeoutError, match="no assignments topic answers"):
        await highest.highest_epoch(Broker(kafka), topics, verifier(), client="test")
