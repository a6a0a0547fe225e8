"""An agent as a process, and the bus beside it: what a scheduler would write, and what the agent answers.

Used by the agent's integration tests. Everything lives in a folder of the test's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from google.protobuf.message import Message

from muster.events.v1 import agent_pb2, dead_letter_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import kafka, topics
from muster_chassis.broker import Broker
from muster_chassis.topic_admin import create_topics
from muster_cluster_agent.adapters.local.workdirs import digest_of
from muster_cluster_agent.end import end
from muster_kernel.ids import uuid7
from muster_kernel.reasons import ChangeReason
from tests.support.forked_agents import ForkedAgent
from tests.support.identities import signed, trust_file

CLUSTER = "local-t"
CLUSTER_FILE = f"""
cluster: {CLUSTER}
nodes:
  - {{name: n-0, cpu: 8, memory: 16Gi, devices: {{count: 4, model: A100-40GB, memory: 40Gi}}}}
  - {{name: n-1, cpu: 8, memory: 16Gi, devices: {{count: 4, model: A100-40GB, memory: 40Gi}}}}
"""
REPORTED = {
    cls.DESCRIPTOR.full_name: cls
    for cls in (
        agent_pb2.InventoryReported,
        agent_pb2.InventoryPartReported,
        agent_pb2.ReplicaStatusChanged,
        agent_pb2.AssignmentsHeld,
        agent_pb2.AssignmentRefused,
        agent_pb2.LayoutChanged,
        agent_pb2.LayoutFailed,
        agent_pb2.Heartbeat,
        agent_pb2.UsageSampled,
        dead_letter_pb2.DeadLettered,
    )
}


# What ends an agent's replicas knows them by name, wherever they were started: two processes of the suite that gave the
# same ids ended each other's.
_OF_THIS_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) << 40


def workload_id(number: int) -> str:
    """An id; the same number gives the same, in each process of the suite another one."""
    return uuid7(1_700_000_000_000 + number, (_OF_THIS_PROCESS + number).to_bytes(10, "big"))


def free_port() -> int:
    """A port on loopback on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class AgentProcess:
    """`python -m muster_cluster_agent` with a folder of its own. forked: see forked_agents.py."""

    root: Path
    bootstrap: str
    submission: str = "127.0.0.1:9"
    hold: bool = False
    process: subprocess.Popen[bytes] | ForkedAgent | None = None
    environment: dict[str, str] = field(default_factory=dict)
    forked: bool = False

    @property
    def state(self) -> Path:
        """Its state folder: not below the root, which its replicas may read."""
        return self.root.with_name(f"{self.root.name}-state")

    def kept(self, number: int) -> Path:
        """The folder in which workload `number` may write: $MUSTER_WORKLOAD_DIR for its replicas."""
        return self.state / "work" / digest_of(workload_id(number)) / "keep"

    @property
    def file(self) -> Path:
        """Its cluster file."""
        return self.root / "cluster.yaml"

    def start(self, cluster_file: str = CLUSTER_FILE) -> None:
        """Starts it; the cluster file is written where there is none."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o755)  # programs of tests lie here, and replicas of root are other users
        if not self.file.exists():
            self.file.write_text(f"{cluster_file}\nroots: [{{path: {self.root}}}]\n")
        settings = {
            "MUSTER_INSTANCE": "agent-t",
            "MUSTER_KAFKA_BOOTSTRAP": self.bootstrap,
            "MUSTER_KAFKA_SECURITY": "plaintext",
            "MUSTER_METRICS_LISTEN": f"127.0.0.1:{free_port()}",
            "MUSTER_CLUSTER_FILE": str(self.file),
            "MUSTER_STATE_DIR": str(self.state),
            "MUSTER_SUBMISSION_ADDRESS": self.submission,
            "MUSTER_TRUST_FILE": str(trust_file()),
            "MUSTER_HOLD": str(self.hold).lower(),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        environment = {**kept, **settings, **self.environment}
        log = self.root / "agent.log"
        log.touch()
        if self.forked:
            self.process = ForkedAgent(environment, log)
            return
        with log.open("ab") as output:
            command = [sys.executable, "-m", "muster_cluster_agent"]
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and then every replica is ended."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=15)
            if self.process.poll() is None:
                self.kill()
        if self.state.exists():
            assert end(self.state) == 0

    def log(self) -> str:
        """What it has logged."""
        return (self.root / "agent.log").read_text()


@dataclass
class Scheduler:
    """The other side of the bus: writes assignments and tombstones, reads reports."""

    producer: AIOKafkaProducer
    consumer: AIOKafkaConsumer
    cluster: str = CLUSTER
    instance: str = ""
    epoch: int = 1
    seen: list[Message] = field(default_factory=list)

    async def assign(self, assignment: fleet_pb2.Assignment) -> None:
        """Writes the desired state of one workload."""
        assignment.epoch = assignment.epoch or self.epoch
        await self.write(assignment.workload_id, assignment.SerializeToString())

    async def release(
        self,
        workload: str,
        generation: int = 1,
        attempt: int = 0,
        grace: float = 1,
        reason: str = ChangeReason.SUSPENDED.value,
    ) -> None:
        """Writes a tombstone."""
        headers = {"generation": generation, "attempt": attempt, "epoch": self.epoch, "grace": grace, "reason": reason}
        await self.write(workload, None, [(name, str(value).encode()) for name, value in headers.items()])

    async def write(
        self, key: str, value: bytes | None, headers: Sequence[tuple[str, bytes]] = (), *, signed_as: str | None = ""
    ) -> None:
        """Any record on the assignments topic. signed_as: for another key than its own; None: it is not signed."""
        topic = topics.assignments(self.cluster).name
        written = list(({"ce_source": b"scheduler"} | dict(headers)).items())
        whole = written if signed_as is None else signed(topic, signed_as or key, value, written)
        await self.producer.send_and_wait(topic, value, key=key.encode(), headers=whole)

    async def wait_for(self, wanted: Callable[[Any], object], *, within: float = 60.0) -> Any:
        """The first message, seen before or yet to come, that is wanted."""
        for message in self.seen:
            if wanted(message):
                return message
        async with asyncio.timeout(within):
            while True:
                found = None
                batches = await self.consumer.getmany(timeout_ms=200)
                for record in (record for batch in batches.values() for record in batch):
                    message = REPORTED[dict(record.headers)["ce_type"].decode()].FromString(record.value or b"")
                    self.seen.append(message)
                    if found is None and wanted(message):
                        found = message
                if found is not None:
                    return found

    async def state(self, workload: str, state: int, *, index: int | None = None, within: float = 60.0) -> Any:
        """The first report of a workload's replica in that state."""

        def wanted(message: Message) -> bool:
            return (
                isinstance(message, agent_pb2.ReplicaStatusChanged)
                and message.workload_id == workload
                and message.status.state == state
                and index in {None, message.status.index}
            )

        return await self.wait_for(wanted, within=within)

    def states(self, workload: str) -> list[str]:
        """The states reported so far, in order, without the prefix."""
        return [
            fleet_pb2.ReplicaState.Name(message.status.state).removeprefix("REPLICA_STATE_")
            for message in self.seen
            if isinstance(message, agent_pb2.ReplicaStatusChanged) and message.workload_id == workload
        ]

    def forget(self) -> None:
        """Only what comes from now on counts."""
        self.seen.clear()


