"""Inventories of any size as the scheduler reads them: the agent's own records, in parts, translated.

Used by what tests how the scheduler takes in parts: that a part is lost, comes twice or belongs to another snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from google.protobuf.message import Message

from muster_chassis.events import Event, Origin
from muster_chassis.topics import reports
from muster_cluster_agent.adapters.records import Records
from muster_cluster_agent.domain.fleet import Device, Difference, Fleet, Node, NodeState, Profile
from muster_cluster_agent.ports import InventoryReport, Report
from muster_scheduler import stream
from muster_scheduler.domain import events

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_PART = 380  # bytes of a record: room for the profile and one node, and not for two nodes


def translated(message: Message, cluster: str = "c1") -> Any:
    """What the scheduler makes of a record on the reports of a cluster. Raises Reject."""
    origin = Origin(reports(cluster).name, 0, 1, b"key", message.SerializeToString(), ())
    return stream.translate(Event("id", message.DESCRIPTOR.full_name, "source", cluster, 0, NOW, message, origin, None))


def reported_node(name: str, devices: int = 1) -> Node:
    """A node with some cards."""
    cards = tuple(Device(f"GPU-{name}-{slot}", "A100-80GB", 80 << 30, slot) for slot in range(devices))
    return Node(name, f"uid-{name}", "boot", NodeState.READY, 64_000, 1 << 40, devices=cards)


class Reporting:
    """One start of an agent whose every node is a part of its own."""

    def __init__(self, cluster: str = "c1", start: int = 1, instance: str = "") -> None:
        """Has reported nothing."""
        self._cluster = cluster
        self._records = Records(cluster, instance or f"agent-{cluster}", start, part=_PART)

    def records(self, report: Report) -> list[Any]:
        """The records of a report."""
        return cast("list[Any]", self._records.of(report))

    def messages(self, *names: str) -> list[Any]:
        """The records of the full inventory of these nodes."""
        return self.records(InventoryReport(Fleet(Profile("local"), tuple(map(reported_node, names)))))

    def full(self, *names: str) -> list[events.InventoryPartReported]:
        """The parts of the full inventory of these nodes."""
        return [translated(message, self._cluster) for message in self.messages(*names)]

    def delta(self, changed: Sequence[str] = (), removed: Sequence[str] = ()) -> events.InventoryReported:
        """A change of nodes."""
        difference = Difference(tuple(map(reported_node, changed)), tuple(removed))
        (record,) = self.records(InventoryReport(Fleet(Profile("local"), ()), difference))
        return cast("events.InventoryReported", translated(record, self._cluster))
