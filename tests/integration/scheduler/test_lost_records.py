"""Kafka loses records of an assignments topic and keeps its cluster id: a new term publishes them (rule 8)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import asyncpg
import pytest

from muster_chassis import outbox
from muster_chassis.topics import assignments
from muster_stack.embedded import EmbeddedKafka
from muster_stack.fixtures import TestDatabase
from tests.integration.scheduler.test_leading import epoch_of, register
from tests.support.scheduling import neighbours, scheduler
from tests.support.waiting import eventually, until

TOPIC = assignments("north").name


def _lose(broker: EmbeddedKafka) -> None:
    """Kafka comes back without the records of the topic, as after the loss of a disk."""
    broker.stop()
    logs = [path for path in Path(broker.folder).rglob(f"{TOPIC}-*") if path.is_dir()]
    assert logs
    for path in logs:
        shutil.rmtree(path)
    broker.start()


async def test_a_new_term_publishes_the_records_that_kafka_has_lost(
    own_kafka: EmbeddedKafka, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_COMPARE", 1.0)
    url, bootstrap = database.url("scheduler"), own_kafka.bootstrap

    async def remembered() -> bool:
        connection = await asyncpg.connect(url)
        try:
            sql = "SELECT count(*) > 0 FROM scheduler.acknowledged_offsets WHERE topic = $1 AND last >= 2"
            return bool(await connection.fetchval(sql, TOPIC))
        finally:
            await connection.close()

    async with scheduler(url, bootstrap) as candidate:
        async with neighbours(bootstrap, "north") as others:
            await register(candidate, others)
            ids = [await others.admit(f"w{n}") for n in range(3)]
            await until(lambda: all(others.last_record(i) is not None for i in ids))
            before = max(epoch_of(others, i) for i in ids)
        await eventually(remembered)
        await asyncio.to_thread(_lose, own_kafka)
        async with neighbours(bootstrap, "north") as others:
            await until(lambda: all(others.last_record(i) is not None for i in ids), within=60)
            await until(lambda: all(epoch_of(others, i) > before for i in ids))
            late = await others.admit("late")
            await until(lambda: others.last_record(late) is not None)
            assert epoch_of(others, late) > before
