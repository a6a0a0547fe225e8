"""The records of a report: one where it fits, several where the agent tells of everything.

Used by the Kafka reporter. A full inventory or list of held assignments grows with the cluster, and Kafka refuses a
record beyond a limit, so both are cut by their encoded bytes.
Holds: records are numbered in the order in which they are made; none is larger than PART, except with one node, and
then not larger than LARGEST.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from google.protobuf.message import Message

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_chassis import logs, metrics
from muster_cluster_agent.adapters import encode
from muster_cluster_agent.domain.fleet import Difference, Fleet, NamespaceObjects, Node
from muster_cluster_agent.ports import DeadLetter, HeldReport, InventoryReport, Report, SampleReport
from muster_kernel.ids import uuid7

PART: Final = 512 << 10
"""Bytes at which a report is cut: topics take records of 2 MiB, and brokers by themselves of 1 MiB."""
LARGEST: Final = 1000 << 10
"""Bytes of the largest node that is reported."""
_HEADROOM: Final = 256  # bytes of a record beyond its content: its order, its place among the parts, its digest
_LOGGED: Final = 20
_SECOND: Final = 1_000_000_000  # nanoseconds

LEFT_OUT = metrics.counter(
    "muster_agent_reports_left_out_total",
    unit="reports",
    meaning="Reports, and nodes of inventories, that are too large for Kafka and were not sent.",
    action="The agent's log names them. A node: give it fewer labels; until then nothing is placed on it.",
    labels=("kind",),
)

_log = logs.get(__name__)


class Records:
    """Makes the records of one start of an agent.

    clock: nanoseconds since 1970. observed_at: of when the back end is known, in seconds since 1970. It stands still
    while the back end cannot be seen, and by that the scheduler knows.
    """

    def __init__(
        self,
        cluster: str,
        instance: str,
        start: int,
        *,
        clock: Callable[[], int] = time.time_ns,
        observed_at: Callable[[], float] | None = None,
        version: str = "",
        part: int = PART,
    ) -> None:
        """version: of the agent's software. `part`: bytes at which a report is cut."""
        self._version = version
        self._observed_at = observed_at
        self._cluster = cluster
        self._instance = instance
        self._start = start
        self._clock = clock
        self._part = part
        self._sequence = 0
        self._inventories = 0

    def of(self, report: Report) -> list[Message]:
        """The records of a report, in their order."""
        if isinstance(report, InventoryReport):
            changed = report.difference
            return self._full(report.fleet) if changed is None else list(self._deltas(changed))
        if isinstance(report, HeldReport):
            return self._held(report)
        unordered = isinstance(report, SampleReport | DeadLetter)
        made = encode.message(report, self._stamp() if unordered else self._order(), self.event_id())
        if isinstance(made, agent_pb2.Heartbeat):
            made.agent_version = self._version
        return [made]

    def event_id(self) -> str:
        """A new id."""
        return uuid7(self._clock() // 1_000_000, os.urandom(10))

    def _stamp(self) -> agent_pb2.ReportOrder:
        order = agent_pb2.ReportOrder(cluster=self._cluster, instance=self._instance, start=self._start)
        seen = self._clock() if self._observed_at is None else int(self._observed_at() * _SECOND)
        order.observed_at.FromNanoseconds(seen)
        return order

    def _order(self) -> agent_pb2.ReportOrder:
        self._sequence += 1
        order = self._stamp()
        order.sequence = self._sequence
        return order

    def _next_inventory(self) -> int:
        self._inventories += 1
        return self._inventories

    def _full(self, fleet: Fleet) -> list[Message]:
        """The whole inventory: as it is where it fits one record, else in parts."""
        sequence = self._next_inventory()
        profile = encode.profile(fleet.profile)
        head = fleet_pb2.Inventory(full=True, sequence=sequence, profile=profile).SerializeToString()
        contents = [b"".join(cut) for cut in _cut([head, *_encoded(fleet.nodes), *_objects(fleet.objects)], self._part)]
        if len(contents) == 1:
            inventory = fleet_pb2.Inventory.FromString(contents[0])
            return [agent_pb2.InventoryReported(order=self._order(), inventory=inventory)]
        digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).digest()
        return [
            agent_pb2.InventoryPartReported(
                order=self._order(), part=_place(sequence, number, contents), digest=digest, content=content
            )
            for number, content in enumerate(contents, 1)
        ]

    def _deltas(self, changed: Difference) -> Iterator[Message]:
        """What has changed: in as many deltas as it takes, each of which can be applied alone."""
        removed = [fleet_pb2.Inventory(removed_nodes=[name]).SerializeToString() for name in changed.removed]
        removed += [
            fleet_pb2.Inventory(removed_namespaces=[name]).SerializeToString() for name in changed.removed_namespaces
        ]
        for cut in _cut([*removed, *_encoded(changed.changed), *_objects(changed.objects)], self._part):
            delta = fleet_pb2.Inventory.FromString(b"".join(cut))
            delta.sequence = self._next_inventory()
            yield agent_pb2.InventoryReported(order=self._order(), inventory=delta)

    def _held(self, report: HeldReport) -> list[Message]:
        """Everything that is held; an assignment with too many replicas for a part is there more than once."""
        pieces = [piece for one in report.assignments for piece in self._split(encode.held(one))]
        parts = _cut(pieces, self._part) or [[]]
        snapshot = self._sequence + 1
        records = list[Message]()
        for number, cut in enumerate(parts, 1):
            record = agent_pb2.AssignmentsHeld.FromString(b"".join(cut))
            record.order.CopyFrom(self._order())
            record.highest_epoch = report.highest_epoch
            if len(parts) > 1:
                record.part.CopyFrom(_place(snapshot, number, parts))
            records.append(record)
        return records

    def _split(self, held: agent_pb2.HeldAssignment) -> list[bytes]:
        whole = agent_pb2.AssignmentsHeld(assignments=[held]).SerializeToString()
        if len(whole) <= self._part - _HEADROOM:
            return [whole]
        replicas = [agent_pb2.HeldAssignment(replicas=[one]).SerializeToString() for one in held.replicas]
        held.ClearField("replicas")
        head = held.SerializeToString()
        pieces = [agent_pb2.HeldAssignment.FromString(head + b"".join(cut)) for cut in _cut(replicas, self._part)]
        return [agent_pb2.AssignmentsHeld(assignments=[piece]).SerializeToString() for piece in pieces]


