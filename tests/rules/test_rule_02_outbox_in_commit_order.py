"""Rule 2: the outbox is in commit order, and consumers see each aggregate's versions one after the other.

Taken out here: the lock under which rows are inserted (a row that commits late is never published), the relay's look
at versions (a broken outbox is published as it is), the consumer's (an older version is handled last), the parking of
gaps (a later version is handled first), and the end of an idle session (one that is stopped keeps the lane).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from muster_chassis import identity, outbox
from muster_chassis.admission import Entry
from muster_chassis.database import Database
from muster_chassis.intake import Intake
from muster_chassis.outbox import Relay
from muster_chassis.outbox_order import OutOfOrder
from muster_chassis.sending import Offset
from muster_chassis.topics import SUBMISSIONS
from tests.support.records import intake, record, with_ledger
from tests.support.stations import asked, opened, station
from tests.support.waiting import until

_LOCK = "PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.outbox', 0));"


class _Recording(Relay):
    """Writes down what is sent, and sends it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sent: list[tuple[str, int]] = []

    async def _send(self, producer: AIOKafkaProducer, rows: Sequence[Any]) -> list[Offset]:
        offsets = await super()._send(producer, rows)
        self.sent.extend((row["aggregate"], row["version"]) for row in rows)
        return offsets


async def _without_the_lock(database: Database) -> None:
    sql = (files("muster_chassis") / "migrations" / "0001_chassis.sql").read_text()
    start = sql.index("CREATE FUNCTION append_outbox")
    function = sql[start : sql.index("END $$;", start) + len("END $$;")]
    assert _LOCK in function
    await database.pool.execute(function.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace(_LOCK, ""))


async def _two_commits_that_cross(here: Any, relay: Any, *, seconds: float) -> None:
    """One transaction inserts its row first and commits last; the other does both in between, if these seconds do."""
    inserted, crossed = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        async with here.database.unit() as unit:
            unit.publish(SUBMISSIONS, "slow", asked("slow"))
            await unit.seal()
            unit._staged.clear()
            unit.commit_id = identity.event_id()  # its block seals once more
            inserted.set()
            await asyncio.wait({asyncio.ensure_future(crossed.wait())}, timeout=seconds)

    async def quick() -> None:
        await inserted.wait()
        await here.publish("quick")
        await until(lambda: ("quick", 1) in relay.sent)
        crossed.set()

    await asyncio.gather(slow(), quick())


async def _published(database: Any, kafka: str, *, lock: bool) -> list[str]:
    async with station("submission", database.url("submission"), kafka) as here:
        if not lock:
            await _without_the_lock(here.database)
        relay = _Recording(here.database, here.bus)
        here.go(relay.run)
        await _two_commits_that_cross(here, relay, seconds=0.5 if lock else 30)
        await here.publish("last")
        await until(lambda: ("last", 1) in relay.sent)
        return [name for name, _ in relay.sent]


async def test_a_row_that_commits_late_is_published(database: Any, kafka: str) -> None:
    assert await _published(database, kafka, lock=True) == ["slow", "quick", "last"]


async def test_without_the_lock_it_is_lost(database: Any, kafka: str) -> None:
    assert "slow" not in await _published(database, kafka, lock=False)


async def _published_beside_a_stopped_instance(database: Any, kafka: str) -> bool:
    """Whether this instance publishes although another one, which is stopped, had the lock of the lane."""
    url = database.url("submission")
    async with opened(url, "submission") as other, station("submission", url, kafka) as here:
        stopped = Relay(other, here.bus)
        async with stopped._connected():  # and never uses it again
            relay = _Recording(here.database, here.bus)
            here.go(relay.run)
            await here.publish("w1")
            with suppress(TimeoutError):
                await until(lambda: relay.sent, within=4)
            return relay.sent == [("w1", 1)]


async def test_an_instance_that_is_stopped_loses_the_lane(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_IDLE_SECONDS", 1.0)
    assert await _published_beside_a_stopped_instance(database, kafka)


async def test_if_its_session_had_no_end_others_would_publish_nothing(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_IDLE_SECONDS", 0.0)
    assert not await _published_beside_a_stopped_instance(database, kafka)


async def _publish_a_broken_outbox(database: Any, kafka: str) -> list[tuple[str, int]]:
    async with station("submission", database.url("submission"), kafka) as here:
        relay = _Recording(here.database, here.bus)
        await here.publish("w1", "w1", "w1")
        await here.database.pool.execute("UPDATE outbox SET version = 7 WHERE version = 2")
        task = here.begin(relay.run)
        await until(lambda: task.done() or len(relay.sent) == 3)
        if task.done():
            task.result()
        return relay.sent


async def test_the_relay_refuses_versions_that_do_not_grow_by_one(database: Any, kafka: str) -> None:
    with pytest.raises(OutOfOrder, match="version 7 after 1"):
        await _publish_a_broken_outbox(database, kafka)


async def test_without_its_look_the_broken_outbox_goes_out(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "check_order", lambda _rows: None)
    assert await _publish_a_broken_outbox(database, kafka) == [("w1", 1), ("w1", 7), ("w1", 3)]


class _NoVersions(Intake):
    """Does not look at versions at all."""

    def _place(self, entry: Entry, known: Any, blocked: Any, admission: Any) -> None:
        admission.accepted.append(entry.event)


class _NoParking(Intake):
    """Takes a later version for the next one."""

    def _follows(self, entry: Entry, last: int) -> bool:
        return True


async def _handled(database: Any, kind: type[Intake], versions: Sequence[int]) -> list[int]:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger, kind)
        for version in versions:
            await consumer.process([record("w1", version)], {})
            await consumer.sweep()
        return [version for _, version in ledger.order]


async def test_what_is_not_above_the_last_version_is_a_duplicate(database: Any) -> None:
    assert await _handled(database, Intake, [1, 2, 1, 2]) == [1, 2]


async def test_without_that_an_old_version_is_handled_again(database: Any) -> None:
    assert await _handled(database, _NoVersions, [1, 2, 1, 2]) == [1, 2, 1, 2]


async def test_a_gap_waits_for_the_missing_one(database: Any) -> None:
    assert await _handled(database, Intake, [1, 4, 3, 2, 5]) == [1, 2, 3, 4, 5]


async def test_without_parking_the_missing_ones_are_lost(database: Any) -> None:
    assert await _handled(database, _NoParking, [1, 4, 3, 2, 5]) == [1, 4, 5]
