"""An agent in this process that reports runs of a moment over a real Kafka. Used by `tests/benchmarks/ageing.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from muster.fleet.v1 import fleet_pb2
from muster_chassis import identity, kafka
from muster_chassis.broker import Broker
from muster_chassis.codec import encode_headers
from muster_chassis.topics import assignments, reports
from tests.ageing.reports import CLUSTER, AgentReports, Clock


class LiveAgent:
    """An agent whose runs take a moment. ended: how many runs it has ended."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.ended = 0
        self._clock = Clock(datetime.now(UTC))
        self._reports = AgentReports(self._clock, start=1_000)  # above every start of the driver's agent
        self._producer = producer

    async def report(self, aggregate: str, message: Any) -> None:
        """One report."""
        headers = encode_headers(
            event_id=identity.event_id(),
            event_type=message.DESCRIPTOR.full_name,
            source=f"agent/{CLUSTER}",
            aggregate=aggregate,
            version=0,
            time=datetime.now(UTC),
            traceparent=None,
        )
        await self._producer.send(
            reports(CLUSTER).name, message.SerializeToString(), aggregate.encode(), headers=headers
        )

    async def beat(self) -> None:
        """A full inventory, then heartbeats for ever."""
        await self.report(*self._reports.inventory())
        while True:
            self._clock.now = datetime.now(UTC)
            await self.report(*self._reports.heartbeat())
            await asyncio.sleep(5)

    async def follow(self, consumer: AIOKafkaConsumer) -> None:
        """Runs what is assigned."""
        while True:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    if record.value is None:
                        continue
                    self._clock.now = datetime.now(UTC)
                    for aggregate, message in self._reports.run(fleet_pb2.Assignment.FromString(record.value)):
                        await self.report(aggregate, message)
                    self.ended += 1


@asynccontextmanager
async def living_agent(bootstrap: str) -> AsyncIterator[LiveAgent]:
    """An agent on the Kafka at `bootstrap`, for the time of the block."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False)
    await producer.start()
    await consumer.start()
    topic = assignments(CLUSTER).name
    counts = await kafka.partitions_of(Broker(bootstrap), [topic], client="bench")
    consumer.assign([TopicPartition(topic, number) for number in range(counts[topic])])
    agent = LiveAgent(producer)
    tasks = [asyncio.create_task(agent.beat()), asyncio.create_task(agent.follow(consumer))]
    try:
        yield agent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await kafka.stop(consumer)
        await producer.stop()
