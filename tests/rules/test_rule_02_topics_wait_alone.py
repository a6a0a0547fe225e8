"""Rules 2 and 12: a topic that cannot be sent to waits alone, and catches up in its own order.

Taken out here: the lane of such a topic (the relay sends strictly in the order of commits, so that one missing topic
stops every cluster).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from muster_chassis import metrics, sending
from muster_chassis.outbox import Relay
from muster_chassis.retention import Retention
from muster_chassis.sending import Offset
from muster_chassis.topics import Topic, assignments
from muster_chassis.unit import ASSIGNMENTS
from muster_chassis.waiting_topics import WAITING
from tests.support.stations import Journal, Station, asked, station
from tests.support.waiting import eventually, until

EAST, WEST = assignments("east"), assignments("west")
_TRANSACTIONAL = {"lane": ASSIGNMENTS, "transactional_id": "lanes-test"}


class _InOrder(Relay):
    """Sends a pass only once all of the one before is acknowledged."""

    async def _missing(self, producer: Any, rows: Sequence[Any]) -> set[str]:
        return set()

    async def _send(self, producer: Any, rows: Sequence[Any]) -> list[Offset]:
        for row in rows:
            await (await self._sender._send_one(producer, row))
        return []


async def _write(here: Station, topic: Topic, *workloads: str) -> None:
    for workload in workloads:
        async with here.database.unit() as unit:
            unit.publish(topic, workload, asked(workload))


async def _west_arrives(database: Any, kafka: str, kind: type[Relay], **options: Any) -> bool:
    """Whether one cluster's records arrive while another one's topic is missing, which then catches up in order."""
    async with station("scheduler", database.url("scheduler"), kafka) as here:
        await here.bus.create([WEST])
        relay = kind(here.database, here.bus, **options)
        journal = Journal()
        here.consume(journal, WEST, committed_only=True)
        await _write(here, EAST, "e1", "e2", "e1")
        here.go(relay.run)
        await _write(here, WEST, "w1", "w2")
        try:
            await until(lambda: len(journal.handled) == 2, within=30 if kind is Relay else 6)
        except TimeoutError:
            return False
        assert relay.waiting.names == [EAST.name]
        assert "missing" in here.bus.health.waiting[f"relay {EAST.name}"]
        label = "assignments" if options["lane"] == ASSIGNMENTS else "ordinary"
        assert metrics.value(WAITING, lane=label, topic=EAST.name) == 1
        await _write(here, EAST, "e1")
        await here.bus.create([EAST])
        late = Journal()
        here.consume(late, EAST, name="late", committed_only=True)
        await until(lambda: len(late.handled) == 4)
        assert late.handled == [("e1", 1), ("e2", 1), ("e1", 2), ("e1", 3)]
        await until(lambda: not relay.waiting.names)
        assert here.bus.health.waiting == {}
        assert journal.handled == [("w1", 1), ("w2", 1)]
        return here.alive()


@pytest.mark.parametrize("options", [{"lane": ASSIGNMENTS}, _TRANSACTIONAL], ids=["plain", "transactional"])
async def test_a_missing_topic_holds_up_no_other(database: Any, kafka: str, options: dict[str, Any]) -> None:
    assert await _west_arrives(database, kafka, Relay, **options)


@pytest.mark.parametrize("options", [{"lane": ASSIGNMENTS}, _TRANSACTIONAL], ids=["plain", "transactional"])
async def test_sent_in_order_alone_it_holds_up_all(
    database: Any, kafka: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_TOPIC_SECONDS", 300)
    assert not await _west_arrives(database, kafka, _InOrder, **options)


async def test_what_waits_outlives_the_relay_and_its_rows_are_kept(database: Any, kafka: str) -> None:
    async with station("scheduler", database.url("scheduler"), kafka) as here:
        await here.bus.create([EAST])
        relay = here.relay(lane=ASSIGNMENTS)
        await _write(here, WEST, "w1")
        await _write(here, EAST, "e1")
        await _position_passes(here, "e1")
        await until(lambda: relay.waiting.names == [WEST.name])
        (waits,) = await eventually(lambda: _written(here), lambda rows: len(rows) == 1)
        await here.end()
        assert tuple(waits) == (WEST.name, await _id(here, "w1") - 1)
        await here.database.pool.execute("UPDATE outbox SET version = 0, created = now() - interval '8 days'")
        await Retention(here.database).round()
        assert await here.database.pool.fetchval("SELECT array_agg(topic) FROM outbox") == [WEST.name]
        again = here.relay(lane=ASSIGNMENTS)
        await until(lambda: again.waiting.names == [WEST.name])
        await here.bus.create([WEST])
        await until(lambda: not again.waiting.names)
        assert again.last > waits["last"]


async def _written(here: Station) -> list[Any]:
    found: list[Any] = await here.database.pool.fetch("SELECT topic, last FROM relay_lanes")
    return found


async def _id(here: Station, workload: str) -> int:
    found: int = await here.database.pool.fetchval("SELECT id FROM outbox WHERE aggregate = $1", workload)
    return found


async def _position_passes(here: Station, workload: str) -> None:
    """Returns once the relay's position beyond that row is written down."""

    async def position() -> int:
        found: int = await here.database.pool.fetchval("SELECT coalesce(max(last), 0) FROM relay_positions")
        return found

    wanted = await _id(here, workload)
    await eventually(position, lambda last: last >= wanted)
