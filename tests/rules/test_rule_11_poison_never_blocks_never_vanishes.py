"""Rule 11: poison never blocks and never vanishes.

Taken out here: the bound on tries (one record blocks everything), parking (what follows a rejected record is handled
before it), the look at who a rejected record says it is (rubbish that names a workload freezes it), the one transaction
of dead letter, parked row and inbox outcome (one of them is missing after a crash), the first event id of a redrive (it
is handled twice), and the breaker (a faulty consumer empties a whole topic).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from muster.api.v1 import dead_letters_pb2 as pb
from muster.events.v1.dead_letter_pb2 import DeadLettered
from muster.events.v1.submission_pb2 import DeletionRequested
from muster_chassis import identity, parking
from muster_chassis.admission import Entry
from muster_chassis.attempts import bounded
from muster_chassis.breaker import Breaker
from muster_chassis.breakers import Tripped
from muster_chassis.codec import MessageDecoder
from muster_chassis.database import Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.errors import NotFound
from muster_chassis.events import Origin, Reject
from muster_chassis.intake import Intake
from muster_chassis.topics import SUBMISSIONS, TRIGGERS, reports
from tests.support.calls import Call
from tests.support.records import Ledger, intake, poison, record, with_ledger
from tests.support.stations import DECODER, opened


async def _dead(here: Database, *, done: bool = False) -> list[pb.DeadLetter]:
    request = pb.ListDeadLettersRequest(include_done=done)
    return list((await DeadLetters(here).ListDeadLetters(request, Call())).dead_letters)


async def _redrive(here: Database, consumer: Intake, *ids: str) -> pb.RedriveDeadLettersResponse:
    """The call, and beside it the sweep that the consumer's loop makes."""
    request = pb.RedriveDeadLettersRequest(ids=ids, idempotency_key=identity.event_id())
    answer = asyncio.ensure_future(DeadLetters(here).RedriveDeadLetters(request, Call()))
    while not answer.done():
        await consumer.sweep()
        await asyncio.wait({answer}, timeout=0.02)
    return answer.result()


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
        await _redrive(here, consumer)
        return [(name, version) for name, version in ledger.order if name == "w1"]


async def test_what_follows_a_rejected_record_waits_behind_it(database: Any) -> None:
    assert await _order_after_a_redrive(database, Intake) == [("w1", 1), ("w1", 2), ("w1", 3)]


async def test_without_parking_it_overtakes(database: Any) -> None:
    assert (await _order_after_a_redrive(database, _NoParking))[0] == ("w1", 2)


# ------------------------------------------------------------------------------------------------ it never vanishes


async def _traces_of_poison(here: Database, event: str) -> tuple[bool, bool, bool]:
    """Whether there is a parked row, an inbox outcome `parked`, a dead letter in the outbox."""
    parked = await here.pool.fetchval("SELECT count(*) FROM parked WHERE event_id = $1", event)
    inbox = await here.pool.fetchval("SELECT outcome FROM inbox WHERE event_id = $1", event)
    told = await here.pool.fetchval("SELECT count(*) FROM outbox WHERE topic = 'muster.dead-letters'")
    return bool(parked), inbox == "parked", bool(told)


class _Killed(BaseException):
    """The process is gone: nothing catches this."""


def _die(*_: object) -> None:
    raise _Killed


class _PiecesApart(Intake):
    """Writes the three down one after the other, each for itself."""

    async def _alone(self, entry: Entry) -> None:
        async with self.database.unit() as unit:
            await self._admit(unit, [entry])
        raise ConnectionError("killed in between")


async def _after_a_crash(database: Any, kind: type[Intake], monkeypatch: pytest.MonkeyPatch) -> tuple[bool, ...]:
    """The process dies while it writes the dead letter; then the record is delivered again."""
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        ledger.refuse["bad"] = Reject("never")
        event = identity.event_id()
        same = [record("bad", event_id=event)]

        with monkeypatch.context() as patch:
            patch.setattr(parking, "tell", _die)
            with pytest.raises((_Killed, ConnectionError)):
                await intake(here, ledger, kind).process(same, {})
        await intake(here, ledger).process(same, {})
        return await _traces_of_poison(here, event)


