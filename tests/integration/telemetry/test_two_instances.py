"""Two instances of telemetry on the real Kafka and PostgreSQL: use is reported twice, and one of them is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg

from muster.events.v1.agent_pb2 import UsageSample, UsageSampled
from muster.events.v1.telemetry_pb2 import UsageAccounted
from muster_chassis import identity
from muster_chassis import kafka as clients
from muster_chassis.broker import Broker
from muster_chassis.codec import MessageDecoder, encode_headers
from muster_chassis.topics import ADVICE, SAMPLES
from tests.support.instances import feed_until_all_work, handled
from tests.support.processes import service
from tests.support.stations import Journal, station
from tests.support.waiting import eventually, until

WORKLOADS = [f"00000000-0000-7000-8000-{number:012d}" for number in range(4)]
_CLUSTERS = 24  # record keys: each of the 12 partitions has some
_AFTER = 100  # seconds of use that are told after one instance was killed
_TAKEN_OVER = 150.0  # Faust's session of the killed instance ends after 60 s


class Advice(Journal):
    """The last account of each workload that was told."""

    async def __call__(self, unit: Any, events: Any) -> None:
        unit.after_commit(lambda: self.handled.extend((e.aggregate, e.message.gpu_seconds) for e in events))


def use(workload: str, since: int, until_at: int) -> UsageSample:
    """A replica of a workload held one GPU."""
    made = UsageSample(workload_id=workload, replica=f"{workload}-r", project="team-a", name="t", gpu_charge=7000)
    getattr(made, "from").FromSeconds(since)
    made.to.FromSeconds(until_at)
    return made


class Agents:
    """Agents of many clusters that tell each second of use twice, in different pieces and on different partitions."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.seconds = 0

    async def tell(self) -> None:
        """The next second of each workload's use, once alone and once with what came before it."""
        now = self.seconds
        await self._send(now, [use(workload, now, now + 1) for workload in WORKLOADS])
        await self._send(now + 7, [use(workload, max(0, now - 5), now + 1) for workload in WORKLOADS])
        self.seconds += 1

    async def _send(self, number: int, samples: list[UsageSample]) -> None:
        cluster = f"c-{number % _CLUSTERS}"
        headers = encode_headers(
            event_id=identity.event_id(),
            event_type=UsageSampled.DESCRIPTOR.full_name,
            source=f"agent/{cluster}",
            aggregate=cluster,
            version=0,
            time=identity.now(),
            traceparent=None,
        )
        value = UsageSampled(cluster=cluster, samples=samples).SerializeToString()
        await self._producer.send_and_wait(SAMPLES.name, value, cluster.encode(), headers=headers)


async def test_each_second_of_use_is_counted_once_while_one_of_two_is_killed(
    database: Any, kafka: str, tmp_path: Path
) -> None:
    house = {"database": database.url("telemetry"), "kafka": kafka, "MUSTER_ANNOUNCE_SECONDS": "0.2"}
    async with (
        station("submission", database.url("submission"), kafka) as listener,
        service("telemetry", tmp_path, **house, MUSTER_INSTANCE="telemetry-0") as first,
        service("telemetry", tmp_path, **house, MUSTER_INSTANCE="telemetry-1") as second,
    ):
        advice = Advice()
        listener.consume(advice, ADVICE, decoder=MessageDecoder([UsageAccounted]))
        await first.ready()
        await second.ready()
        producer = clients.producer(Broker(kafka), client="agents")
        await producer.start()
        try:
            agents = Agents(producer)
            await feed_until_all_work(agents.tell, first, second, records=20)
            await agents.tell()
            first.kill()
            before = await handled(second)
            for _ in range(_AFTER):
                await agents.tell()
        finally:
            await clients.stop(producer)

        books = await asyncpg.connect(database.url("telemetry"))
        try:

            async def counted() -> dict[str, float]:
                rows = await books.fetch(
                    "SELECT workload_id::text AS id, amount / (7000::numeric * 1000000) AS seconds "
                    "FROM telemetry.accounts"
                )
                found = {row["id"]: float(row["seconds"]) for row in rows}
                assert max(found.values()) <= agents.seconds, found
                return found

            expected = dict.fromkeys(WORKLOADS, float(agents.seconds))
            await eventually(counted, lambda seen: seen == expected, within=_TAKEN_OVER, every=0.5)
            await until(lambda: dict(advice.handled) == expected, within=60)
            done = "SELECT count(*) FROM telemetry.inbox WHERE outcome = 'done'"
            await eventually(
                lambda: books.fetchval(done), lambda number: number == 2 * agents.seconds, within=_TAKEN_OVER
            )
            assert await counted() == expected
        finally:
            await books.close()
        assert await handled(second) > before
        assert second.process.poll() is None
