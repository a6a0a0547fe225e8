"""Telemetry as a process: Faust over the real Kafka, accounts in the real PostgreSQL, Kafka killed and emptied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from muster.api.v1 import dead_letters_pb2, dead_letters_pb2_grpc
from muster.events.v1.agent_pb2 import UsageSample, UsageSampled
from muster.events.v1.telemetry_pb2 import UsageAccounted
from muster_chassis import identity, kafka
from muster_chassis.broker import Broker
from muster_chassis.codec import MessageDecoder, encode_headers
from muster_chassis.rpc import ServiceName
from muster_chassis.topics import ADVICE, SAMPLES
from tests.support.identities import channel_to
from tests.support.processes import service
from tests.support.stations import Journal, station
from tests.support.waiting import eventually, until

WORKLOADS = [f"00000000-0000-7000-8000-{number:012d}" for number in range(3)]


class Advice(Journal):
    """The last account of each workload that was told."""

    async def __call__(self, unit: Any, events: Any) -> None:
        unit.after_commit(lambda: self.handled.extend((e.aggregate, e.message.gpu_seconds) for e in events))

    def last(self) -> dict[str, float]:
        return dict(self.handled)


async def within_a_minute(condition: Any) -> None:
    await until(condition, within=60)


def interval(workload: str, start: float, end: float, charge: int = 7000) -> UsageSample:
    """A replica of the workload held so much for so long."""
    made = UsageSample(
        workload_id=workload, attempt=1, replica=f"{workload}-r", project="team-a", name="t", gpu_charge=charge
    )
    getattr(made, "from").FromMilliseconds(int(start * 1000))
    made.to.FromMilliseconds(int(end * 1000))
    return made


class Agent:
    """Writes samples as agents do."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    async def sample(self, workload: str, start: float, end: float, *, charge: int = 7000, event_id: str = "") -> None:
        await self.samples(interval(workload, start, end, charge), event_id=event_id)

    async def samples(self, *intervals: UsageSample, event_id: str = "") -> None:
        await self.raw("north", UsageSampled(cluster="north", samples=intervals).SerializeToString(), event_id)

    async def raw(self, workload: str, value: bytes, event_id: str = "") -> None:
        headers = encode_headers(
            event_id=event_id or identity.event_id(),
            event_type=UsageSampled.DESCRIPTOR.full_name,
            source="agent/north",
            aggregate=workload,
            version=0,
            time=identity.now(),
            traceparent=None,
        )
        await self._producer.send_and_wait(SAMPLES.name, value, workload.encode(), headers=headers)

    async def bare(self, value: bytes) -> None:
        await self._producer.send_and_wait(SAMPLES.name, value)


async def counted(url: str, expected: float) -> None:
    """Waits until the project's account says so, as the service's own role sees it."""

    async def look() -> float:
        try:
            connection = await asyncpg.connect(url)
        except (OSError, asyncpg.PostgresError):
            return -1.0
        try:
            found = await connection.fetchval(
                "SELECT gpu_seconds FROM telemetry.project_usage WHERE project = 'team-a'"
            )
            return float(found or 0)
        finally:
            await connection.close()

    await eventually(look, lambda seen: seen == expected, within=60, every=0.2)


@asynccontextmanager
async def agent(bootstrap: str) -> AsyncIterator[Agent]:
    producer = kafka.producer(Broker(bootstrap), client="agent")
    await producer.start()
    try:
        yield Agent(producer)
    finally:
        await kafka.stop(producer)


async def test_usage_is_counted_once_and_told(database: Any, kafka: str, tmp_path: Path) -> None:
    house = {"database": database.url("telemetry"), "kafka": kafka, "MUSTER_ANNOUNCE_SECONDS": "0.2"}
    async with service("telemetry", tmp_path, **house) as running:
        await running.ready()
        async with (
            station("submission", database.url("submission"), kafka) as listener,
            agent(kafka) as north,
        ):
            advice = Advice()
            listener.consume(advice, ADVICE, decoder=MessageDecoder([UsageAccounted]))
            repeated = identity.event_id()
            for _ in range(2):
                await north.sample(WORKLOADS[0], 0, 10, event_id=repeated)
            await north.sample(WORKLOADS[0], 0, 10)
            await north.sample(WORKLOADS[0], 5, 20)
            await north.sample(WORKLOADS[1], 0, 10, charge=3500)
            await within_a_minute(lambda: advice.last() == {WORKLOADS[0]: 20.0, WORKLOADS[1]: 5.0})

            await north.raw(WORKLOADS[2], b"\xff\xff")
            await north.sample(WORKLOADS[1], 10, 9)
            await north.sample(WORKLOADS[2], 0, 1)
            await north.sample(WORKLOADS[0], 20, 30)
            await within_a_minute(lambda: advice.last()[WORKLOADS[0]] == 30.0)

            running.kill()
            await north.sample(WORKLOADS[0], 30, 40)
            async with service("telemetry", tmp_path, **house) as again:
                await within_a_minute(lambda: advice.last()[WORKLOADS[0]] == 40.0)
                assert advice.last()[WORKLOADS[1]] == 5.0
                assert await again.end() == 0


