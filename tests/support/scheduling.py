"""A scheduler of a test on the real Kafka and PostgreSQL, and neighbours that speak to it as the other rooms do."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import SecretStr

from muster.events.v1 import agent_pb2, policy_pb2, scheduler_pb2, submission_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import identity, kafka
from muster_chassis.broker import Broker, Security
from muster_chassis.codec import encode_headers
from muster_chassis.runtime import Runtime
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import ADMISSIONS, DECISIONS, FIXED, SUBMISSIONS, TENANCY, assignments, reports
from muster_kernel.ids import uuid7
from muster_kernel.quantities import GPU
from muster_scheduler.app import compose
from muster_scheduler.settings import SchedulerSettings
from tests.support.identities import assignments_key, trust_file

GIB = 1 << 30


def settings(url: str, bootstrap: str, *, instance: str = "scheduler-0", **options: Any) -> SchedulerSettings:
    """Settings of one candidate, on free ports."""
    return SchedulerSettings(
        instance=instance,
        kafka_bootstrap=bootstrap,
        kafka_security=Security.PLAINTEXT,
        metrics_listen="127.0.0.1:0",
        database_url=SecretStr(url),
        database_schema="scheduler",
        grpc_listen=f"127.0.0.1:{free_port()}",
        trust_file=trust_file(),
        assignments_key_file=assignments_key(),
        shutdown_seconds=3.0,
        **options,
    )


class Candidate:
    """One scheduler process of a test, in this process."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Lives."""
        self._task = asyncio.ensure_future(self.runtime.live())

    async def stop(self) -> None:
        """Stops in order."""
        self.runtime.stopping.set()
        if self._task is not None and not self._task.done():
            await self._task

    async def kill(self) -> None:
        """Ends without any order, as far as one process can."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


@asynccontextmanager
async def scheduler(url: str, bootstrap: str, **options: Any) -> AsyncIterator[Candidate]:
    """A running candidate."""
    configured = settings(url, bootstrap, **options)
    runtime = Runtime(configured)
    await compose(runtime, configured)
    candidate = Candidate(runtime)
    await candidate.start()
    try:
        yield candidate
    finally:
        await candidate.stop()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Neighbours:
    """Submission, policy and agents, as far as the scheduler can tell."""

    def __init__(self, producer: AIOKafkaProducer, bootstrap: str) -> None:
        self._producer = producer
        self._bootstrap = bootstrap
        self._versions: dict[tuple[str, str], int] = {}
        self._sequence = 0
        self.decisions: dict[str, list[Message]] = {}
        self.records: dict[str, list[tuple[fleet_pb2.Assignment | None, dict[str, str]]]] = {}

    async def send(self, topic: str, aggregate: str, message: Message | None, *, versioned: bool = True) -> None:
        """One record, as the outbox of its owner would write it."""
        version = 0
        if versioned:
            version = self._versions[topic, aggregate] = self._versions.get((topic, aggregate), 0) + 1
        headers = encode_headers(
            event_id=identity.event_id(),
            event_type=message.DESCRIPTOR.full_name if message is not None else "muster.Tombstone",
            source="test",
            aggregate=aggregate,
            version=version,
            time=datetime.now(UTC),
            traceparent=None,
        )
        value = message.SerializeToString() if message is not None else None
        await self._producer.send_and_wait(topic, value, aggregate.encode(), headers=headers)

    async def project(self, name: str = "p", gpus: int = 100, version: int = 1) -> None:
        """A project with a quota in the default pool."""
        quota = tenancy_pb2.PoolQuota(node_pool="default", gpu_deserved=gpus * GPU, over_quota_weight_milli=1000)
        project = tenancy_pb2.Project(
            name=name, department="d", namespace=f"runai-{name}", quotas=[quota], version=version
        )
        await self.send(TENANCY.name, f"project/{name}", submission_pb2.ProjectChanged(project=project))

    async def department(self, name: str, limit: int | None) -> None:
        """A department with a limit of GPUs in the default pool; None: it is no more."""
        if limit is None:
            await self.send(TENANCY.name, f"department/{name}", None)
            return
        quota = tenancy_pb2.PoolQuota(node_pool="default", gpu_limit=limit * GPU, over_quota_weight_milli=1000)
        message = submission_pb2.DepartmentChanged(department=tenancy_pb2.Department(name=name, quotas=[quota]))
        await self.send(TENANCY.name, f"department/{name}", message)

    async def admit(self, name: str, *, devices: int = 1, project: str = "p", **options: Any) -> str:
        """Admits a training with whole GPUs; returns its id."""
        admitted = self.admission(name, devices=devices, project=project, **options)
        await self.send(ADMISSIONS.name, admitted.workload_id, admitted)
        return admitted.workload_id

    def admission(
        self, name: str, *, devices: int = 1, project: str = "p", **options: Any
    ) -> policy_pb2.WorkloadAdmitted:
        """What policy would say of a training with whole GPUs."""
        return policy_pb2.WorkloadAdmitted(
            workload_id=uuid7(int(datetime.now(UTC).timestamp() * 1000), os.urandom(10)),
            generation=1,
            effective_spec=workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, name=name, command="true"),
            requests=[
                workload_pb2.ResourceRequest(
                    role="worker",
                    count=1,
                    cpu_milli=100,
                    memory_bytes=GIB,
                    gpu_devices=devices,
                    gpu_charge=devices * GPU,
                )
            ],
            project=project,
            department="d",
            namespace=f"runai-{project}",
            name=name,
            submitted_at=_now(),
            **_defaults(options),
        )

    async def ask(self, kind: type[Message], workload: str) -> None:
        """Suspends, resumes or deletes."""
        await self.send(SUBMISSIONS.name, workload, kind(workload_id=workload))

    async def inventory(self, cluster: str, devices: int = 8, *, instance: str = "agent-1", start: int = 1) -> None:
        """A full inventory of one node."""
        node = fleet_pb2.Node(
            name="n1",
            state=fleet_pb2.NODE_STATE_READY,
            cpu_milli=640_000,
            memory_bytes=512 * GIB,
            pool="default",
            devices=[
                fleet_pb2.Device(
                    uuid=device(cluster, slot), model="A100-80GB", memory_bytes=80 * GIB, healthy=True, slot=slot
                )
                for slot in range(devices)
            ],
        )
        profile = fleet_pb2.ClusterProfile(
            backend="local", identity=fleet_pb2.DEVICE_IDENTITY_UUID, portions=True, memory_requests=True
        )
        order = self.order(cluster, instance, start)
        inventory = fleet_pb2.Inventory(full=True, sequence=order.sequence, profile=profile, nodes=[node])
        await self.report(cluster, cluster, agent_pb2.InventoryReported(order=order, inventory=inventory))

    async def heartbeat(self, cluster: str, *, instance: str = "agent-1", start: int = 1, dead_man: int = 0) -> None:
        """A sign of life. dead_man: the deadline that it tells, in seconds."""
        order = self.order(cluster, instance, start)
        await self.report(cluster, cluster, agent_pb2.Heartbeat(order=order, dead_man_seconds=dead_man))

    async def held(
        self, cluster: str, *held: agent_pb2.HeldAssignment, instance: str = "agent-1", start: int = 1
    ) -> None:
        """A snapshot."""
        order = self.order(cluster, instance, start)
        await self.report(cluster, cluster, agent_pb2.AssignmentsHeld(order=order, assignments=held))

    def order(self, cluster: str, instance: str = "agent-1", start: int = 1) -> agent_pb2.ReportOrder:
        """The next place in the order of reports."""
        self._sequence += 1
        return agent_pb2.ReportOrder(
            cluster=cluster, instance=instance, start=start, sequence=self._sequence, observed_at=_now()
        )

    async def report(self, cluster: str, aggregate: str, message: Message) -> None:
        """One report."""
        await self.send(reports(cluster).name, aggregate, message, versioned=False)

    async def status(
        self,
        cluster: str,
        record: fleet_pb2.Assignment,
        state: fleet_pb2.ReplicaState.ValueType,
        exit_code: int | None = None,
    ) -> None:
        """Says the same of every replica of a record."""
        revision = record.revisions[-1]
        for run in revision.runs:
            for index in range(run.first_index, run.first_index + run.count):
                status = fleet_pb2.ReplicaStatus(
                    role=run.role, index=index, k=run.k, node=run.node, state=state, exit_code=exit_code
                )
                message = agent_pb2.ReplicaStatusChanged(
                    order=self.order(cluster),
                    workload_id=record.workload_id,
                    generation=revision.generation,
                    attempt=revision.attempt,
                    status=status,
                )
                await self.report(cluster, record.workload_id, message)

    async def listen(self, cluster: str) -> None:
        """Reads decisions and records for ever, as submission and an agent do."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, enable_auto_commit=False, isolation_level="read_committed"
        )
        await consumer.start()
        try:
            names = [DECISIONS.name, assignments(cluster).name]
            counts = await kafka.partitions_of(Broker(self._bootstrap), names, client="listener")
            while len(counts) < len(names):
                counts = await kafka.partitions_of(Broker(self._bootstrap), names, client="listener")
            partitions = [TopicPartition(name, n) for name, count in counts.items() for n in range(count)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            while True:
                for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                    for record in records:
                        self._take(tp.topic, record)
        finally:
            await kafka.stop(consumer)

    def _take(self, topic: str, record: Any) -> None:
        headers = {name: raw.decode() for name, raw in record.headers}
        aggregate = record.key.decode()
        if topic == DECISIONS.name:
            kind = getattr(scheduler_pb2, headers["ce_type"].rpartition(".")[2])
            self.decisions.setdefault(aggregate, []).append(kind.FromString(record.value))
        elif "ce_id" in headers:  # whatever else stands there is a test's poison
            value = fleet_pb2.Assignment.FromString(record.value) if record.value is not None else None
            self.records.setdefault(aggregate, []).append((value, headers))

    def phases(self, workload: str) -> list[int]:
        """The phases that were announced."""
        return [d.to for d in self.decisions.get(workload, []) if isinstance(d, scheduler_pb2.PhaseChanged)]

    def last_record(self, workload: str) -> fleet_pb2.Assignment | None:
        """The last assignment, or None for a tombstone or nothing."""
        found = self.records.get(workload)
        return found[-1][0] if found else None

    def said(self, workload: str, kind: type[Message]) -> list[Any]:
        """Decisions of one type."""
        return [d for d in self.decisions.get(workload, []) if isinstance(d, kind)]


def _defaults(options: dict[str, Any]) -> dict[str, Any]:
    return {"preemptible": True, "priority": 50, "node_pools": ["default"]} | options


def device(cluster: str, slot: int) -> str:
    """The name of a device."""
    return f"GPU-00000000-0000-4000-8000-{hash_of(cluster):08x}{slot:04x}"


def hash_of(text: str) -> int:
    """A small stable number of a text."""
    number: int = sum(ord(letter) * (31**place) for place, letter in enumerate(text))
    return number % (1 << 32)


def _now() -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC))
    return stamp


@asynccontextmanager
async def neighbours(bootstrap: str, cluster: str) -> AsyncIterator[Neighbours]:
    """The other rooms, with their topics."""
    others = [topic for topic in FIXED if topic.owner != "scheduler"]
    await create_topics(Broker(bootstrap), others, client="neighbours")
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    made = Neighbours(producer, bootstrap)
    listening = asyncio.ensure_future(made.listen(cluster))
    try:
        yield made
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        await producer.stop()


Doing = Callable[[], Awaitable[None]]
