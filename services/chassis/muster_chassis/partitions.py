"""The extents of a consumer's partitions, and the partitions that are offline.

Kafka's client answers for all partitions of a request or for none of them. Without this module, one partition without a
leader would keep a consumer from all others, and a service from starting. The consumer loops (consumer.py) and the
comparison at start (restored.py) use it.
Holds: no record of a partition is handled before its extent is known, because a first version above 1 is a gap only
where the oldest records are still there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError

from muster_chassis.health import Health
from muster_chassis.kafka import seen

_ASK_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 2.0
_GRACE_SECONDS: Final = 2.0  # the election of a new leader takes less
_NO_LEADER: Final = (None, -1)


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of the records of a partition: from `first` to below `end`."""

    first: int
    end: int


async def extents(
    consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition], within: float = _ASK_SECONDS
) -> dict[TopicPartition, Extent]:
    """Return the extents of the partitions that answer. It takes at most twice `within` seconds.

    Raises the errors of Kafka that a new leader does not mend, such as TopicAuthorizationFailedError.
    """
    found = await _asked(consumer, partitions, within)
    if found or len(partitions) <= 1:
        return found
    each = (_asked(consumer, [tp], within) for tp in partitions)
    for answer in await asyncio.gather(*each, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer
        found |= answer
    return found


async def _asked(
    consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition], within: float
) -> dict[TopicPartition, Extent]:
    """Return the extents of all these partitions; nothing if one of them does not answer."""
    try:
        async with asyncio.timeout(within):
            ends = await consumer.end_offsets(list(partitions))
            firsts = await consumer.beginning_offsets(list(partitions))
    except (TimeoutError, KafkaTimeoutError):
        return {}
    except KafkaError as error:
        if not error.retriable:
            raise
        return {}
    return {tp: Extent(firsts[tp], end) for tp, end in ends.items()}


async def position(consumer: AIOKafkaConsumer, tp: TopicPartition) -> int | None:
    """Return the offset of the next record; None if it is unknown. Kafka's client would wait for it without a limit."""
    try:
        async with asyncio.timeout(0):
            found: int = await consumer.position(tp)
    except TimeoutError:
        return None
    return found


def has_leader(consumer: AIOKafkaConsumer, tp: TopicPartition) -> bool:
    """Return whether the partition has a leader, by the metadata that the consumer has."""
    return consumer._client.cluster.leader_for_partition(tp) not in _NO_LEADER  # noqa: SLF001 - no public way


class Partitions:
    """The extents of the partitions of one consumer, as they were when it got each partition.

    health: names the partitions that are offline.
    """

    def __init__(self, health: Health) -> None:
        self.known: dict[TopicPartition, Extent] = {}
        self.waiting: frozenset[TopicPartition] = frozenset()
        """The partitions that did not answer. They are not read until their extent is known."""
        self._health = health
        self._asking: asyncio.Task[dict[TopicPartition, Extent]] | None = None
        self._ask_at = 0.0
        self._offline: dict[TopicPartition, float] = {}

    async def learn(self, consumer: AIOKafkaConsumer) -> dict[TopicPartition, Extent]:
        """Ask for the extents that are not known; return the new ones.

        A partition that did not answer is asked for again in the background, so that it does not delay the others.
        """
        found: dict[TopicPartition, Extent] = {}
        unknown = consumer.assignment() - self.known.keys()
        if new := unknown - self.waiting:
            found = await extents(consumer, new)
            self._ask_at = time.monotonic() + _RETRY_SECONDS
        elif self._asking is not None and self._asking.done():
            asking, self._asking = self._asking, None
            found = asking.result()
            self._ask_at = time.monotonic() + _RETRY_SECONDS
        elif unknown and self._asking is None and time.monotonic() >= self._ask_at:
            self._asking = asyncio.create_task(extents(consumer, unknown), name="extents")
            self._asking.add_done_callback(seen)
        assigned = consumer.assignment()  # a rebalance may have changed it meanwhile
        found = {tp: extent for tp, extent in found.items() if tp in assigned and tp not in self.known}
        self.known.update(found)
        self.waiting = frozenset(assigned - self.known.keys())
        return found

    def show(self, consumer: AIOKafkaConsumer) -> None:
        """Name in health the partitions that cannot be read now."""
        now = time.monotonic()
        led = {tp: has_leader(consumer, tp) for tp in consumer.assignment()}
        offline = {tp for tp, leader in led.items() if tp in self.waiting or not leader}
        self._good(self._offline.keys() - offline)
        for tp in offline:
            if now - self._offline.setdefault(tp, now) < _GRACE_SECONDS:
                continue
            why = "does not answer" if led[tp] else "has no leader"
            self._health.degraded(_condition(tp), f"{tp.topic}/{tp.partition} {why}; its records wait")

    def offline(self, seconds: float) -> frozenset[TopicPartition]:
        """Return the partitions that could not be read for this long, as of the last `show`."""
        until = time.monotonic() - seconds
        return frozenset(tp for tp, since in self._offline.items() if since <= until)

    def forget(self) -> None:
        """Begin again: the partitions are handed over, or the consumer is closed."""
        if self._asking is not None:
            self._asking.cancel()
        self._asking = None
        self.known.clear()
        self.waiting = frozenset()
        self._good(set(self._offline))

    def _good(self, partitions: Collection[TopicPartition]) -> None:
        for tp in list(partitions):
            del self._offline[tp]
            self._health.good(_condition(tp))


def _condition(tp: TopicPartition) -> str:
    return f"partition {tp.topic}/{tp.partition}"
