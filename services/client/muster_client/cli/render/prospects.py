"""What would become of workloads, as an answer to a person. Pure: now is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from muster.api.v1 import explain_pb2
from muster_client.cli.render.amounts import gpus
from muster_client.cli.render.why import blocked_text

_NODES: Final = 6
_LISTED: Final = 20
_GPU: Final = 7000


def prospect_text(told: explain_pb2.Prospect, issues: Sequence[str], now: datetime) -> str:
    """One workload. `issues`: what policy has against it, one a line, as the reader's document has it."""
    name = f"{told.name} in {told.project}"
    match told.outlook:
        case explain_pb2.OUTLOOK_STARTS:
            return f"{name} would start at once: {_place(told)}."
        case explain_pb2.OUTLOOK_STARTS_AFTER:
            return f"{name} would start once {_workloads(told.waits_for)} made room: {_place(told)}."
        case explain_pb2.OUTLOOK_REFUSED:
            return "\n".join([f"{name} would be refused by policy:", *(f"  {issue}" for issue in issues)])
        case _:
            return f"{name} would wait.\n{blocked_text(told.explanation, now)}"


def _place(told: explain_pb2.Prospect) -> str:
    shown = [_node(each) for each in told.nodes[:_NODES]]
    if len(told.nodes) > _NODES:
        shown.append(f"and {len(told.nodes) - _NODES} more nodes")
    on = f", on {', '.join(shown)}" if shown else ""
    return f"{_gpus(sum(each.gpu_charge for each in told.nodes))} in node pool {told.node_pool} of {told.cluster}{on}"


def _node(each: explain_pb2.ProspectNode) -> str:
    return each.node if each.replicas == 1 else f"{each.node} ({each.replicas} replicas)"


def _gpus(units: int) -> str:
    if not units:
        return "without a GPU"
    return f"{gpus(units)} GPU{'' if units <= _GPU else 's'}"


def _workloads(count: int) -> str:
    return "1 workload has" if count == 1 else f"{count} workloads have"


def displaced_text(answer: explain_pb2.WhatIfResponse) -> str:
    """Who would give a place up."""
    count = len(answer.displaced)
    # Of those whom the reader may not see, what they hold is not told, and so no sum.
    known = all(each.name for each in answer.displaced)
    total = f" ({_gpus(sum(each.gpu_charge for each in answer.displaced))})" if known else ""
    lines = [f"{_said(count, sum(1 for each in answer.displaced if each.replicas_given_up))}{total}:"]
    lines += [f"  {_victim(each, answer)}" for each in answer.displaced[:_LISTED]]
    if count > _LISTED:
        lines.append(f"  and {count - _LISTED} more")
    return "\n".join(lines)


def _said(count: int, parts: int) -> str:
    """How many give up what. parts: how many of them go on with fewer replicas."""
    who = "1 workload" if count == 1 else f"{count} workloads"
    if parts == count:
        return f"{who} would go on with fewer replicas"
    place = "its place" if count == 1 else "their places"
    return f"{who} would give {place}{' or part of them' if parts else ''} up"


def _victim(each: explain_pb2.Displaced, answer: explain_pb2.WhatIfResponse) -> str:
    who = f"{each.name} of {each.project}" if each.name else "a workload that you may not see"
    by = answer.prospects[each.by - 1].name if each.by else "another workload that waits"
    moves = ", and move" if each.moves else ""
    if each.replicas_given_up:
        return f"{who} gives up {each.replicas_given_up} of its {each.replicas} replicas{_worth(each)}, for {by}"
    much = f" ({_gpus(each.gpu_charge)})" if each.name else ""
    return f"{who}{much}, for {by}{moves}"


def _worth(each: explain_pb2.Displaced) -> str:
    return f" ({_gpus(each.gpu_charge)})" if each.gpu_charge else ""
