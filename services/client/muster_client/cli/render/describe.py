"""One workload, told to a person: how it is and why, where it runs, on what, how to reach it, and its times.

Pure: now is an argument. A section that has nothing to say is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from muster.workload.v1 import workload_pb2
from muster_client.cli.printable import hanging, one_line
from muster_client.cli.render.amounts import age, clock, span, time_of
from muster_client.cli.render.grid import grid
from muster_client.cli.render.plain import word_of
from muster_client.cli.render.tables import coloured
from muster_client.phases import Phase
from muster_client.words import TERMINAL, kind_word, phase_of, phase_word
from muster_kernel.torchrun import Between, elastic_between

ENDED: Final = TERMINAL | {Phase.STOPPED, Phase.DELETED}
_NOT_PLACED: Final = ENDED | {Phase.PENDING, Phase.RESUMING}
_DOES: Final = {
    "BINDING": "waits to be bound to its node",
    "PULLING": "pulls its image",
    "MOUNTING": "mounts its volumes and gets its network",
    "INIT": "runs its init containers",
    "STARTING": "runs and is not ready yet",
}
_REASON_INDENT: Final = 6  # of a reason's later lines: more than any row has that follows them


def describe(workload: workload_pb2.Workload, now: datetime) -> Group:
    """Everything about it that a person asks first, in that order."""
    return Group(*_sections(workload, now))


def _sections(workload: workload_pb2.Workload, now: datetime) -> Iterator[Text | Table | Padding]:
    yield _headline(workload, now)
    yield Padding(_facts(workload), (1, 0, 0, 2))
    if workload.issues:
        yield from _section("Refused by policy", *(Text(one_line(each)) for each in workload.issues))
    if workload.replicas:
        yield from _section("Replicas", _replicas(workload, now))
    if workload.endpoints:
        yield from _section("Endpoints", *(Text(one_line(each)) for each in workload.endpoints))
    if workload.conditions:
        yield from _section("Conditions", _conditions(workload))
    if workload.attempts:
        yield from _section("Attempts", _attempts(workload, now))
    yield from _section("Times", _times(workload, now))


def _section(heading: str, *parts: Text | Table) -> Iterator[Text | Padding]:
    yield Text(f"\n{heading}", style="bold")
    for part in parts:
        yield Padding(part, (0, 0, 0, 2))


def _headline(workload: workload_pb2.Workload, now: datetime) -> Text:
    text = Text.assemble((one_line(workload.name), "bold"), " is ", coloured(phase_word(workload.phase)))
    if workload.reason.message:
        text.append(hanging(f": {workload.reason.message}", _REASON_INDENT))
    text.append(_slowest(workload, now))
    return text


def _slowest(workload: workload_pb2.Workload, now: datetime) -> str:
    """A line for a starting workload: how many replicas are ready, and which has been in its step for the longest."""
    starting = [each for each in workload.replicas if each.substate in _DOES]
    if phase_of(workload) is not Phase.INITIALIZING or not starting:
        return ""
    slowest = min(starting, key=lambda each: each.substate_since.ToMicroseconds())
    ready = sum(1 for each in workload.replicas if each.state == "READY")
    waited = age(time_of(slowest.substate_since), now)
    name, does = f"{slowest.role}-{slowest.index}", _DOES[slowest.substate]
    return f"\n{ready} of {len(workload.replicas)} ready; {name} {does} ({waited})"


def _facts(workload: workload_pb2.Workload) -> Table:
    facts = [
        ("Id", workload.id),
        ("Project", workload.project),
        ("Kind", kind_word(workload.spec.kind)),
        ("Asks for", asks(workload)),
        ("Has", _size(workload)),
        ("Trials", _trials(workload)),
        ("Ran in" if phase_of(workload) in _NOT_PLACED else "Runs in", _place(workload)),
        ("Wanted", _wanted(workload)),
        ("Owner", _owner(workload)),
        ("Spec", f"generation {workload.generation}, attempt {workload.attempt}"),
    ]
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts:
        if value:
            table.add_row(Text(name, style="dim"), Text(one_line(value)))
    return table


def asks(workload: workload_pb2.Workload) -> str:
    """What each of its replicas asks for, in the user's own numbers."""
    spec = workload.effective_spec if workload.HasField("effective_spec") else workload.spec
    parts = [_gpu(spec)]
    if spec.HasField("workers"):
        parts.insert(0, f"{_workers(spec)}, each")
    elif spec.HasField("min_scale") and spec.min_scale > 1:
        parts.insert(0, f"{spec.min_scale} replicas, each")
    parts += [f"{spec.cpu} CPU"] if spec.cpu else []
    parts += [f"{spec.memory} memory"] if spec.memory else []
    return ", ".join(part for part in parts if part).replace("each,", "each")


def _workers(spec: workload_pb2.WorkloadSpec) -> str:
    between = _between(spec)
    return f"{between.least} to {between.most} workers" if between else f"{spec.workers} workers"


def _between(spec: workload_pb2.WorkloadSpec) -> Between | None:
    if spec.topology_group:
        return None
    return elastic_between(spec.workers, spec.min_replicas, spec.max_replicas, spec.command, spec.args)


