"""One agent process on a real API server with thousands of nodes, and what a benchmark asks of it.

Used by tests/benchmarks/agent.py. Workloads are written to Kafka as a scheduler would, in one batch; what the agent
reports is read as it comes.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster_chassis import topics
from muster_cluster_agent.domain.kubernetes import marks
from muster_kernel.reasons import ChangeReason
from tests.support.agents import REPORTED, AgentProcess, connected, free_port, training, workload_id
from tests.support.fake_kubelet import binding, pinned_to
from tests.support.identities import signed
from tests.support.kubernetes import TOKEN, Cluster, session_with
from tests.support.waiting import eventually, until

CLUSTER: Final = "bench"
IMAGE: Final = "team/image:1"
PATIENCE: Final = 600.0  # seconds
CREATED: Final = fleet_pb2.REPLICA_STATE_CREATED
READY: Final = fleet_pb2.REPLICA_STATE_READY
_BINDERS: Final = 32  # at the same time
_LOOK_SECONDS: Final = 0.1  # between two questions to etcd
Record = tuple[bytes, bytes | None, list[tuple[str, bytes]]]
_CALLS: Final = re.compile(r"^muster_agent_kubernetes_calls_total\{.*\} (\S+)$", re.MULTILINE)


@dataclass
class Reports:
    """The reports of the agent.

    at: when the first report of a state was read, by the workload and the state; monotonic seconds. counts: reports by
    state. refusals: their messages.
    """

    consumer: AIOKafkaConsumer
    at: dict[tuple[str, int], float] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    refusals: list[str] = field(default_factory=list)

    async def read(self) -> None:
        """Reads for ever."""
        while True:
            batches = await self.consumer.getmany(timeout_ms=1000)
            read = time.monotonic()
            for record in (record for batch in batches.values() for record in batch):
                kind = REPORTED[dict(record.headers)["ce_type"].decode()]
                if kind is agent_pb2.ReplicaStatusChanged:
                    message = agent_pb2.ReplicaStatusChanged.FromString(record.value or b"")
                    self.counts[message.status.state] += 1
                    self.at.setdefault((message.workload_id, message.status.state), read)
                elif kind is agent_pb2.AssignmentRefused:
                    self.refusals.append(agent_pb2.AssignmentRefused.FromString(record.value or b"").reason.message)

    async def until(self, workloads: Sequence[str], state: int, *, within: float = PATIENCE) -> None:
        """Waits until a replica of each workload has been in a state. Raises TimeoutError."""

        async def missing() -> int:
            return sum((workload, state) not in self.at for workload in workloads)

        await eventually(missing, lambda left: left == 0, within=within, every=0.02)


@dataclass
class Bench:
    """The agent and both of its sides."""

    cluster: Cluster
    agent: AgentProcess
    producer: AIOKafkaProducer
    reports: Reports
    nodes: Sequence[str]
    metrics: str
    epoch: int = 1

    def assignments(self, numbers: Sequence[int], namespace: str, *, workers: int = 1) -> list[Record]:
        """Workloads with these numbers, ready to be written. workers: more than one makes each a torchrun gang."""
        return [self._assignment(number, namespace, workers) for number in numbers]

    def assignment(self, number: int, namespace: str, workers: int = 1) -> fleet_pb2.Assignment:
        """One workload on one node; workloads with successive numbers are on successive nodes."""
        node = self.nodes[number % len(self.nodes)]
        runs = [fleet_pb2.ReplicaRun(role="worker", count=workers, node=node, slots=[fleet_pb2.SlotCount(count=1)])]
        fields = {"kind": options_pb2.KIND_DISTRIBUTED, "workers": workers} if workers > 1 else {}
        made = training(number, "python train.py --epochs 10", image=IMAGE, runs=runs, **fields)
        made.namespace, made.epoch, made.grace_seconds = namespace, self.epoch, 5
        return made

    def _assignment(self, number: int, namespace: str, workers: int) -> Record:
        made = self.assignment(number, namespace, workers)
        return _record(made.workload_id, made.SerializeToString(), {})

    def releases(self, numbers: Sequence[int]) -> list[Record]:
        """The tombstones of workloads."""
        said = {"generation": 1, "attempt": 0, "epoch": self.epoch, "grace": 5, "reason": ChangeReason.DELETED.value}
        return [_record(workload_id(number), None, said) for number in numbers]

    async def write(self, records: Sequence[Record]) -> None:
        """Writes records in one batch, and waits until Kafka has them."""
        topic = topics.assignments(CLUSTER).name
        sent = [await self.producer.send(topic, value, key=key, headers=headers) for key, value, headers in records]
        await asyncio.gather(*sent)

    async def make(self, sizes: Mapping[int, int], namespace: str) -> float:
        """The seconds from the first record to the last pod of new workloads. sizes: their replicas, by number."""
        records = [
            each for number, size in sizes.items() for each in self.assignments([number], namespace, workers=size)
        ]
        already = self.cluster.count("pods", namespace)
        # Its reports are read anyway: until the last of them etcd is asked nothing, which would cost the measured time.
        told = self.reports.counts[CREATED] + sum(sizes.values())
        began = time.monotonic()
        await self.write(records)
        await until(lambda: self.reports.counts[CREATED] >= told, within=PATIENCE)
        return await self.until_pods(namespace, already + sum(sizes.values())) - began

    async def until_pods(self, namespace: str, count: int) -> float:
        """The monotonic time at which a namespace has so many pods."""
        deadline = time.monotonic() + PATIENCE
        while await asyncio.to_thread(self.cluster.count, "pods", namespace) != count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{namespace} has not {count} pods")
            await asyncio.sleep(_LOOK_SECONDS)
        return time.monotonic()

    async def bind(self, numbers: Sequence[int], namespace: str) -> None:
        """Binds the pods of workloads to the nodes to which they are pinned, as the cluster's scheduler does."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        listed = await asyncio.to_thread(self.cluster.http.get, path, params={"resourceVersion": "0"})
        wanted = {workload_id(number) for number in numbers}
        limit = asyncio.Semaphore(_BINDERS)
        async with session_with(TOKEN) as session:

            async def one(pod: Any) -> None:
                name = pod["metadata"]["name"]
                body = binding(name, pinned_to(pod["spec"]))
                async with limit, session.post(f"{self.cluster.url}{path}/{name}/binding", json=body) as answer:
                    answer.raise_for_status()

            pods = [pod for pod in listed.json()["items"] if pod["metadata"]["labels"][marks.WORKLOAD] in wanted]
            ready = self.reports.counts[READY] + len(pods)
            await asyncio.gather(*(one(pod) for pod in pods))
        await until(lambda: self.reports.counts[READY] >= ready, within=PATIENCE)

    def calls(self) -> float:
        """Calls of the API server that the agent has made."""
        return sum(float(value) for value in _CALLS.findall(httpx.get(self.metrics).text))

    def memory(self) -> dict[str, float]:
        """The agent's memory now and at its highest, MiB."""
        assert self.agent.process is not None
        text = Path(f"/proc/{self.agent.process.pid}/status").read_text()
        said = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", text, re.MULTILINE))
        return {"now": round(int(said["VmRSS"]) / 1024, 1), "highest": round(int(said["VmHWM"]) / 1024, 1)}


