"""An in-process agent that reports very short runs over a real Kafka. `tests/benchmarks/ageing.py` uses it."""

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
    """An agent whose runs end at once. ended: the number of runs that it has ended."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.ended = 0
        self._clock = Clock(datetime.now(UTC))
        self._reports = AgentReports(self._clock, start=1_000)  # above every start of the driver's agent
        self._producer = producer

    async def report(self, aggregate: str, message: Any) -> None:
        """Send one report."""
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
        """Send a full inventory, then heartbeats for ever."""
        await self.report(*self._reports.inventory())
        while True:
            self._clock.now = datetime.now(UTC)
            await self.report(*self._reports.heartbeat())
            await asyncio.sleep(5)

    async def follow(self, consumer: AIOKafkaConsumer) -> None:
        """Run every assignment that arrives."""
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
    """Run an agent on the Kafka at `bootstrap` while the block runs."""
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
