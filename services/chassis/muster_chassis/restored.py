"""Detects a PostgreSQL that is older than Kafka: it was restored from a copy, or failed over without a commit.

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

_Line = tuple[str, str]
"""A topic and an aggregate, within which versions count."""
_Last = tuple[int, int]
"""The highest version of a line on Kafka, and the time of its record in milliseconds since 1970."""

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
    """The comparison of a service's database with what the service has published on a bus.

    topics: those that only this service writes.
    """

    def __init__(self, database: Database, broker: Broker, topics: Sequence[Topic], *, client: str) -> None:
        self._database = database
        self._broker = broker
        self._topics = topics
        self._client = client
        self._behind: dict[str, str] = {}  # the message by bus, so that a retry reads nothing again

    async def __call__(self, bus: str) -> None:
        """Compare them. Raises DatabaseBehind if Kafka is ahead, once the log has named what was forgotten.

        Raises one of KAFKA_TROUBLE if Kafka does not answer. If Kafka does not let this service read its own topics,
        nothing is compared, with a warning. A partition that alone does not answer is left out, with a warning.
        """
        if bus in self._behind:
            raise DatabaseBehind(self._behind[bus])
        found = await self._compare(bus)
        FORGOTTEN.set(len({one.aggregate for one in found}))
        if not found:
            return
        for one in found[:_NAMED]:
            _log.error(
                "forgotten", topic=one.topic, aggregate=one.aggregate, first_version=one.first, last_version=one.last
            )
        self._behind[bus] = _message(found)
        raise DatabaseBehind(self._behind[bus])

    async def _compare(self, bus: str) -> list[Forgotten]:
        rows = await self._database.pool.fetch(_ACKNOWLEDGED, ORDINARY, bus)
        acknowledged = {TopicPartition(row["topic"], row["partition"]): row["last"] for row in rows}
        try:
            async with asyncio.timeout(_SECONDS):
                published = await self._published(acknowledged)
        except TopicAuthorizationFailedError as error:
            _log.warning(
                "this service may not read its own topics: it cannot tell whether its database is older than Kafka "
                "(`muster bus acls` lists the access rules)",
                why=str(error),
            )
            return []
        return await _forgotten(self._database, published, identity.now())

    async def _published(self, acknowledged: Mapping[TopicPartition, int]) -> dict[_Line, _Last]:
        """Return the last version of each line behind the last acknowledged offset of each partition.

        Where no offset is known, the end of the partition is read.
        """
        names = [topic.name for topic in self._topics]
        there = await kafka.partitions_of(self._broker, names, client=self._client)
        partitions = [TopicPartition(name, number) for name, count in there.items() for number in range(count)]
        consumer = kafka.consumer(self._broker, client=f"{self._client}-restored")
        try:
            await consumer.start()
            found = await _extents(consumer, partitions)
            first = {
                tp: max(extent.first, acknowledged[tp] + 1 if tp in acknowledged else extent.end - _TAIL)
                for tp, extent in found.items()
            }
            ends = {tp: extent.end for tp, extent in found.items() if first[tp] < extent.end}
            return await _read(consumer, first, ends, self._database.source)
        finally:
            await kafka.stop(consumer)


def _message(found: Sequence[Forgotten]) -> str:
    aggregates, topics = {one.aggregate for one in found}, sorted({one.topic for one in found})
    return (
        f"PostgreSQL is older than Kafka: it does not know events of {len(aggregates)} aggregates on "
        f"{', '.join(topics)} (such as {found[0].aggregate}; the log names them). If it was restored from a copy, "
        "start with an empty Kafka: `muster down`, then `muster up -d --empty-kafka`; for a Kafka of your own see "
        "docs/guides/operate.md"
    )


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
    consumer: AIOKafkaConsumer, first: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], source: str
) -> dict[_Line, _Last]:
    """Read partitions up to their ends. Only the last version of each line is kept, whatever the records hold."""
    published: dict[_Line, _Last] = {}
    consumer.assign(list(ends))
    for tp in ends:
        consumer.seek(tp, first[tp])
    while any([await consumer.position(tp) < end for tp, end in ends.items()]):
        for batch in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            for record in map(origin_of, batch):
                version = version_of(record)
                if version and record.header("ce_source") == source:
                    line = record.topic, aggregate_of(record)
                    published[line] = max(published.get(line, (0, 0)), (version, record.timestamp))
    return published


async def _forgotten(database: Database, published: Mapping[_Line, _Last], now: datetime) -> list[Forgotten]:
    """Return the versions on Kafka that the database never gave, by topic and aggregate."""
    topics, aggregates = [topic for topic, _ in published], [aggregate for _, aggregate in published]
    rows = await database.pool.fetch(_GIVEN, aggregates, topics)
    given = {(row["topic"], row["aggregate"]): row["version"] for row in rows}
    # Version numbers are removed after an aggregate is over: an old record without one proves nothing.
    oldest = int((now - 2 * database.settings.retention).timestamp() * 1000)
    return [
        Forgotten(*line, given.get(line, 0) + 1, version)
        for line, (version, stamp) in sorted(published.items())
        if version > given.get(line, 0 if stamp >= oldest else version)
    ]