def _place(snapshot: int, number: int, parts: Sequence[object]) -> agent_pb2.SnapshotPart:
    return agent_pb2.SnapshotPart(snapshot=snapshot, number=number, count=len(parts))


def _encoded(nodes: Iterable[Node]) -> list[bytes]:
    """Inventories of one node each. One that no record can hold is named and left out, and the others are reported."""
    kept: list[bytes] = []
    large: list[tuple[str, int]] = []
    for node in nodes:
        encoded = fleet_pb2.Inventory(nodes=[encode.node(node)]).SerializeToString()
        if len(encoded) > LARGEST:
            large.append((node.name, len(encoded)))
        else:
            kept.append(encoded)
    LEFT_OUT.labels("node").inc(len(large))
    for name, size in large[:_LOGGED]:
        _log.error("a node is too large to be reported and was left out", node=name, bytes=size)
    return kept


def _objects(found: Iterable[NamespaceObjects]) -> list[bytes]:
    """Return one encoded inventory for each namespace with objects."""
    return [fleet_pb2.Inventory(objects=[encode.objects(each)]).SerializeToString() for each in found]


def _cut(encoded: Sequence[bytes], limit: int) -> list[list[bytes]]:
    """Neighbours together, as many as fit into a record each; one that alone is larger has a record of its own.

    Encoded messages that are joined are the encoding of the messages merged, so that nothing is encoded twice.
    """
    cuts: list[list[bytes]] = []
    left = 0
    for one in encoded:
        if not cuts or len(one) > left:
            cuts.append([])
            left = limit - _HEADROOM
        cuts[-1].append(one)
        left -= len(one)
    return cuts
