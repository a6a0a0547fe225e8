"""Rule 11: who may hold back the records that follow, and how long.

Taken out here: the look at who a rejected record says it is (rubbish that names a workload freezes it). What holds a
line back may be given up: then its successors go on, in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.events.v1.submission_pb2 import DeletionRequested
from muster_chassis.admission import Entry
from muster_chassis.codec import MessageDecoder
from muster_chassis.errors import NotFound
from muster_chassis.events import Origin
from muster_chassis.intake import Intake
from muster_chassis.topics import SUBMISSIONS, reports
from tests.support.dead_letters import dead, discard, redrive
from tests.support.records import intake, poison, record, with_ledger
from tests.support.stations import DECODER, opened

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
        [letter] = await dead(here)
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
        assert len(await dead(here)) == 1


# ------------------------------------------------------------------------------------------------ giving up


async def test_what_is_given_up_lets_its_successors_go_on_in_their_order(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        await consumer.process([record("w1", 1), poison("w1", 2), record("w1", 3), record("w1", 5)], {})
        await consumer.process([record("w1", 4)], {})
        await consumer.sweep()
        assert ledger.order == [("w1", 1)]
        [letter] = await dead(here)
        assert (letter.aggregate, letter.parked) == ("w1", 3)
        answer = await discard(here, letter.id)
        assert (answer.discarded, answer.released, list(answer.reasons)) == (1, 3, [])
        await consumer.sweep()
        await consumer.process([record("w1", 6)], {})
        assert ledger.order == [("w1", version) for version in (1, 3, 4, 5, 6)]
        assert await dead(here) == []
        [done] = await dead(here, done=True)
        assert done.done
        assert done.reason.startswith("given up: the value is no muster.events.v1.SuspendRequested")


async def test_several_in_one_line_are_given_up_lowest_version_first(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        await consumer.process([record("w1", 1), poison("w1", 2), poison("w1", 3), record("w1", 4)], {})
        newest, oldest = [letter.id for letter in await dead(here)]
        early = await discard(here, newest)
        assert (early.discarded, list(early.reasons)) == (
            0,
            [f"{newest}: version 2 of w1 comes first, and has not been taken in"],
        )
        assert (await discard(here, newest, oldest)).discarded == 2
        await consumer.sweep()
        assert ledger.order == [("w1", 1), ("w1", 4)]


async def test_giving_up_a_forgery_loses_no_record_of_the_same_version(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        await consumer.process([record("w1", 1), poison("w1", 2)], {})
        await consumer.process([record("w1", 2), record("w1", 3)], {})
        [letter] = await dead(here)
        await discard(here, letter.id)
        await consumer.sweep()
        assert ledger.order == [("w1", 1), ("w1", 2), ("w1", 3)]


async def test_what_was_given_up_is_a_duplicate_afterwards(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger)
        same = [poison("w1", 1)]
        await consumer.process(same, {})
        [letter] = await dead(here)
        await discard(here, letter.id)
        await consumer.process(same, {})
        assert await dead(here) == []
        with pytest.raises(NotFound):
            await discard(here, letter.id)


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
        await redrive(here, new)
        await new.sweep()
        assert ledger.order == [("w1", 1), ("w1", 2)]
