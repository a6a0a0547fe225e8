"""Finds out that PostgreSQL is older than Kafka, because it was restored from a copy or failed over without a commit.

Called by the bus before its first session (bus.py). An event reaches Kafka only after its commit. A record of ours with
a version that the database never gave therefore means that the database has forgotten it. On such a pair those versions
would be given a second time, and consumers would drop the new events as duplicates. The process waits instead and names
what was forgotten. It goes on with an empty Kafka, on which everything is published again (rule 8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

from muster_chassis import identity, kafka, logs, metrics
from muster_chassis.broker import Broker
from muster_chassis.codec import aggregate_of, origin_of, version_of
from muster_chassis.database import Database
from muster_chassis.events import Origin
from muster_chassis.partitions import Extent, extents
from muster_chassis.topics import Topic
from muster_chassis.unit import ORDINARY

_log = logs.get(__name__)
_TAIL: Final = 200
"""Records that are read at the end of a partition of which nothing was acknowledged on this bus."""
_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 5.0  # within which the partitions say where they end; twice that where one of them is offline
_POLL_MS: Final = 200
_NAMED: Final = 1000
_GIVEN: Final = """
SELECT topic, aggregate, version FROM aggregate_versions
WHERE (aggregate, topic) IN (SELECT * FROM unnest($1::text[], $2::text[]))
"""
_ACKNOWLEDGED: Final = "SELECT topic, partition, last FROM acknowledged_offsets WHERE lane = $1 AND bus = $2"

FORGOTTEN: Final = metrics.gauge(
    "muster_forgotten_aggregates",
    unit="aggregates",
    meaning="Aggregates of which Kafka has events that this service's database does not know.",
    action="PostgreSQL was restored: the log names them; start with an empty Kafka (docs/guides/operate.md).",
)


class DatabaseBehind(Exception):
    """Kafka has events of this service that its database does not know."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What the database has forgotten of one aggregate: events `first` to `last` on a topic."""

    topic: str
    aggregate: str
    first: int
    last: int


class Verification:
    """Compares the database of a service with what the service has published on a bus.

    topics: those that only this service writes.
    """

    def __init__(self, database: Database, broker: Broker, topics: Sequence[Topic], *, client: str) -> None:
        self._database = database
        self._broker = broker
        self._topics = topics
        self._client = client
        self._behind: dict[str, DatabaseBehind] = {}  # by bus, so that a retry reads nothing again

    async def __call__(self, bus: str) -> None:
        """Raises DatabaseBehind where Kafka is ahead, once the log has named what was forgotten.

        Raises one of KAFKA_TROUBLE where Kafka does not answer. Where Kafka does not let this service read its own
        topics, nothing is compared, with a warning. A partition that alone does not answer is left out, with a warning.
        """
        if bus in self._behind:
            raise self._behind[bus]
        found = await self._compare(bus)
        FORGOTTEN.set(len({one.aggregate for one in found}))
        if not found:
            return
        for one in found[:_NAMED]:
            _log.error(
                "forgotten", topic=one.topic, aggregate=one.aggregate, first_version=one.first, last_version=one.last
            )
        self._behind[bus] = DatabaseBehind(_message(found))
        raise self._behind[bus]

    async def _compare(self, bus: str) -> list[Forgotten]:
        rows = await self._database.pool.fetch(_ACKNOWLEDGED, ORDINARY, bus)
        acknowledged = {TopicPartition(row["topic"], row["partition"]): row["last"] for row in rows}
        try:
            async with asyncio.timeout(_SECONDS):
                records = await _unacknowledged(self._broker, self._topics, acknowledged, client=self._client)
        except TopicAuthorizationFailedError as error:
            _log.warning(
                "this service may not read its own topics: it cannot tell whether its database is older than Kafka "
                "(`muster bus acls` lists the access rules)",
                why=str(error),
            )
            return []
        return await _forgotten(self._database, records, identity.now())


def _message(found: Sequence[Forgotten]) -> str:
    aggregates, topics = {one.aggregate for one in found}, sorted({one.topic for one in found})
    return (
        f"PostgreSQL is older than Kafka: it does not know events of {len(aggregates)} aggregates on "
        f"{', '.join(topics)} (such as {found[0].aggregate}; the log names them). If it was restored from a copy, "
        "start with an empty Kafka: `muster down`, then `muster up -d --empty-kafka`; for a Kafka of your own see "
        "docs/guides/operate.md"
    )


async def _unacknowledged(
    broker: Broker, topics: Sequence[Topic], acknowledged: Mapping[TopicPartition, int], *, client: str
) -> list[Origin]:
    """The records behind the last acknowledged one of each partition, or at its end where none is known."""
    names = [topic.name for topic in topics]
    there = await kafka.partitions_of(broker, names, client=client)
    partitions = [TopicPartition(name, number) for name, count in there.items() for number in range(count)]
    consumer = kafka.consumer(broker, client=f"{client}-restored")
    try:
        await consumer.start()
        found = await _extents(consumer, partitions)
        wanted = {}
        for tp, extent in found.items():
            known = acknowledged.get(tp)
            first = max(extent.first, known + 1 if known is not None else extent.end - _TAIL)
            if first < extent.end:
                wanted[tp] = first
        return await _read(consumer, wanted, {tp: found[tp].end for tp in wanted})
    finally:
        await kafka.stop(consumer)


async def _extents(consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Extent]:
    """Return the extents of the partitions that answer, with a warning that names the others.

    Raises KafkaTimeoutError if none of them answers.
    """
    if not partitions:
        return {}
    found = await extents(consumer, partitions, _ASK_SECONDS)
    if not found:
        raise KafkaTimeoutError(f"no partition of {', '.join(sorted({tp.topic for tp in partitions}))} answers")
    if offline := sorted(f"{tp.topic}/{tp.partition}" for tp in partitions if tp not in found):
        _log.warning(
            "partitions of this service do not answer: the database is not compared with what is on them",
            partitions=offline,
        )
    return found


async def _read(
    consumer: AIOKafkaConsumer, wanted: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[Origin]:
    records: list[Origin] = []
    consumer.assign(list(wanted))
    for tp, first in wanted.items():
        consumer.seek(tp, first)
    while any([await consumer.position(tp) < ends[tp] for tp in wanted]):
        polled = await consumer.getmany(timeout_ms=_POLL_MS)
        records += [origin_of(record) for batch in polled.values() for record in batch]
    return records


async def _forgotten(database: Database, records: Sequence[Origin], now: datetime) -> list[Forgotten]:
    """The versions on Kafka that the database never gave, by topic and aggregate."""
    on_kafka: dict[tuple[str, str], tuple[int, int]] = {}  # version, time in milliseconds
    for record in records:
        version = version_of(record)
        if version and record.header("ce_source") == database.source:
            place = record.topic, aggregate_of(record)
            on_kafka[place] = max(on_kafka.get(place, (0, 0)), (version, record.timestamp))
    rows = await database.pool.fetch(_GIVEN, [aggregate for _, aggregate in on_kafka], [topic for topic, _ in on_kafka])
    given = {(row["topic"], row["aggregate"]): row["version"] for row in rows}
    # Version numbers are removed after an aggregate is over: an old record without one proves nothing.
    oldest = int((now - 2 * database.settings.retention).timestamp() * 1000)
    return [
        Forgotten(topic, aggregate, given.get((topic, aggregate), 0) + 1, version)
        for (topic, aggregate), (version, stamp) in sorted(on_kafka.items())
        if version > given.get((topic, aggregate), 0 if stamp >= oldest else version)
    ]
