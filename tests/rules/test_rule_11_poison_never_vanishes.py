"""Rule 11: poison never vanishes, and is handled once when it is handed over again.

Taken out here: the one transaction of dead letter, parked row and inbox outcome (one of them is missing after a crash),
and the first event id of a redrive (it is handled twice).
"""

from __future__ import annotations

from typing import Any

import pytest

from muster.events.v1.dead_letter_pb2 import DeadLettered
from muster_chassis import identity, parking
from muster_chassis.admission import Entry
from muster_chassis.database import Database
from muster_chassis.events import Reject
from muster_chassis.intake import Intake
from tests.support.dead_letters import dead, redrive
from tests.support.records import intake, poison, record, with_ledger
from tests.support.stations import opened

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
        [shown] = await dead(here)
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
        failed = await redrive(here, consumer, event)
        assert (failed.handled, failed.failed, list(failed.reasons)) == (0, 1, ["not yet"])
        ledger.refuse.clear()
        assert (await redrive(here, consumer, event)).handled == 1
        await consumer.process(same, {})
        assert ledger.memory == {"w1": 1}
        assert await dead(here) == []
        [done] = await dead(here, done=True)
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
        await redrive(here, consumer)
        await consumer.process(same, {})
        return ledger.memory["w1"]


async def test_what_was_redriven_is_a_duplicate_afterwards(database: Any) -> None:
    assert await _redelivered_after_a_redrive(database, Intake) == 1


async def test_under_a_new_id_it_would_be_handled_again(database: Any) -> None:
    assert await _redelivered_after_a_redrive(database, _NewIdentity) == 2
