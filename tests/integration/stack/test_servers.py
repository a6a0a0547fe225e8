"""The embedded Kafka and PostgreSQL are the real ones, apart per test, and survive what the stack promises."""

from __future__ import annotations

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from muster_stack.embedded import EmbeddedKafka, EmbeddedPostgres
from muster_stack.fixtures import TestDatabase
from muster_stack.kafka_probe import probe
from muster_stack.postgres import ADMIN, SERVICES


async def _make_topic(bootstrap: str, name: str, **config: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 2, 1, topic_configs=config)])
    finally:
        await admin.close()


async def _topics(bootstrap: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return {name for name in await admin.list_topics() if not name.startswith("__")}
    finally:
        await admin.close()


async def _send(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value, key=b"k")
    finally:
        await producer.stop()


async def _read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest")
    await consumer.start()
    try:
        return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()


async def test_a_record_goes_in_and_comes_out(kafka: str) -> None:
    await _make_topic(kafka, "muster.submissions", **{"cleanup.policy": "compact"})
    await _send(kafka, "muster.submissions", b"one", b"two")
    assert await _read(kafka, "muster.submissions", 2) == [b"one", b"two"]


async def test_the_next_test_finds_nothing(kafka: str) -> None:
    assert await _topics(kafka) == set()


async def test_records_survive_kill_and_not_a_wipe(own_kafka: EmbeddedKafka) -> None:
    port = int(own_kafka.bootstrap.rpartition(":")[2])
    before = probe(port)
    await _make_topic(own_kafka.bootstrap, "kept")
    await _send(own_kafka.bootstrap, "kept", b"x")

    own_kafka.kill()
    assert probe(port) is None
    assert own_kafka.start() == before
    assert await _read(own_kafka.bootstrap, "kept", 1) == [b"x"]

    after = own_kafka.wipe()
    assert before is not None
    assert after.cluster_id != before.cluster_id
    assert await _topics(own_kafka.bootstrap) == set()


@pytest.mark.parametrize("service", SERVICES)
async def test_each_service_has_a_schema_that_the_others_cannot_read(database: TestDatabase, service: str) -> None:
    mine = await asyncpg.connect(database.url(service))
    await mine.execute("CREATE TABLE secret AS SELECT 1 AS a")
    assert await mine.fetchval("SELECT current_schema()") == service
    for other in set(SERVICES) - {service}:
        theirs = await asyncpg.connect(database.url(other))
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await theirs.fetch(f"TABLE {service}.secret")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await theirs.execute("CREATE TABLE public.leak (a int)")
        await theirs.close()
    await mine.close()


async def test_a_wrong_password_is_refused(own_postgres: EmbeddedPostgres) -> None:
    right = own_postgres.server.url("policy")
    wrong = right.replace(own_postgres.server.password("policy"), "guess")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(wrong)


async def test_committed_rows_survive_a_killed_server(own_postgres: EmbeddedPostgres) -> None:
    address = own_postgres.server.url("scheduler")
    connection = await asyncpg.connect(address)
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS a")
    own_postgres.kill()
    own_postgres.start()
    again = await asyncpg.connect(address)
    assert await again.fetchval("SELECT a FROM kept") == 7
    await again.close()


async def test_commits_are_durable_in_a_stack(own_postgres: EmbeddedPostgres) -> None:
    argv = own_postgres.server.command().argv
    assert "synchronous_commit=on" in argv
    admin = await asyncpg.connect(own_postgres.server.url(ADMIN))
    assert await admin.fetchval("SHOW listen_addresses") == ""
    await admin.close()
