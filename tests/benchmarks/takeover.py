"""How long no scheduler leads: `uv run python tests/benchmarks/takeover.py --json` (100,000 GPUs, 1,000,000 waiting).

On a real PostgreSQL and a real Kafka: a fleet with 170,000 running replicas, a queue, and a history of 2,000,000
assignment records. Schedulers are processes. One starts alone (cold_s: from its start until it has decided something),
a second one follows it; the first is killed (standby_s: from kill -9 until the other has decided something), starts
again, and the second is stopped (frozen_s: from SIGSTOP). A decision is one about a workload that was admitted after
the signal. republished_s: from the cold start until every record is published under its epoch. agent_start_s: one
cluster's agent reads the topic of its cluster to the end. epochs: how many terms there were; lease_lost: how many of
them ended by themselves.

Progress goes to standard error; the last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import kafka
from muster_chassis.broker import Broker
from muster_chassis.health import Health
from muster_chassis.migrations import of_package
from muster_chassis.migrations.apply import migrate
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import DECISIONS, FIXED, assignments, reports
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.handlers.agent import Agent
from muster_cluster_agent.stream import Assignments
from muster_scheduler.adapters import encoding
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_stack.embedded import EmbeddedKafka, EmbeddedPostgres
from muster_stack.postgres import ADMIN, DATABASE
from tests.support import scale_fleet
from tests.support.agent_loops import Told
from tests.support.backends import FakeBackend
from tests.support.identities import environment, signed, verifier
from tests.support.scale_fleet import Size
from tests.support.scheduling import Neighbours, free_port

_EPOCH: Final = 1  # of the history
_PROBE_SECONDS: Final = 0.25
_BEAT_SECONDS: Final = 10.0
_PATIENCE: Final = 600.0
_GRACE: Final = 30
_FLUSH: Final = 20_000
_SPEC: Final = workload_pb2.WorkloadSpec(
    kind=options_pb2.KIND_TRAINING, name="train", image="registry.example.com/team/train:1.2", command="python train.py"
).SerializeToString()


@dataclass(slots=True)
class Scheduler:
    """One process and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def said(self, what: str) -> int:
        """How many lines of its log have a text."""
        return self.log.read_text(errors="replace").count(what)

    def last(self, lines: int) -> list[str]:
        """The last lines of its log."""
        return self.log.read_text(errors="replace").splitlines()[-lines:]

    def signal(self, what: signal.Signals) -> float:
        """Send a signal; the moment."""
        self.process.send_signal(what)
        return time.time()


class Bench:
    """The servers, and what speaks to the schedulers."""

    def __init__(self, url: str, bootstrap: str, folder: Path, size: Size) -> None:
        self.url = url
        self.bootstrap = bootstrap
        self.folder = folder
        self.size = size
        self.schedulers: list[Scheduler] = []
        self.others: Neighbours | None = None
        self._started = 0

    def start(self) -> Scheduler:
        """Start one more scheduler."""
        self._started += 1
        name = f"scheduler-{self._started}"
        log = self.folder / f"{name}.log"
        env = (
            os.environ
            | environment()
            | {
                "MUSTER_INSTANCE": name,
                "MUSTER_KAFKA_BOOTSTRAP": self.bootstrap,
                "MUSTER_KAFKA_SECURITY": "plaintext",
                "MUSTER_METRICS_LISTEN": "127.0.0.1:0",
                "MUSTER_DATABASE_URL": self.url,
                "MUSTER_DATABASE_SCHEMA": "scheduler",
                "MUSTER_GRPC_LISTEN": f"127.0.0.1:{free_port()}",
            }
        )
        output: IO[bytes] = log.open("wb")
        with output:
            process = subprocess.Popen(
                [sys.executable, "-m", "muster_scheduler"], env=env, stdout=output, stderr=subprocess.STDOUT
            )
        made = Scheduler(name, process, log)
        self.schedulers.append(made)
        return made

    async def says(self, scheduler: Scheduler, what: str) -> None:
        """Wait until its log has a text."""
        deadline = time.monotonic() + _PATIENCE
        while not scheduler.said(what):
            if scheduler.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{scheduler.name} did not say {what!r}; its log is {scheduler.log}")
            await asyncio.sleep(0.05)

    async def ends_leading(self, scheduler: Scheduler) -> None:
        """Wait until one that was stopped has stepped down, or was ended by its watchdog."""
        deadline = time.monotonic() + _PATIENCE
        while not scheduler.said("stepped down") and scheduler.process.poll() is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{scheduler.name} leads on; its log is {scheduler.log}")
            await asyncio.sleep(0.05)

    async def decided(self, since: float) -> float:
        """Seconds from `since` until something is decided about a workload that is admitted from now on."""
        assert self.others is not None
        asked: list[str] = []
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            number = len(asked)
            pools = [self.size.pool(0)]
            asked.append(await self.others.admit(f"probe-{number}", project="project-0", node_pools=pools))
            await asyncio.sleep(_PROBE_SECONDS)
            if any(self.others.decisions.get(workload) for workload in asked):
                return round(time.time() - since, 2)
        raise RuntimeError("nothing was decided")

    def end(self) -> None:
        """End what runs."""
        for scheduler in self.schedulers:
            with suppress(ProcessLookupError):
                scheduler.process.send_signal(signal.SIGCONT)
                scheduler.process.kill()
            scheduler.process.wait()


