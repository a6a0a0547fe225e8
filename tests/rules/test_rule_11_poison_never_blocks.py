"""Rule 11: poison never blocks.

Taken out here: the bound on tries (one record blocks everything), parking (what follows a rejected record is handled
before it), and the breaker (a faulty consumer empties a whole topic).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.api.v1 import dead_letters_pb2 as pb
from muster.events.v1.submission_pb2 import DeletionRequested
from muster_chassis.admission import Entry
from muster_chassis.attempts import bounded
from muster_chassis.breaker import Breaker
from muster_chassis.breakers import Tripped
from muster_chassis.database import Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.events import Origin, Reject
from muster_chassis.intake import Intake
from muster_chassis.topics import SUBMISSIONS, TRIGGERS
from tests.support.calls import Call
from tests.support.dead_letters import redrive
from tests.support.records import Ledger, intake, poison, record, with_ledger
from tests.support.stations import DECODER, opened

# ------------------------------------------------------------------------------------------------ it never blocks


async def _stubbornly(attempt: Any) -> tuple[str, int]:
    """Tries for ever."""
    while True:
        reason, _tries = await bounded(attempt)
        if not reason:
            return "", 1


async def _flow_past_poison(database: Any) -> dict[str, int]:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        ledger.refuse["bad"] = ValueError("a bug")
        consumer = intake(here, ledger)
        work = asyncio.ensure_future(consumer.process([record("bad", 1), record("w1", 1)], {}))
        await asyncio.wait({work}, timeout=3)
        work.cancel()
        await asyncio.wait({work})
        return ledger.memory


async def test_what_cannot_be_handled_does_not_stop_the_others(database: Any) -> None:
    assert await _flow_past_poison(database) == {"w1": 1}


async def test_without_bounded_tries_it_stops_them(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_chassis.intake.bounded", _stubbornly)
    assert await _flow_past_poison(database) == {}


# ------------------------------------------------------------------------------------------------ order is kept


class _NoParking(Intake):
    """Lets everything past what was rejected."""

    def _place(self, entry: Entry, known: Any, blocked: Any, admission: Any) -> None:
        blocked.clear()
        super()._place(
            Entry(entry.key, entry.origin, entry.aggregate, 0, entry.event, entry.reason), known, blocked, admission
        )


async def _order_after_a_redrive(database: Any, kind: type[Intake]) -> list[tuple[str, int]]:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        ledger.refuse["w1"] = Reject("not now")
        consumer = intake(here, ledger, kind)
        await consumer.process([record("w1", 1)], {})
        ledger.refuse.clear()
        await consumer.process([record("w1", 2), record("w2", 1), record("w1", 3)], {})
        await redrive(here, consumer)
        return [(name, version) for name, version in ledger.order if name == "w1"]


async def test_what_follows_a_rejected_record_waits_behind_it(database: Any) -> None:
    assert await _order_after_a_redrive(database, Intake) == [("w1", 1), ("w1", 2), ("w1", 3)]


async def test_without_parking_it_overtakes(database: Any) -> None:
    assert (await _order_after_a_redrive(database, _NoParking))[0] == ("w1", 2)


# ------------------------------------------------------------------------------------------------ the breaker


class _NeverTrips(Breaker):
    """Counts, and lets everything go on."""

    @property
    def tripped(self) -> bool:
        return False


async def _feed_poison(here: Database, ledger: Ledger, records: list[Origin], **options: Any) -> int:
    """How many dead letters there are once the consumer has stopped or is through."""
    consumer = Intake(here, ledger, [SUBMISSIONS, TRIGGERS], DECODER, **options)
    consumer.bus = "test-bus"
    for start in range(0, len(records), 20):
        try:
            await consumer.process(records[start : start + 20], {})
        except Tripped as tripped:
            await consumer.breakers.remember(str(tripped))
            break
    return int(await here.pool.fetchval("SELECT count(*) FROM parked"))


async def test_when_most_of_a_topic_is_rejected_its_consumer_stops(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        assert await _feed_poison(here, ledger, [poison(f"w{n}") for n in range(300)]) == 100
        consumer = intake(here, ledger)
        await consumer.breakers.look()
        assert consumer.breakers.stopped == {"muster.submissions": "100 of the last 100 records were rejected"}
        resume = pb.ResumeConsumerRequest(idempotency_key="k")
        assert list((await DeadLetters(here).ResumeConsumer(resume, Call())).topics) == ["muster.submissions"]
        await consumer.breakers.look()
        assert consumer.breakers.stopped == {}


async def test_without_the_breaker_the_whole_topic_is_emptied(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_chassis.breakers.Breaker", _NeverTrips)
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        assert await _feed_poison(here, ledger, [poison(f"w{n}") for n in range(300)]) == 300


async def test_foreign_records_never_stop_their_consumer(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        assert await _feed_poison(here, ledger, [poison(f"w{n}", topic=TRIGGERS) for n in range(300)]) == 300


async def test_heartbeats_are_not_parked(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger, unparked=[DeletionRequested])
        await consumer.process([poison("east", 1)], {})
        await consumer.process(
            [record("east", message=DeletionRequested(workload_id="a heartbeat")), record("east")], {}
        )
        assert ledger.memory == {"east": 1}
