"""Events of placements: consecutive placements that differ only in workload and node share one message object.

outgoing.py uses it, and serialises each message before it asks for the next. A burst places thousands of workloads of
the same shape, and creating a message costs four times as much as setting two of its fields.
Holds: each message equals the result of `encoding.placed` for the same workload, byte for byte.
"""

from __future__ import annotations

from muster.events.v1 import scheduler_pb2
from muster_scheduler.adapters.encoding import placed
from muster_scheduler.domain.asked.workloads import Workload


class Placements:
    """The placement events of one plan."""

    def __init__(self) -> None:
        """Start with an empty message."""
        self._alike: tuple[object, ...] = ()
        self._message = scheduler_pb2.WorkloadPlaced()
        self._run = self._message.replicas.add()

    def event(self, workload: Workload, at: int) -> scheduler_pb2.WorkloadPlaced:
        """Return the event of a placement at `at`, in microseconds. It is valid until the next call."""
        if len(workload.replicas) != 1:
            return placed(workload, at)
        (replica,) = workload.replicas.values()
        holder, devices = replica.holder, (replica.grant.shares, replica.grant.slots)
        spot = holder.role, holder.rank, holder.k
        alike = workload.cluster, workload.pool, workload.generation, workload.attempt, at, *spot, devices
        if alike != self._alike:
            self._alike, self._message = alike, placed(workload, at)
            self._run = self._message.replicas[0]
        else:
            self._message.workload_id, self._run.node = workload.id, replica.node[1]
        return self._message