async def test_dead_letter_parked_row_and_outcome_are_one(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _after_a_crash(database, Intake, monkeypatch) == (True, True, True)


async def test_apart_a_crash_makes_poison_vanish(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _after_a_crash(database, _PiecesApart, monkeypatch) == (False, False, False)


async def test_the_dead_letter_tells_everything(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        bad = poison("w1", 3)
        await intake(here, ledger).process([bad], {})
        row = await here.pool.fetchrow("SELECT key, value FROM outbox")
        assert row is not None
        letter = DeadLettered.FromString(row["value"])
        assert (letter.service, letter.topic, letter.offset) == ("policy", "muster.submissions", bad.offset)
        assert (letter.key, letter.value, letter.aggregate) == (b"w1", b"\xff\xff\xff", "w1")
        assert row["key"] == b"w1"
        assert "no muster.events.v1.SuspendRequested" in letter.reason
        [shown] = await _dead(here)
        assert (shown.id, shown.reason, shown.attempts) == (letter.id, letter.reason, 1)


# ------------------------------------------------------------------------------------------------ redrive


async def test_a_redrive_hands_over_the_stored_bytes_under_the_first_id(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        ledger.refuse["w1"] = Reject("not yet")
        consumer = intake(here, ledger)
        event = identity.event_id()
        same = [record("w1", 1, event_id=event)]
        await consumer.process(same, {})
        failed = await _redrive(here, consumer, event)
        assert (failed.handled, failed.failed, list(failed.reasons)) == (0, 1, ["not yet"])
        ledger.refuse.clear()
        assert (await _redrive(here, consumer, event)).handled == 1
        await consumer.process(same, {})
        assert ledger.memory == {"w1": 1}
        assert await _dead(here) == []
        [done] = await _dead(here, done=True)
        assert done.done
        assert done.attempts == 2


class _NewIdentity(Intake):
    """Handles what waits under a new id, and leaves the inbox alone."""

    async def _waiting(self, row: Any) -> None:
        await self.database.pool.execute("DELETE FROM parked WHERE id = $1", row.id)
        await self.database.pool.execute("DELETE FROM inbox WHERE event_id = $1", row.key)
        await self.process([record(row.origin.header("ce_subject"))], {})


async def _redelivered_after_a_redrive(database: Any, kind: type[Intake]) -> int:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        ledger.refuse["w1"] = Reject("not yet")
        consumer = intake(here, ledger, kind)
        same = [record("w1")]
        await consumer.process(same, {})
        ledger.refuse.clear()
        await _redrive(here, consumer)
        await consumer.process(same, {})
        return ledger.memory["w1"]


async def test_what_was_redriven_is_a_duplicate_afterwards(database: Any) -> None:
    assert await _redelivered_after_a_redrive(database, Intake) == 1


async def test_under_a_new_id_it_would_be_handled_again(database: Any) -> None:
    assert await _redelivered_after_a_redrive(database, _NewIdentity) == 2


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


# ------------------------------------------------------------------------------------------------ who may hold back

NORTH = reports("north")


def _rubbish(workload: str, **changed: str | None) -> Origin:
    """Bytes that are no message, with the headers of a good record but for those that are changed or left out."""
    made = poison(workload, 1)
    headers = tuple((name, value) for name, value in made.headers if name not in changed)
    added = tuple((name, value.encode()) for name, value in changed.items() if value is not None)
    return replace(made, headers=headers + added)


class _AnyoneHolds(Entry):
    """Whoever names an aggregate holds it back."""

    @property
    def holds(self) -> bool:
        return bool(self.aggregate)


async def _reports_behind_rubbish(database: Any, rejected: Origin) -> dict[str, int]:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = Intake(here, ledger, [NORTH], DECODER)
        consumer.bus = "test-bus"
        await consumer.process([rejected], {})
        [letter] = await _dead(here)
        assert (letter.aggregate, letter.parked) == ("w1", 0)
        await consumer.process([record("w1", topic=NORTH), record("w1", topic=NORTH)], {})
        return ledger.memory


async def test_rubbish_that_names_a_workload_holds_back_none_of_its_reports(database: Any) -> None:
    rubbish = Origin(NORTH.name, 0, 7, b"w1", b"\xffgarbage", (("ce_subject", b"w1"),))
    assert await _reports_behind_rubbish(database, rubbish) == {"w1": 2}


async def test_a_rejected_report_holds_back_none_even_with_a_version(database: Any) -> None:
    assert await _reports_behind_rubbish(database, poison("w1", 1, topic=NORTH)) == {"w1": 2}


async def test_if_anyone_could_hold_back_reports_would_wait_for_ever(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster_chassis.intake.Entry", _AnyoneHolds)
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = Intake(here, ledger, [NORTH], DECODER)
        consumer.bus = "test-bus"
        await consumer.process([poison("w1", topic=NORTH)], {})
        await consumer.process([record("w1", topic=NORTH)], {})
        assert ledger.memory == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"ce_id": "7"},
        {"ce_id": None},
        {"ce_type": "muster.events.v1.NoSuchThing"},
        {"ce_type": "com.example.thing"},
        {"ce_source": "someone"},
        {"ce_source": "agent/"},
        {"muster_version": None},
        {"muster_version": "many"},
    ],
)
async def test_without_an_identity_of_ours_a_record_blocks_no_line(
    database: Any, changed: dict[str, str | None]
) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        await consumer.process([_rubbish("w1", **changed)], {})
        await consumer.process([record("w1", 1), record("w1", 2)], {})
        assert ledger.memory == {"w1": 2}
        assert len(await _dead(here)) == 1


# ------------------------------------------------------------------------------------------------ giving up


async def _discard(here: Database, *ids: str) -> pb.DiscardDeadLettersResponse:
    request = pb.DiscardDeadLettersRequest(ids=ids, idempotency_key=identity.event_id())
    return await DeadLetters(here).DiscardDeadLetters(request, Call())


async def test_what_is_given_up_lets_its_successors_go_on_in_their_order(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        await consumer.process([record("w1", 1), poison("w1", 2), record("w1", 3), record("w1", 5)], {})
        await consumer.process([record("w1", 4)], {})
        await consumer.sweep()
        assert ledger.order == [("w1", 1)]
        [letter] = await _dead(here)
        assert (letter.aggregate, letter.parked) == ("w1", 3)
        answer = await _discard(here, letter.id)
        assert (answer.discarded, answer.released, list(answer.reasons)) == (1, 3, [])
        await consumer.sweep()
        await consumer.process([record("w1", 6)], {})
        assert ledger.order == [("w1", version) for version in (1, 3, 4, 5, 6)]
        assert await _dead(here) == []
        [done] = await _dead(here, done=True)
        assert done.done
        assert done.reason.startswith("given up: the value is no muster.events.v1.SuspendRequested")


async def test_several_in_one_line_are_given_up_lowest_version_first(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        await consumer.process([record("w1", 1), poison("w1", 2), poison("w1", 3), record("w1", 4)], {})
        newest, oldest = [letter.id for letter in await _dead(here)]
        early = await _discard(here, newest)
        assert (early.discarded, list(early.reasons)) == (
            0,
            [f"{newest}: version 2 of w1 comes first, and has not been taken in"],
        )
        assert (await _discard(here, newest, oldest)).discarded == 2
        await consumer.sweep()
        assert ledger.order == [("w1", 1), ("w1", 4)]


async def test_giving_up_a_forgery_loses_no_record_of_the_same_version(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        await consumer.process([record("w1", 1), poison("w1", 2)], {})
        await consumer.process([record("w1", 2), record("w1", 3)], {})
        [letter] = await _dead(here)
        await _discard(here, letter.id)
        await consumer.sweep()
        assert ledger.order == [("w1", 1), ("w1", 2), ("w1", 3)]


async def test_what_was_given_up_is_a_duplicate_afterwards(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        same = [poison("w1", 1)]
        await consumer.process(same, {})
        [letter] = await _dead(here)
        await _discard(here, letter.id)
        await consumer.process(same, {})
        assert await _dead(here) == []
        with pytest.raises(NotFound):
            await _discard(here, letter.id)


async def test_what_could_not_be_read_takes_its_place_once_it_can(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        old = Intake(here, ledger, [SUBMISSIONS], MessageDecoder([DeletionRequested]))
        old.bus = "test-bus"
        unknown = record("w1", 1)
        unknown = replace(unknown, headers=(*unknown.headers, ("ce_source", b"a service to come")))
        await old.process([unknown], {})
        await old.process([record("w1", 2, message=DeletionRequested())], {})
        assert ledger.order == []
        new = intake(here, ledger)
        await _redrive(here, new)
        await new.sweep()
        assert ledger.order == [("w1", 1), ("w1", 2)]