@asynccontextmanager
async def scheduler(bootstrap: str) -> AsyncIterator[Scheduler]:
    """The topics of a cluster, and what writes and reads them."""
    async with connected(bootstrap, CLUSTER) as (producer, consumer):
        yield Scheduler(producer, consumer)


@asynccontextmanager
async def connected(bootstrap: str, cluster: str) -> AsyncIterator[tuple[AIOKafkaProducer, AIOKafkaConsumer]]:
    """A producer, and a consumer that reads all that agents of a cluster write, from the beginning."""
    written = [topics.reports(cluster), topics.SAMPLES, topics.DEAD_LETTERS]
    await create_topics(Broker(bootstrap), [topics.assignments(cluster), *written], client="test")
    producer = kafka.producer(Broker(bootstrap), client="test")
    consumer = kafka.consumer(Broker(bootstrap), client="test")
    await producer.start()
    await consumer.start()
    read = [TopicPartition(topic.name, p) for topic in written for p in range(topic.partitions)]
    consumer.assign(read)
    await consumer.seek_to_beginning(*read)
    try:
        yield producer, consumer
    finally:
        await consumer.stop()
        await producer.stop()


def training(
    number: int,
    command: str,
    *,
    attempt: int = 0,
    kind: int = options_pb2.KIND_TRAINING,
    runs: Sequence[fleet_pb2.ReplicaRun] = (),
    **spec: Any,
) -> fleet_pb2.Assignment:
    """An assignment of a workload that runs `command`; one worker on n-0 without devices unless told otherwise."""
    own = workload_pb2.WorkloadSpec(kind=options_pb2.Kind.ValueType(kind), command=command, **spec)
    placed = list(runs) or [fleet_pb2.ReplicaRun(role="worker", count=1, node="n-0")]
    return fleet_pb2.Assignment(
        workload_id=workload_id(number),
        project="p",
        name=f"w-{number}",
        grace_seconds=2,
        revisions=[fleet_pb2.Revision(generation=1, attempt=attempt, spec=own, runs=placed)],
    )