async def test_poison_goes_to_the_dead_letters_and_the_rest_flows(database: Any, kafka: str, tmp_path: Path) -> None:
    house = {"database": database.url("telemetry"), "kafka": kafka, "MUSTER_ANNOUNCE_SECONDS": "0.2"}
    async with (
        service("telemetry", tmp_path, **house) as running,
        channel_to(ServiceName.TELEMETRY, running.grpc) as open_channel,
    ):
        await running.ready()
        async with agent(kafka) as north:
            await north.raw(WORKLOADS[2], b"\xff\xff")
            await north.sample(WORKLOADS[1], 10, 9)
            await north.bare(b"no message of ours")
            await north.samples(interval(WORKLOADS[0], 0, 10), interval(WORKLOADS[1], 5, 5), interval("x", 0, 1))
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(open_channel)

        async def letters() -> list[str]:
            answer = await stub.ListDeadLetters(dead_letters_pb2.ListDeadLettersRequest(), timeout=5)
            return sorted(letter.reason for letter in answer.dead_letters)

        reasons = await eventually(letters, lambda seen: len(seen) == 4, within=60)
        assert reasons[0].startswith("1 of 1 samples cannot be counted; samples[0]: ")
        assert "ends before it begins" in reasons[0]
        assert reasons[1].startswith("2 of 3 samples cannot be counted; samples[1]: ")
        assert "ce_id is ''" in reasons[2]
        assert "the value is no muster.events.v1.UsageSampled" in reasons[3]
        await counted(database.url("telemetry"), 10)


async def test_it_outlives_postgres(own_postgres: Any, kafka: str, tmp_path: Path) -> None:
    url = own_postgres.server.url("telemetry")
    async with service("telemetry", tmp_path, database=url, kafka=kafka) as running, agent(kafka) as north:
        await running.ready()
        await north.sample(WORKLOADS[0], 0, 10)
        await counted(url, 10)
        await asyncio.to_thread(own_postgres.kill)
        await north.sample(WORKLOADS[0], 10, 20)
        await asyncio.to_thread(own_postgres.start)
        await north.sample(WORKLOADS[0], 20, 30)
        await counted(url, 30)
        assert running.process.poll() is None


async def test_it_outlives_kafka_and_an_emptied_one(database: Any, own_kafka: Any, tmp_path: Path) -> None:
    house = {
        "database": database.url("telemetry"),
        "kafka": own_kafka.bootstrap,
        "MUSTER_ANNOUNCE_SECONDS": "0.2",
    }

    url = house["database"]
    async with service("telemetry", tmp_path, **house) as running:
        await running.ready()
        async with agent(own_kafka.bootstrap) as north:
            await north.sample(WORKLOADS[0], 0, 10)
            await counted(url, 10)
        await asyncio.to_thread(own_kafka.kill)
        await asyncio.to_thread(own_kafka.start)
        async with agent(own_kafka.bootstrap) as north:
            await north.sample(WORKLOADS[0], 10, 20)
            await counted(url, 20)
        await asyncio.to_thread(own_kafka.wipe)

        async def topics() -> Any:
            try:
                return await kafka.partitions_of(Broker(own_kafka.bootstrap), [SAMPLES.name], client="test")
            except kafka.KAFKA_TROUBLE:
                return None

        await eventually(topics, within=60)
        async with agent(own_kafka.bootstrap) as north:
            await north.sample(WORKLOADS[0], 0, 20)
            await north.sample(WORKLOADS[0], 20, 30)
            await counted(url, 30)
        assert running.process.poll() is None
        assert await running.end() == 0
