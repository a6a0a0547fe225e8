"""Tables for people: a line a thing.

Called by the verbs that list things. Pure: now is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from muster.api.v1 import dead_letters_pb2, templates_pb2, usage_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_client.cli.printable import folded, one_line
from muster_client.cli.render.amounts import age, cores, memory, time_of
from muster_client.cli.render.grid import grid
from muster_client.phases import Phase
from muster_client.words import (
    TERMINAL,
    cluster_state_word,
    finding_word,
    kind_word,
    node_state_word,
    phase_of,
    phase_word,
)

_GOOD = frozenset({"ok", "Running", "Completed", "Ready", "READY", "SUCCEEDED"})
_BAD = frozenset({"error", "Failed", "Unknown", "FAILED", "LOST", "NotReady", "OutOfService", "unhealthy"})
_QUIET = frozenset({"Stopped", "Deleted", "Deleting", "GONE"})


# Reasons of what does not go on as it should, as kernel/reasons.py names them.
_TROUBLE = frozenset({"NodeLost", "Restart", "Preempted", "ClusterSilent", "ReplicasLost"})
_TROUBLES = 10


def coloured(word: str) -> Text:
    """A state in its colour: green is well, red needs somebody, dim is over, yellow is on its way."""
    if word in _GOOD:
        style = "green"
    elif word in _BAD:
        style = "red"
    else:
        style = "dim" if word in _QUIET else "yellow"
    return Text(word, style=style)


def workloads(items: Iterable[workload_pb2.Workload], now: datetime) -> Table:
    """One line a workload."""
    return grid(
        ["NAME", "PROJECT", "KIND", "PHASE", "PLACE", "READY", "AGE"],
        (
            [
                each.name,
                each.project,
                kind_word(each.spec.kind),
                coloured(phase_word(each.phase)),
                each.cluster or "-",
                ready(each),
                age(time_of(each.created_at), now),
            ]
            for each in items
        ),
        right=["READY", "AGE"],
    )


def troubles(items: Iterable[workload_pb2.Workload]) -> list[str]:
    """The reason of each workload that was interrupted or has lost replicas, which its phase alone does not show."""
    found = [each for each in items if each.reason.code in _TROUBLE and phase_of(each) not in TERMINAL]
    lines = [folded(f"{each.name}: {each.reason.message}") for each in found[:_TROUBLES]]
    more = len(found) - len(lines)
    return [*lines, f"and {more} more; `muster describe NAME` tells of each"] if more else lines


def ready(workload: workload_pb2.Workload) -> str:
    """How many replicas are ready, of how many, or trials done; - where none are known or none should be."""
    if workload.HasField("trials"):
        return f"{workload.trials.done}/{workload.trials.total} done"
    if not workload.replicas or phase_of(workload) in TERMINAL | {Phase.STOPPED}:
        return "-"
    good = sum(each.state in {"READY", "SUCCEEDED"} for each in workload.replicas)
    return f"{good}/{len(workload.replicas)}"


def templates(items: Iterable[templates_pb2.Template]) -> Table:
    """One line a template."""
    return grid(
        ["NAME", "PROJECT", "KIND", "VERSION"],
        ([each.name, each.project or "(all)", kind_word(each.spec.kind), str(each.version)] for each in items),
        right=["VERSION"],
    )


def findings(items: Iterable[fleet_pb2.Finding]) -> Table:
    """One line a finding of a check."""
    return grid(
        ["STATE", "WHAT", "FOUND"],
        ([coloured(finding_word(each.level)), each.subject, one_line(each.text)] for each in items),
    )


def clusters(items: Iterable[fleet_pb2.Cluster], now: datetime) -> Table:
    """One line a cluster."""
    return grid(
        ["CLUSTER", "STATE", "NODES", "GPUS", "FREE", "HEARD", "CONFINED", "VERSION", "AGENT"],
        (
            [
                each.id,
                coloured(cluster_state_word(each.state)),
                str(each.nodes),
                _cards(each),
                f"{each.free_devices:g}",
                age(time_of(each.heard_at), now),
                each.profile.confinement.partition(":")[0] or "-",
                each.agent_version or "-",
                each.agent_instance or "-",
            ]
            for each in items
        ),
        right=["NODES", "GPUS", "FREE", "HEARD"],
    )


def _cards(cluster: fleet_pb2.Cluster) -> str:
    """How many GPUs it has, those in MIG mode apart: they are given in slices alone."""
    whole, sliced = cluster.devices - cluster.mig_devices, cluster.mig_devices
    return f"{whole} + {sliced} MIG" if sliced else str(whole)


def nodes(items: Iterable[fleet_pb2.NodeView]) -> Table:
    """One line a node; how many more replicas it takes only where a node has a limit."""
    items = list(items)
    limited = any(each.HasField("most_replicas") for each in items)
    return grid(
        ["NODE", "CLUSTER", "POOL", "STATE", "CPU", "MEMORY", *(["REPLICAS"] * limited), "GPUS FREE", "HELD BY"],
        (
            [
                each.name,
                each.cluster,
                each.pool,
                "MIG layout" if each.HasField("layout") else coloured(node_state_word(each.state)),
                f"{cores(each.free_cpu_milli)}/{cores(each.cpu_milli)}",
                f"{memory(each.free_memory_bytes)}/{memory(each.memory_bytes)}",
                *([free_replicas(each) or "-"] * limited),
                free_gpus(each),
                ", ".join(sorted({name for device in each.devices for name in device.workloads})) or "-",
            ]
            for each in items
        ),
        right=["CPU", "MEMORY", "REPLICAS", "GPUS FREE"],
    )


def free_replicas(node: fleet_pb2.NodeView) -> str:
    """Return how many more replicas a node takes, of how many; empty if nothing limits them."""
    if not node.HasField("most_replicas"):
        return ""
    return f"{places(node)}/{node.most_replicas}"


def places(node: fleet_pb2.NodeView) -> int:
    """Return how many more replicas a node with a limit takes."""
    return max(0, node.most_replicas - node.replicas)


def free_gpus(node: fleet_pb2.NodeView) -> str:
    """How many GPUs are free, of how many; cards in MIG mode apart, by sevenths of their compute: they give slices."""
    cards = [device for device in node.devices if device.mode != "mig"]
    text = f"{sum(device.free_milli for device in cards) / 1000:g}/{len(cards)}"
    sliced = len(node.devices) - len(cards)
    free = sum(device.free_sevenths for device in node.devices)
    return f"{text} + MIG {free}/{7 * sliced}" if sliced else text


def usage(items: Sequence[usage_pb2.WorkloadUsage]) -> Table:
    """One line a workload, the sum of each project above its own."""
    sums: dict[str, float] = {}
    for each in items:
        sums[each.project] = sums.get(each.project, 0.0) + each.gpu_seconds
    rows: list[list[str | Text]] = []
    for project in sorted(sums, key=lambda name: (-sums[name], name)):
        rows.append([Text(project, style="bold"), "", *(Text(cell, style="bold") for cell in _spent(sums[project]))])
        rows += [["", each.name, *_spent(each.gpu_seconds)] for each in items if each.project == project]
    return grid(["PROJECT", "WORKLOAD", "GPU-SECONDS", "GPU-HOURS"], rows, right=["GPU-SECONDS", "GPU-HOURS"])


def _spent(gpu_seconds: float) -> list[str]:
    return [f"{gpu_seconds:,.1f}", f"{gpu_seconds / 3600:.3f}"]


def gaps(items: Iterable[dead_letters_pb2.Gap], now: datetime) -> Table:
    """A line a gap: who lacks which versions of what, and how many records wait for them."""
    return grid(
        ("SERVICE", "TOPIC", "AGGREGATE", "MISSING", "WAITING", "AGE"),
        (
            (
                each.service,
                each.topic.removeprefix("muster."),
                each.aggregate,
                str(each.first) if each.first == each.last else f"{each.first}-{each.last}",
                str(each.waiting),
                age(time_of(each.since), now),
            )
            for each in items
        ),
    )


def dead_letters(items: Iterable[dead_letters_pb2.DeadLetter], now: datetime) -> Group:
    """A line a dead letter, and below it the topic and the reason, broken where the terminal ends.

    An id has 36 characters and is copied whole: beside it the reason, which people look for, would have no room.
    """
    letters = list(items)
    wide = max(len("SERVICE"), *(len(each.service) for each in letters))
    ids = max(len("ID"), *(len(each.id) for each in letters))
    parts: list[RenderableType] = [
        Text(f"{'ID':{ids}}  {'SERVICE':{wide}}  {'TRIES':>5}  {'PARKED':>6}  {'AGE':>4}", style="bold")
    ]
    for each in letters:
        since = age(time_of(each.at), now)
        row = f"{each.id:{ids}}  {each.service:{wide}}  {each.attempts:>5}  {each.parked:>6}  {since:>4}"
        parts.append(Text(one_line(row)))
        parts.append(Padding(Text(one_line(f"{each.topic.removeprefix('muster.')}: {each.reason}")), (0, 0, 0, 2)))
    return Group(*parts)