async def measure(size: Size, history: int) -> dict[str, object]:
    """Everything, for one size."""
    with (
        tempfile.TemporaryDirectory(prefix="muster-takeover-") as folder,
        EmbeddedPostgres(durable=False) as postgres,
        EmbeddedKafka() as broker,
    ):
        url = postgres.server.url(ADMIN, DATABASE)
        running = await _write_state(url, size)
        await _write_history(broker.bootstrap, size, running, history)
        _say(f"{len(running)} running replicas, {size.queued} waiting workloads and {history} records are written")
        bench = Bench(url, broker.bootstrap, Path(folder), size)
        result: dict[str, object] = {"replicas": len(running), "agent_start_s": await _agent_start(bench)}
        try:
            async with _neighbours(bench):
                result |= await _takeovers(bench, len(running))
        finally:
            bench.end()
            _say("\n".join(f"{each.name}: {line}" for each in bench.schedulers for line in each.last(12)))
        result["epochs"] = await _epochs(url)
        stopped = 1  # the second one, which has to step down or to end
        result["lease_lost"] = sum(
            each.said("stepped down") for number, each in enumerate(bench.schedulers) if number != stopped
        )
    return result


async def _takeovers(bench: Bench, running: int) -> dict[str, object]:
    ends = await _ends(bench)
    began, first = time.time(), bench.start()
    cold = await bench.decided(began)
    _say(f"cold start: {cold} s")
    republished = await _republished(bench, ends, running, began)
    _say(f"every record is published again after {republished} s")
    second = bench.start()
    await bench.says(second, "follows")
    standby = await bench.decided(first.signal(signal.SIGKILL))
    _say(f"killed: {standby} s")
    third = bench.start()
    await bench.says(third, "follows")
    frozen = await bench.decided(second.signal(signal.SIGSTOP))
    _say(f"stopped: {frozen} s")
    second.signal(signal.SIGCONT)
    await bench.ends_leading(second)
    return {"standby_s": standby, "frozen_s": frozen, "cold_s": cold, "republished_s": republished}


async def _republished(bench: Bench, ends: dict[TopicPartition, int], running: int, began: float) -> float:
    """Seconds since `began` until as many records are on the topics of the clusters as something runs."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        now = await _ends(bench)
        # A transaction of Kafka has a marker at its end, so that offsets say a little too much: all records are read.
        if sum(now.values()) - sum(ends.values()) >= running and await _records(bench, ends) >= running:
            return round(time.time() - began, 1)
        await asyncio.sleep(1)
    raise RuntimeError("the records were not published again")


async def _ends(bench: Bench) -> dict[TopicPartition, int]:
    async with _consumer(bench.bootstrap) as consumer:
        partitions = [TopicPartition(assignments(f"c{n}").name, 0) for n in range(bench.size.clusters)]
        found: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        return found


async def _records(bench: Bench, begins: dict[TopicPartition, int]) -> int:
    """How many workloads have a record of their cluster's topic behind these offsets."""
    keys: set[bytes] = set()
    async with _consumer(bench.bootstrap) as consumer:
        consumer.assign(list(begins))
        ends = await consumer.end_offsets(list(begins))
        for partition, offset in begins.items():
            consumer.seek(partition, offset)
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=500, max_records=_FLUSH)).values():
                keys.update(record.key or b"" for record in records)
    return len(keys)


