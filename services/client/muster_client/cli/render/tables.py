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
from muster_client.cli.printable import one_line
from muster_client.cli.render.amounts import age, cores, memory, time_of
from muster_client.cli.render.grid import grid
from muster_client.phases import Phase
from muster_client.words import TERMINAL, cluster_state_word, kind_word, node_state_word, phase_of, phase_word

_GOOD = frozenset({"Running", "Completed", "Ready", "READY", "SUCCEEDED"})
_BAD = frozenset({"Failed", "Unknown", "FAILED", "LOST", "NotReady", "OutOfService", "unhealthy"})
_QUIET = frozenset({"Stopped", "Deleted", "Deleting", "GONE"})


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


def ready(workload: workload_pb2.Workload) -> str:
    """How many replicas are ready, of how many; - where none are known or none should be."""
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


def clusters(items: Iterable[fleet_pb2.Cluster], now: datetime) -> Table:
    """One line a cluster."""
    return grid(
        ["CLUSTER", "STATE", "NODES", "GPUS", "FREE", "HEARD", "CONFINED", "AGENT"],
        (
            [
                each.id,
                coloured(cluster_state_word(each.state)),
                str(each.nodes),
                str(each.devices),
                f"{each.free_devices:g}",
                age(time_of(each.heard_at), now),
                each.profile.confinement.partition(":")[0] or "-",
                each.agent_instance or "-",
            ]
            for each in items
        ),
        right=["NODES", "GPUS", "FREE", "HEARD"],
    )


def nodes(items: Iterable[fleet_pb2.NodeView]) -> Table:
    """One line a node."""
    return grid(
        ["NODE", "CLUSTER", "POOL", "STATE", "CPU", "MEMORY", "GPUS FREE", "HELD BY"],
        (
            [
                each.name,
                each.cluster,
                each.pool,
                coloured(node_state_word(each.state)),
                f"{cores(each.free_cpu_milli)}/{cores(each.cpu_milli)}",
                f"{memory(each.free_memory_bytes)}/{memory(each.memory_bytes)}",
                f"{sum(device.free_milli for device in each.devices) / 1000:g}/{len(each.devices)}",
                ", ".join(sorted({name for device in each.devices for name in device.workloads})) or "-",
            ]
            for each in items
        ),
        right=["CPU", "MEMORY", "GPUS FREE"],
    )


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
