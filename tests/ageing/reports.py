"""The reports of the agent in the ageing tests: its inventory, its heartbeats, and very short runs.

driver.py hands the reports to a scheduler; live_agent.py sends them over Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zlib import crc32

from google.protobuf.message import Message

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2

CLUSTER: Final = "north"
NODES: Final = 20
INSTANCE: Final = "agent-north"
_GIB: Final = 1 << 30
_FAILING: Final = 100
"""One workload in this many fails."""


@dataclass(slots=True)
class Clock:
    """The current time of everything that the driver runs."""

    now: datetime

    def __call__(self) -> datetime:
        """Return the time, as `identity.now` does."""
        return self.now


class AgentReports:
    """The reports of one start of the agent, in order. Each report comes with the aggregate that it is about."""

    def __init__(self, clock: Clock, start: int) -> None:
        self._clock = clock
        self._start = start
        self._sequence = 0

    def run(self, record: fleet_pb2.Assignment) -> Iterator[tuple[str, Message]]:
        """Yield the reports of a short run: its replicas are ready, then ended, then gone."""
        failed = crc32(record.workload_id.encode()) % _FAILING == 0
        revision = record.revisions[-1]
        states = (
            (fleet_pb2.REPLICA_STATE_READY, None),
            (fleet_pb2.REPLICA_STATE_FAILED, 3) if failed else (fleet_pb2.REPLICA_STATE_SUCCEEDED, 0),
            (fleet_pb2.REPLICA_STATE_GONE, None),
        )
        for run in revision.runs:
            for index in range(run.first_index, run.first_index + run.count):
                for state, code in states:
                    status = fleet_pb2.ReplicaStatus(
                        role=run.role, index=index, k=run.k, node=run.node, state=state, exit_code=code
                    )
                    yield (
                        record.workload_id,
                        agent_pb2.ReplicaStatusChanged(
                            order=self._order(),
                            workload_id=record.workload_id,
                            generation=revision.generation,
                            attempt=revision.attempt,
                            status=status,
                        ),
                    )

    def heartbeat(self) -> tuple[str, Message]:
        """Return a heartbeat."""
        return CLUSTER, agent_pb2.Heartbeat(order=self._order())

    def inventory(self) -> tuple[str, Message]:
        """Return a full inventory."""
        nodes = [
            fleet_pb2.Node(
                name=f"n{number}",
                state=fleet_pb2.NODE_STATE_READY,
                cpu_milli=640_000,
                memory_bytes=512 * _GIB,
                pool="default",
                devices=[
                    fleet_pb2.Device(
                        uuid=f"GPU-00000000-0000-4000-8000-{number:08x}{slot:04x}",
                        model="A100-80GB",
                        memory_bytes=80 * _GIB,
                        healthy=True,
                        slot=slot,
                    )
                    for slot in range(8)
                ],
            )
            for number in range(NODES)
        ]
        profile = fleet_pb2.ClusterProfile(
            backend="local", identity=fleet_pb2.DEVICE_IDENTITY_UUID, portions=True, memory_requests=True
        )
        order = self._order()
        inventory = fleet_pb2.Inventory(full=True, sequence=order.sequence, profile=profile, nodes=nodes)
        return CLUSTER, agent_pb2.InventoryReported(order=order, inventory=inventory)

    def _order(self) -> agent_pb2.ReportOrder:
        self._sequence += 1
        order = agent_pb2.ReportOrder(cluster=CLUSTER, instance=INSTANCE, start=self._start, sequence=self._sequence)
        order.observed_at.FromDatetime(self._clock.now)
        return order