async def _agent_start(bench: Bench) -> float:
    """Seconds in which an agent of one cluster knows what it has to hold."""
    backend, told, caught_up = FakeBackend(), Told(), asyncio.Event()
    agent = Agent(backend, told, "agent-c0", hold=True)

    async def keep(_: int) -> None:
        """An epoch is kept on the disk: once, here nowhere."""

    bus = SimpleNamespace(broker=Broker(bench.bootstrap), health=Health())
    loop = Assignments(cast("Any", bus), "c0", agent, backend, told, keep, verifier(), LOCAL)
    agent.caught_up = caught_up.set  # type: ignore[method-assign]
    began = time.monotonic()
    reading = asyncio.ensure_future(loop._follow(SimpleNamespace(reset=lambda: None)))  # type: ignore[arg-type]
    try:
        waiting = asyncio.ensure_future(caught_up.wait())
        await asyncio.wait({reading, waiting}, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not caught_up.is_set():
            raise RuntimeError("the agent did not read its topic to the end")
        seconds = round(time.monotonic() - began, 1)
        _say(
            f"an agent has read its topic after {seconds} s and holds {sum(1 for _ in agent.agenda.cases())} workloads"
        )
        return seconds
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _write_state(url: str, size: Size) -> list[tuple[Workload, Replica]]:
    connection = await asyncpg.connect(url, command_timeout=900)
    try:
        await migrate(connection, "scheduler", of_package("scheduler", "muster_scheduler"))
        await connection.execute("SET search_path TO scheduler")
        await scale_fleet.write(connection, size, _SPEC)
        await connection.execute("INSERT INTO lease_epoch VALUES ('leader', $1)", _EPOCH)
    finally:
        await connection.close()
    return list(scale_fleet.running(size))


async def _write_history(bootstrap: str, size: Size, running: Iterable[tuple[Workload, Replica]], wanted: int) -> None:
    """Records of all that runs, again and again until there are as many as wanted: what a leader has written so far."""
    clusters = [f"c{number}" for number in range(size.clusters)]
    topics = [*FIXED, *(make(cluster) for cluster in clusters for make in (assignments, reports))]
    await create_topics(Broker(bootstrap), topics, client="bench")
    records = []
    for workload, replica in running:
        assert workload.request is not None
        workload.request = workload.request._replace(spec=_SPEC)
        workload.replicas[replica.holder.role, replica.holder.rank] = replica
        message = encoding.assignment(workload, epoch=_EPOCH, instance=f"agent-{workload.cluster}", grace=_GRACE)
        topic, value = assignments(workload.cluster).name, message.SerializeToString()
        headers = signed(topic, workload.id, value, [("ce_source", b"scheduler")])
        records.append((topic, workload.id.encode(), value, headers))
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1, linger_ms=20, max_batch_size=1 << 20)
    await producer.start()
    try:
        for number in range(wanted):
            topic, key, value, headers = records[number % len(records)]
            await producer.send(topic, value, key, headers=headers)
            if number % _FLUSH == 0:
                await producer.flush()
        await producer.flush()
    finally:
        await producer.stop()


@asynccontextmanager
async def _neighbours(bench: Bench) -> AsyncIterator[None]:
    """What admits workloads and reads decisions, and agents that live."""
    producer = AIOKafkaProducer(bootstrap_servers=bench.bootstrap, acks="all")
    await producer.start()
    bench.others = Neighbours(producer, bench.bootstrap)
    tasks = [asyncio.ensure_future(_listen(bench)), asyncio.ensure_future(_beat(bench))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await producer.stop()


async def _listen(bench: Bench) -> None:
    """Keeps what is decided from now on."""
    assert bench.others is not None
    async with _consumer(bench.bootstrap) as consumer:
        counts = await kafka.partitions_of(Broker(bench.bootstrap), [DECISIONS.name], client="bench")
        consumer.assign([TopicPartition(DECISIONS.name, number) for number in range(counts[DECISIONS.name])])
        while True:
            for partition, records in (await consumer.getmany(timeout_ms=50)).items():
                for record in records:
                    bench.others._take(partition.topic, record)


async def _beat(bench: Bench) -> None:
    assert bench.others is not None
    while True:
        for number in range(bench.size.clusters):
            cluster = f"c{number}"
            await bench.others.heartbeat(cluster, instance=f"agent-{cluster}")
        await asyncio.sleep(_BEAT_SECONDS)


@asynccontextmanager
async def _consumer(bootstrap: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed")
    await consumer.start()
    try:
        yield consumer
    finally:
        await kafka.stop(consumer)


async def _epochs(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        found: int = await connection.fetchval("SELECT epoch FROM scheduler.lease_epoch WHERE name = 'leader'")
        return found - _EPOCH
    finally:
        await connection.close()


def main() -> int:
    """Runs it and prints the object."""
    given = _arguments()
    size = Size(given.gpus, given.queued, given.projects, halves=True)
    result: dict[str, object] = {"cores": os.cpu_count(), "gpus": given.gpus, "queued": given.queued}
    result |= {"records": given.records, **asyncio.run(measure(size, given.records))}
    if not given.json:
        print("\n".join(f"{name:16} {value}" for name, value in result.items()))
    print(json.dumps(result))
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--gpus", type=int, default=100_000)
    parser.add_argument("--queued", type=int, default=1_000_000)
    parser.add_argument("--projects", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=2_000_000, help="assignment records of the past")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
