"""Placements as events, one after another: those that differ only in who is placed on which node are one message.

Used by the way out (outgoing.py), which has each message in bytes before it asks for the next: a burst places
thousands of the same shape, and making a message costs four times what filling two of its fields does.
Holds: each message says what `encoding.placed` says of the same workload, byte for byte.
"""

from __future__ import annotations

from muster.events.v1 import scheduler_pb2
from muster_scheduler.adapters.encoding import placed
from muster_scheduler.domain.asked.workloads import Workload


class Placements:
    """Makes the event of each placement."""

    def __init__(self) -> None:
        """Begins without a message."""
        self._alike: tuple[object, ...] = ()
        self._message = scheduler_pb2.WorkloadPlaced()
        self._run = self._message.replicas.add()

    def event(self, workload: Workload, at: int) -> scheduler_pb2.WorkloadPlaced:
        """The event of a placement at `at`, in microseconds; good until the next one is asked for."""
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
