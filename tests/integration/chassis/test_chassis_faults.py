"""Kafka and PostgreSQL die and come back: nothing is lost, nothing is doubled, nobody has to be restarted."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from muster_chassis.broker import Broker
from muster_chassis.bus import Bus, DatabaseIdentity
from muster_chassis.database import Database
from muster_chassis.database_watch import POSTGRES, watch_postgres
from muster_chassis.health import Health
from muster_stack.embedded import EmbeddedKafka, EmbeddedPostgres
from tests.support.scheduling import free_port
from tests.support.stations import Journal, Station, settings, station
from tests.support.waiting import until

_ROUNDS = 6


async def _publish_until(sender: Station, enough: asyncio.Event) -> set[str]:
    """Publishes one workload after the other as a client would: again, until the answer is yes."""
    acknowledged: set[str] = set()
    while not enough.is_set():
        name = f"w{len(acknowledged)}"
        while name not in acknowledged:
            try:
                async with asyncio.timeout(10):
                    await sender.publish(name)
                acknowledged.add(name)
            except Exception:  # noqa: BLE001 - whatever it was, the client tries again
                await asyncio.sleep(0.1)
        await asyncio.sleep(0.02)
    return acknowledged


@pytest.mark.parametrize("assigned", [False, True])
async def test_both_are_killed_again_and_again(
    own_kafka: EmbeddedKafka, own_postgres: EmbeddedPostgres, assigned: bool
) -> None:
    async with (
        station(
            "submission", own_postgres.server.url("submission", "muster"), own_kafka.bootstrap, watch=True
        ) as sender,
        station("policy", own_postgres.server.url("policy", "muster"), own_kafka.bootstrap, watch=True) as receiver,
    ):
        sender.relay()
        journal = Journal()
        receiver.consume(journal, assigned=assigned)
        enough = asyncio.Event()
        publishing = asyncio.ensure_future(_publish_until(sender, enough))
        await until(lambda: journal.handled)
        for number in range(_ROUNDS):
            victim: Any = (own_kafka, own_postgres)[number % 2]
            await asyncio.to_thread(victim.kill if number < _ROUNDS / 2 else victim.stop)
            await asyncio.to_thread(victim.start)
            before = len(journal.handled)
            await until(lambda: sender.alive() and receiver.alive() and len(journal.handled) > before, within=60)  # noqa: B023
        enough.set()
        acknowledged = await asyncio.wait_for(publishing, 60)
        await until(lambda: acknowledged <= {name for name, _ in journal.handled}, within=60)
        rows = await receiver.database.pool.fetch("SELECT aggregate, version, count(*) FROM journal GROUP BY 1, 2")
        assert all(row["count"] == 1 for row in rows)
        assert sorted((row["aggregate"], row["version"]) for row in rows) == sorted(journal.handled)
        assert not [task for task in (*sender.tasks, *receiver.tasks) if task.done()]


async def test_kafka_comes_back_empty_in_the_middle(own_kafka: EmbeddedKafka, database: Any) -> None:
    async with (
        station("submission", database.url("submission"), own_kafka.bootstrap, watch=True) as sender,
        station("policy", database.url("policy"), own_kafka.bootstrap, watch=True) as receiver,
    ):
        sender.relay()
        journal = Journal()
        receiver.consume(journal)
        enough = asyncio.Event()
        publishing = asyncio.ensure_future(_publish_until(sender, enough))
        await until(lambda: len(journal.handled) > 20)
        await asyncio.to_thread(own_kafka.kill)
        await asyncio.to_thread(own_kafka.wipe)
        before = len(journal.handled)
        await until(lambda: len(journal.handled) > before, within=60)
        enough.set()
        acknowledged = await asyncio.wait_for(publishing, 60)
        await until(lambda: acknowledged <= {name for name, _ in journal.handled}, within=60)
        assert len(journal.handled) == len(acknowledged)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_health_tells_whether_postgres_answers(kafka: str, own_postgres: EmbeddedPostgres, how: str) -> None:
    async with station("submission", own_postgres.server.url("submission", "muster"), kafka) as here:
        health = here.bus.health
        health.grace = 0.0
        here.go(partial(watch_postgres, here.database, health))
        await until(lambda: health.serving)
        await asyncio.to_thread(getattr(own_postgres, how))
        await until(lambda: POSTGRES in health.troubles)
        assert "PostgreSQL does not answer" in health.troubles[POSTGRES]
        await asyncio.to_thread(own_postgres.start)
        await until(lambda: health.serving)


@pytest.mark.parametrize("needed", [True, False])
async def test_who_can_do_without_kafka_goes_on_serving(database: Any, needed: bool) -> None:
    opened = await Database.open(settings(database.url("submission"), "submission"), source="submission")
    health, nowhere = Health(grace=0.0), Broker(f"127.0.0.1:{free_port()}")
    bus = Bus(nowhere, client="test", identity=DatabaseIdentity(opened), health=health, needed=needed)
    assert not await bus.check()
    assert health.serving is not needed
    assert "does not answer" in (health.troubles if needed else health.waiting)["kafka"]
    await bus.close()
    await opened.close()