def _size(workload: workload_pb2.Workload) -> str:
    """How large an elastic gang is now."""
    between = _between(workload.effective_spec if workload.HasField("effective_spec") else workload.spec)
    now = sum(1 for each in workload.replicas if each.role == "worker" and each.state != "GONE")
    return f"{now} of {between.least}..{between.most} workers" if between and now else ""


def _trials(workload: workload_pb2.Workload) -> str:
    """How far a series of trials is."""
    told = workload.trials
    return f"{told.done} of {told.total} done, {told.at_once} at once" if workload.HasField("trials") else ""


def _gpu(spec: workload_pb2.WorkloadSpec) -> str:
    devices = spec.gpu_devices_request
    if spec.gpu_memory_request:
        return f"{spec.gpu_memory_request} of GPU memory" + (f" on {devices} devices" if devices > 1 else "")
    if spec.mig_profile:
        return f"a {spec.mig_profile} slice"
    if spec.HasField("gpu_portion_request") and spec.gpu_portion_request < 1:
        return f"{spec.gpu_portion_request:g} GPU" + (f" on {devices} devices" if devices > 1 else "")
    whole = devices or int(spec.gpu_portion_request)
    return f"{whole} GPU{'s' if whole > 1 else ''}" if whole else "no GPU"


def _place(workload: workload_pb2.Workload) -> str:
    if not workload.cluster:
        return ""
    return f"{workload.cluster}, node pool {workload.node_pool}" if workload.node_pool else workload.cluster


def _wanted(workload: workload_pb2.Workload) -> str:
    return str(word_of(workload_pb2.DesiredPhase.DESCRIPTOR, workload.desired))


def _owner(workload: workload_pb2.Workload) -> str:
    how = str(word_of(workload_pb2.Origin.DESCRIPTOR, workload.origin)).lower()
    text = workload.owner.subject + (f" by {how}" if how else "")
    if workload.owner.trigger:
        text += f", through trigger {workload.owner.trigger}"
    return text + (f", event {workload.caused_by}" if workload.caused_by else "")


def _replicas(workload: workload_pb2.Workload, now: datetime) -> Table:
    """Each replica; of one that starts, what it does and for how long."""
    return grid(
        ["REPLICA", "STATE", "SINCE", "NODE", "EXIT", "DEVICES"],
        (
            [
                f"{each.role}-{each.index}",
                Text.assemble(coloured(each.state), f", {each.substate.lower()}" if each.substate else ""),
                age(time_of(each.substate_since) if each.HasField("substate_since") else None, now),
                each.node or "-",
                str(each.exit_code) if each.HasField("exit_code") else "-",
                ", ".join(each.devices) or each.message or "-",
            ]
            for each in workload.replicas
        ),
        right=["SINCE", "EXIT"],
    )


def _conditions(workload: workload_pb2.Workload) -> Table:
    return grid(
        ["CONDITION", "HOLDS", "WHY"],
        ([each.type, "yes" if each.status else "no", each.reason.message] for each in workload.conditions),
    )


def _attempts(workload: workload_pb2.Workload, now: datetime) -> Table:
    """Each start: when it began, how long it ran, and why it ended."""
    return grid(
        ["ATTEMPT", "PLACED", "RAN FOR", "CLUSTER", "ENDED"],
        ([str(each.number), _begun(each), _ran(each, now), each.cluster, _ended(each)] for each in workload.attempts),
        right=["ATTEMPT", "RAN FOR"],
    )


def _begun(attempt: workload_pb2.Attempt) -> str:
    return clock(time_of(attempt.placed_at)).removesuffix(" UTC")


def _ran(attempt: workload_pb2.Attempt, now: datetime) -> str:
    seconds = _seconds(attempt, now)
    return "-" if seconds is None else span(seconds)


def _seconds(attempt: workload_pb2.Attempt, now: datetime) -> float | None:
    """For how long it ran; None: it never did."""
    begun = time_of(attempt.running_at)
    return None if begun is None else ((time_of(attempt.ended_at) or now) - begun).total_seconds()


def _ended(attempt: workload_pb2.Attempt) -> str:
    ended = time_of(attempt.ended_at)
    return "-" if ended is None else f"{ended:%H:%M:%S}: {attempt.cause.message}"


def _times(workload: workload_pb2.Workload, now: datetime) -> Table:
    created, started = time_of(workload.created_at), time_of(workload.started_at)
    finished = time_of(workload.finished_at)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name, moment in (("Submitted", created), ("Started", started), ("Ended", finished)):
        if moment is not None:
            table.add_row(Text(name, style="dim"), clock(moment), f"{span((now - moment).total_seconds())} ago")
    ran = [seconds for each in workload.attempts if (seconds := _seconds(each, now)) is not None]
    if started is not None and not workload.attempts:
        ran = [((finished or now) - started).total_seconds()]
    if ran:
        table.add_row(Text("Ran for", style="dim"), span(sum(ran)), "" if len(ran) == 1 else f"in {len(ran)} attempts")
    return table