def _record(workload: str, value: bytes | None, said: dict[str, object]) -> Record:
    headers = [("ce_source", b"scheduler"), *((name, str(each).encode()) for name, each in said.items())]
    return workload.encode(), value, signed(topics.assignments(CLUSTER).name, workload, value, headers)


def cluster_file(rate: float | None) -> str:
    """The agent's cluster file. rate: calls a second; None: the default."""
    said: dict[str, object] = {"cluster": CLUSTER, "backend": "kubernetes", "kubeconfig": "kubeconfig"}
    if rate is not None:
        said["rate"] = {"calls": rate, "burst": rate}
    return yaml.safe_dump(said)


@asynccontextmanager
async def bench(
    found: Cluster, bootstrap: str, folder: Path, nodes: Sequence[str], rate: float
) -> AsyncIterator[Bench]:
    """An agent that was started a moment ago, until the block ends. rate: calls of the API server a second."""
    root = folder / "agent"
    root.mkdir()
    (root / "kubeconfig").write_text(found.kubeconfig())
    (root / "cluster.yaml").write_text(cluster_file(rate))
    port = free_port()
    async with connected(bootstrap, CLUSTER) as (producer, consumer):
        reports = Reports(consumer)
        reading = asyncio.create_task(reports.read())
        agent = AgentProcess(root, bootstrap, environment={"MUSTER_METRICS_LISTEN": f"127.0.0.1:{port}"})
        try:
            await asyncio.to_thread(agent.start)
            yield Bench(found, agent, producer, reports, nodes, f"http://127.0.0.1:{port}/metrics")
        finally:
            await asyncio.to_thread(agent.kill)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
