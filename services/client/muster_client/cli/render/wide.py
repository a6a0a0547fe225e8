"""Tables with everything that a list knows, for wide terminals, and one node told in full. Pure: now is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_client.cli.printable import one_line
from muster_client.cli.render.amounts import age, clock, cores, memory, time_of
from muster_client.cli.render.describe import asks
from muster_client.cli.render.grid import grid
from muster_client.cli.render.tables import coloured, places, ready
from muster_client.words import kind_word, node_state_word, phase_word


def workloads(items: Iterable[workload_pb2.Workload], now: datetime) -> Table:
    """One line a workload, with what it asks for, where it runs, whose it is, and its id."""
    return grid(
        ["NAME", "PROJECT", "KIND", "PHASE", "READY", "AGE", "ASKS FOR", "PLACE", "NODES", "OWNER", "ID"],
        (
            [
                each.name,
                each.project,
                kind_word(each.spec.kind),
                coloured(phase_word(each.phase)),
                ready(each),
                age(time_of(each.created_at), now),
                asks(each),
                f"{each.cluster}/{each.node_pool}" if each.cluster else "-",
                ", ".join(sorted({one.node for one in each.replicas if one.node})) or "-",
                each.owner.subject,
                each.id,
            ]
            for each in items
        ),
        right=["READY", "AGE"],
    )


def node(told: fleet_pb2.NodeView) -> Group:
    """Everything about a node: its state, what is free on it, its taints, and who holds its devices."""
    facts = [
        ("Cluster", told.cluster),
        ("Node pool", told.pool),
        ("State", node_state_word(told.state)),
        ("Ordered", f"{node_state_word(told.ordered)} by {told.ordered_by}" if told.ordered else ""),
        ("Empty by", clock(time_of(told.drain_deadline)) if told.HasField("drain_deadline") else ""),
        ("MIG layout", _layout(told)),
        ("CPU", f"{cores(told.free_cpu_milli)} of {cores(told.cpu_milli)} cores free"),
        ("Memory", f"{memory(told.free_memory_bytes)} of {memory(told.memory_bytes)} free"),
        ("Replicas", _replicas(told)),
        ("Taints", ", ".join(f"{each.key}={each.value}:{each.effect}" for each in told.taints)),
    ]
    parts: list[RenderableType] = [Text(one_line(told.name), style="bold")]
    parts += [Text(one_line(f"  {name:<11}{value}")) for name, value in facts if value]
    parts.append(Text("\nDevices", style="bold"))
    if not told.devices:
        return Group(*parts, Text("  none"))
    parts.append(Padding(_devices(told), (0, 0, 0, 2)))
    if any(device.slices for device in told.devices):
        parts.append(Text("\nSlices (those that are held in parentheses)", style="bold"))
        parts.append(Padding(_slices(told), (0, 0, 0, 2)))
    return Group(*parts)


def layout_words(change: fleet_pb2.LayoutChange) -> str:
    """What is known of a change of a node's MIG layout."""
    step = "the mig-manager is asked for it" if change.applying else "waits until nothing of Muster is left on the node"
    return f"changes to {change.config} ({step}), ordered by {change.by or 'an operator'}"


def _replicas(told: fleet_pb2.NodeView) -> str:
    if not told.HasField("most_replicas"):
        return ""
    return f"room for {places(told)} of {told.most_replicas}, by the limit of pods"


def _layout(told: fleet_pb2.NodeView) -> str:
    if told.HasField("layout"):
        return layout_words(told.layout)
    return f"the last change failed: {told.layout_failure}" if told.layout_failure else ""


def _devices(told: fleet_pb2.NodeView) -> Table:
    return grid(
        ["UUID", "MODEL", "MODE", "FREE", "HELD BY"],
        ([each.uuid, each.model, each.mode, _free(each), ", ".join(each.workloads) or "-"] for each in told.devices),
        right=["FREE"],
    )


def _slices(told: fleet_pb2.NodeView) -> Table:
    """The slices of each GPU in MIG mode, in a table of their own, since one line is too short for both."""
    return grid(
        ["UUID", "SLICES"],
        (
            [each.uuid, " ".join(f"({one.profile})" if one.held else one.profile for one in each.slices)]
            for each in told.devices
            if each.slices
        ),
    )


def _free(device: fleet_pb2.DeviceUse) -> str:
    return f"{device.free_sevenths}/7" if device.mode == "mig" else f"{device.free_milli / 1000:g}"
