"""Reading without a database: whole topics from their beginning, at every start, for memory that they rebuild.

For agents (assignments are desired state) and for whoever keeps only a view. Nothing is parked: what cannot be
decoded or handled is given to `on_reject`, and reading goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis import kafka, logs
from muster_chassis.backoff import Backoff
from muster_chassis.bus import Bus, BusLost, Session
from muster_chassis.codec import Decoder, origin_of
from muster_chassis.events import Event, Origin, Reject, Retry
from muster_chassis.kafka import KAFKA_TROUBLE
from muster_chassis.topics import Topic

_log = logs.get(__name__)
_POLL_MS: Final = 200
_RECORDS: Final = 500


class Reader:
    """Reads `topics` for ever. Delivery is at least once: everything again after a start and on another bus.

    on_begin: awaited before the first record of each reading from the beginning, with the bus's cluster id.
    caught_up: set once everything that stood there at the start was handled; `on_caught_up` is awaited then.
    """

    def __init__(
        self,
        bus: Bus,
        topics: Sequence[Topic],
        decoder: Decoder,
        handle: Callable[[Sequence[Event]], Awaitable[None]],
        *,
        on_reject: Callable[[Origin, str], Awaitable[None]],
        on_begin: Callable[[str], Awaitable[None]] | None = None,
        on_caught_up: Callable[[], Awaitable[None]] | None = None,
        committed_only: bool = False,
    ) -> None:
        self.caught_up = asyncio.Event()
        self._bus = bus
        self._topics = list(topics)
        self._decoder = decoder
        self._handle = handle
        self._on_reject = on_reject
        self._on_begin = on_begin
        self._on_caught_up = on_caught_up
        self._committed_only = committed_only

    async def run(self) -> None:
        """Reads for ever; Kafka may come and go. An eternal task."""
        backoff = Backoff()
        while True:
            consumer: AIOKafkaConsumer | None = None
            try:
                async with self._bus.session() as session:
                    consumer = kafka.consumer(
                        self._bus.broker, client=f"{self._bus.client}-reader", committed_only=self._committed_only
                    )
                    await consumer.start()
                    await self._read(consumer, session, backoff)
            except BusLost:
                _log.info("the reader begins anew on another bus")
            except KAFKA_TROUBLE as error:
                _log.warning("the reader tries again", error=repr(error))
                await backoff.pause()
            finally:
                kafka.discard(consumer)

    async def _read(self, consumer: AIOKafkaConsumer, session: Session, backoff: Backoff) -> None:
        self.caught_up.clear()
        counts = await self._bus.wait_for([topic.name for topic in self._topics])
        partitions = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        if self._on_begin is not None:
            await self._on_begin(session.cluster_id)
        while True:
            polled = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS)
            if polled:
                await self._batch([origin_of(record) for records in polled.values() for record in records])
                backoff.reset()
            if not self.caught_up.is_set() and await _reached(consumer, ends):
                self.caught_up.set()
                if self._on_caught_up is not None:
                    await self._on_caught_up()

    async def _batch(self, origins: Sequence[Origin]) -> None:
        events = []
        for origin in origins:
            try:
                events.append(self._decoder(origin))
            except Reject as poison:
                await self._on_reject(origin, poison.reason)
            except Exception as error:  # noqa: BLE001 - a decoder that fails is one more reason
                await self._on_reject(origin, f"{type(error).__name__}: {error}")
        if not events:
            return
        try:
            await self._patiently(events)
        except Exception as error:  # noqa: BLE001 - judged record by record
            _log.warning("a batch failed, its records are handled one by one", error=repr(error))
        else:
            return
        for event in events:
            try:
                await self._patiently([event])
            except Exception as error:  # noqa: BLE001 - whatever it is, the rest goes on
                _log.exception("a record cannot be handled")
                await self._on_reject(event.origin, f"{type(error).__name__}: {error}")

    async def _patiently(self, events: Sequence[Event]) -> None:
        backoff = Backoff()
        while True:
            try:
                return await self._handle(events)
            except (Retry, TimeoutError):  # time is never poison
                await backoff.pause()


async def _reached(consumer: AIOKafkaConsumer, ends: Any) -> bool:
    for tp, end in ends.items():
        if await consumer.position(tp) < end:
            return False
    return True
