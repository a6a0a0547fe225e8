"""Topics that the relay cannot send to now: each waits alone, and catches up in its own order (rule 2).

The relay adds a topic when its rows are not acknowledged, and asks which topics may be tried again. Holds: what is
written down covers every row that the relay's position has passed and that was not sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaProducer, TopicPartition, errors

from muster_chassis import metrics
from muster_chassis.backoff import Backoff
from muster_chassis.connection import AnyConnection
from muster_chassis.health import Health
from muster_chassis.kafka import KAFKA_TROUBLE

_PROBE_SECONDS: Final = 2.0
_NEW_TOPIC_PAUSE: Final = 0.2
_WRITE: Final = """
INSERT INTO relay_lanes (lane, bus, topic, last) SELECT $1, $2, t, n FROM unnest($3::text[], $4::bigint[]) AS u(t, n)
ON CONFLICT (lane, bus, topic) DO UPDATE SET last = excluded.last
"""

TOPIC_TROUBLE: Final = (
    errors.UnknownTopicOrPartitionError,
    errors.TopicAuthorizationFailedError,
    errors.InvalidTopicError,
    errors.LeaderNotAvailableError,
    errors.NotLeaderForPartitionError,
    errors.MessageSizeTooLargeError,
    errors.KafkaTimeoutError,
    TimeoutError,
)
"""What keeps one topic from being sent to and says nothing about the others."""

WAITING = metrics.gauge(
    "muster_outbox_waiting",
    unit="1 = waits",
    meaning="Whether a topic cannot be sent to and waits alone, while the rest of its lane is published.",
    action="/healthz says why: is the topic missing, without a leader, or not allowed? It catches up by itself.",
    labels=("lane", "topic"),
)


class TopicsFailed(Exception):
    """Some topics of a pass were not acknowledged. `first`: the first row of each that is not, and why."""

    def __init__(self, first: Mapping[str, tuple[int, Exception]]) -> None:
        super().__init__(", ".join(f"{topic}: {error!r}" for topic, (_, error) in first.items()))
        self.first = dict(first)


@dataclass
class _Topic:
    """One topic. `last`: the id up to which its rows are sent. `retry`: when it may be asked for again."""

    last: int
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.2, last=30.0))
    retry: float = 0.0
    probe: asyncio.Task[bool] | None = None


class WaitingTopics:
    """The topics of one lane that wait. `label`: the lane in metrics."""

    def __init__(self, lane: int, label: str, health: Health) -> None:
        self._lane = lane
        self._label = label
        self._health = health
        self._topics: dict[str, _Topic] = {}
        self._written: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The topics that wait."""
        return list(self._topics)

    def last(self, topic: str) -> int:
        """The id up to which the rows of a waiting topic are sent."""
        return self._topics[topic].last

    async def load(self, connection: AnyConnection, bus: str) -> None:
        """Begin with what is written down for this bus."""
        self.close()
        rows = await connection.fetch(
            "SELECT topic, last FROM relay_lanes WHERE lane = $1 AND bus = $2", self._lane, bus
        )
        self._written = {row["topic"]: row["last"] for row in rows}
        for name, last in self._written.items():
            self.add(name, last, "it waited before the relay began")

    async def save(self, connection: AnyConnection, bus: str) -> None:
        """Write down what waits. The caller writes its own position in the same transaction."""
        now = {name: topic.last for name, topic in self._topics.items()}
        if now == self._written:
            return
        await connection.execute(_WRITE, self._lane, bus, list(now), list(now.values()))
        await connection.execute(
            "DELETE FROM relay_lanes WHERE lane = $1 AND bus = $2 AND topic <> ALL($3::text[])",
            self._lane,
            bus,
            list(now),
        )
        self._written = now

    def add(self, name: str, last: int, why: str) -> None:
        """Let a topic wait: its rows after `last` are not sent."""
        topic = self._topics.setdefault(name, _Topic(last))
        topic.last, topic.retry = last, time.monotonic() + topic.backoff.next()
        WAITING.labels(self._label, name).set(1)
        self._health.degraded(f"relay {name}", f"{why}; its records wait, those of other topics are published")

    def sent(self, name: str, last: int, *, over: bool) -> None:
        """Note that rows up to `last` are sent; with `over` the topic no longer waits."""
        self._topics[name].last = last
        if over:
            self._forget(name)

    def ready(self, producer: AIOKafkaProducer) -> list[str]:
        """The topics that have a leader again. Requests for them run outside of the relay's loop."""
        found, now = [], time.monotonic()
        for name, topic in self._topics.items():
            if topic.probe is None and now >= topic.retry:
                topic.probe = asyncio.create_task(has_leader(producer, name), name=f"probe {name}")
            elif topic.probe is not None and topic.probe.done():
                if topic.probe.result():
                    found.append(name)
                else:
                    topic.retry = now + topic.backoff.next()
                topic.probe = None
        return found

    def close(self) -> None:
        """Forget everything that is only in memory."""
        for name in self.names:
            self._forget(name)
        self._written = {}

    def _forget(self, name: str) -> None:
        topic = self._topics.pop(name)
        if topic.probe is not None:
            topic.probe.cancel()
        WAITING.labels(self._label, name).set(0)
        self._health.good(f"relay {name}")


async def has_leader(producer: AIOKafkaProducer, topic: str, within: float = _PROBE_SECONDS) -> bool:
    """Whether the topic exists and each of its partitions has a leader; False after `within` seconds."""
    with suppress(*KAFKA_TROUBLE, TimeoutError):
        async with asyncio.timeout(within):
            # Asked once: `partitions_for` would ask ten times a second, and log as often that the topic is missing.
            producer.client.add_topic(topic)
            await producer.client.force_metadata_update()
            cluster = producer.client.cluster
            partitions: Iterable[int] = cluster.partitions_for_topic(topic) or ()
            leaders = [cluster.leader_for_partition(TopicPartition(topic, one)) for one in partitions]
            return bool(leaders) and all(leader not in {None, -1} for leader in leaders)
    return False


async def is_there(producer: AIOKafkaProducer, topic: str) -> bool:
    """Whether a topic can be sent to; one that was made just now is looked for twice."""
    if await has_leader(producer, topic):
        return True
    await asyncio.sleep(_NEW_TOPIC_PAUSE)
    return await has_leader(producer, topic)
