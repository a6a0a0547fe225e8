"""Publishing without a database: for agents, whose truth is their cluster and who report again what matters.

One task sends in order, in batches; a batch that fails goes out again as a whole on a new producer, under the same
event ids, so that order is kept and consumers drop what comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaProducer
from google.protobuf.message import Message

from muster_chassis import identity, kafka, logs, tracing
from muster_chassis.backoff import Backoff
from muster_chassis.bus import Bus, BusLost
from muster_chassis.codec import LARGEST_VALUE, TOMBSTONE, encode_headers
from muster_chassis.events import Reject
from muster_chassis.kafka import KAFKA_TROUBLE
from muster_chassis.topics import Topic

_log = logs.get(__name__)
_QUEUE: Final = 10_000
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class _Outgoing:
    topic: str
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]
    acknowledged: asyncio.Future[None]


class Sender:
    """An ordered, bounded queue to Kafka. `source`: ce_source of all that it sends, such as `agent/east`."""

    def __init__(self, bus: Bus, source: str) -> None:
        self._bus = bus
        self._source = source
        self._queue: asyncio.Queue[_Outgoing] = asyncio.Queue(_QUEUE)
        self._batch: list[_Outgoing] = []

    async def post(
        self,
        topic: Topic,
        aggregate: str,
        message: Message | None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        event_id: str | None = None,
    ) -> asyncio.Future[None]:
        """Queues one record, waiting while the queue is full; the future is done once Kafka has acknowledged it.

        Records go out in the order of these calls. Raises Reject above 1 MiB.
        """
        value = None if message is None else message.SerializeToString()
        if value is not None and len(value) > LARGEST_VALUE:
            raise Reject(f"{topic.name}: {len(value)} bytes of {aggregate}; at most {LARGEST_VALUE} are allowed")
        encoded = encode_headers(
            event_id=event_id or identity.event_id(),
            event_type=TOMBSTONE if message is None else message.DESCRIPTOR.full_name,
            source=self._source,
            aggregate=aggregate,
            version=0,
            time=identity.now(),
            traceparent=tracing.current(),
            extra=headers or {},
        )
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._queue.put(_Outgoing(topic.name, (key or aggregate).encode(), value, encoded, acknowledged))
        return acknowledged

    async def send(self, topic: Topic, aggregate: str, message: Message | None, *, key: str | None = None) -> None:
        """Queues one record and waits for its acknowledgement, however long Kafka is away."""
        await (await self.post(topic, aggregate, message, key=key))

    async def run(self) -> None:
        """Sends for ever; Kafka may come and go. An eternal task."""
        backoff = Backoff()
        while True:
            producer: AIOKafkaProducer | None = None
            try:
                async with self._bus.session():
                    producer = kafka.producer(self._bus.bootstrap, client=f"{self._bus.client}-sender")
                    await producer.start()
                    await self._work(producer, backoff)
            except BusLost:
                _log.info("the sender begins anew on another bus")
            except KAFKA_TROUBLE as error:
                _log.warning("the sender tries again", error=repr(error))
                await backoff.pause()
            finally:
                kafka.discard(producer)

    async def drain(self, within: float) -> None:
        """Waits until the queue is empty, at most `within` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while True:
            if (not self._batch and self._queue.empty()) or loop.time() >= end:
                return
            await asyncio.sleep(0.01)

    async def _work(self, producer: AIOKafkaProducer, backoff: Backoff) -> None:
        while True:
            if not self._batch:
                self._batch.append(await self._queue.get())
            while len(self._batch) < _BATCH and not self._queue.empty():
                self._batch.append(self._queue.get_nowait())
            answers = []
            for out in self._batch:
                answers.append(await producer.send(out.topic, out.value, out.key, headers=out.headers))
                answers[-1].add_done_callback(kafka.seen)
            for answer in answers:
                await answer
            for out in self._batch:
                if not out.acknowledged.done():
                    out.acknowledged.set_result(None)
            self._batch.clear()
            backoff.reset()
