"""Rule 3, the chassis's part: the event id is the inbox key, and older duplicates are stopped by their version.

Taken out here: the key (two deliveries of one event in one batch are two events), and the version (a duplicate that
is older than the inbox's memory is handled again). What services owe to this rule is in their own modules.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from muster_chassis import identity
from muster_chassis.admission import Entry
from muster_chassis.events import Origin
from muster_chassis.intake import Intake
from muster_chassis.retention import Retention
from tests.support.records import intake, record, with_ledger
from tests.support.stations import opened


class _NoVersions(Intake):
    """Relies on the inbox alone."""

    def _place(self, entry: Entry, known: Any, blocked: Any, admission: Any) -> None:
        admission.accepted.append(entry.event)


class _KeyByPlace(Intake):
    """Takes a record's place for its identity, as if a producer never sent one event twice."""

    def _decode(self, origin: Origin) -> Entry:
        entry = super()._decode(origin)
        return Entry(identity.event_id(), origin, entry.aggregate, entry.version, entry.event, entry.reason)


async def _count_of_one_event_at_two_places(database: Any, kind: type[Intake]) -> int:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        event = identity.event_id()
        twice = [record("w1", event_id=event), record("w1", event_id=event)]
        consumer = intake(here, ledger, kind)
        await consumer.process(twice, {})
        await consumer.process([record("w1", event_id=event)], {})
        return (await ledger.truth(here))["w1"]


async def test_an_event_published_twice_is_handled_once(database: Any) -> None:
    assert await _count_of_one_event_at_two_places(database, Intake) == 1


async def test_without_its_id_as_the_key_it_is_handled_each_time(database: Any) -> None:
    assert await _count_of_one_event_at_two_places(database, _KeyByPlace) == 3


async def _count_after_the_inbox_forgot(database: Any, kind: type[Intake]) -> int:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        old = [record("w1", 1)]
        await intake(here, ledger, kind).process(old, {})
        await here.pool.execute("UPDATE inbox SET at = $1", datetime.now(UTC) - timedelta(days=15))
        await Retention(here).round()
        assert await here.pool.fetchval("SELECT count(*) FROM inbox") == 0
        await intake(here, ledger, kind).process(old, {})
        return (await ledger.truth(here))["w1"]


async def test_a_duplicate_older_than_the_inbox_is_stopped_by_its_version(database: Any) -> None:
    assert await _count_after_the_inbox_forgot(database, Intake) == 1


async def test_without_versions_it_is_handled_again(database: Any) -> None:
    assert await _count_after_the_inbox_forgot(database, _NoVersions) == 2
