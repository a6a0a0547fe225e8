"""Triggers and their firings for people. Pure: now is an argument."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from google.protobuf.message import Message
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from muster.api.v1 import triggers_pb2 as api
from muster_client.cli.printable import one_line
from muster_client.cli.render.amounts import age, time_of
from muster_client.cli.render.grid import grid
from muster_client.cli.render.plain import plain

_WORDS: Final = {
    api.FIRING_OUTCOME_WAITING: "waiting",
    api.FIRING_OUTCOME_STARTED: "started",
    api.FIRING_OUTCOME_DROPPED: "dropped",
    api.FIRING_OUTCOME_EXPIRED: "expired",
    api.FIRING_OUTCOME_ERROR: "error",
}


def triggers(items: Iterable[api.Trigger]) -> Table:
    """One line a trigger."""
    return grid(
        ["NAME", "PROJECT", "TEMPLATE", "ENABLED", "FIRED", "EVENT TYPE"],
        ([each.name, each.project, each.template, _enabled(each), str(each.fired), each.event_type] for each in items),
        right=["FIRED"],
    )


def trigger(found: api.GetTriggerResponse) -> str:
    """All of one trigger, its rule as the API has it."""
    told = found.trigger
    lines = [
        f"trigger {told.name} in {told.project}, version {told.version}, {_standing(told)}",
        f"  fired {told.fired} times, {found.running} runs have not ended, {found.waiting} firings wait",
        f"  takes {told.event_type} from {', '.join(told.event_sources)}"
        + (f" about {told.event_subject}" if told.event_subject else "")
        + (f" where {told.condition}" if told.condition else ""),
        f"  starts {told.template}" + (f" as {told.run_as}" if told.run_as else ""),
    ]
    lines += [f"    {name} = {told.environment[name]}" for name in sorted(told.environment)]
    lines += [f"    argument {text}" for text in told.arguments]
    lines += [f"    {one.path} = {one.value}, one of {', '.join(one.allowed)}" for one in told.fields]
    lines += _limits(told)
    if told.switched_off_because:
        lines.append(f"  switched off: {told.switched_off_because}")
    return "\n".join(map(one_line, lines))


def firings(items: Iterable[api.Firing], now: datetime) -> Group:
    """A line a firing, and below it what fired and what became of it, broken where the terminal ends.

    An id has 36 characters and is copied whole, for a replay: beside it names and reasons would have no room.
    """
    parts: list[RenderableType] = [Text(f"{'ID':36}  {'AGE':>4}  {'NO':>4}  OUTCOME", style="bold")]
    for each in items:
        since = age(time_of(each.fired_at), now)
        parts.append(Text(one_line(f"{each.id:36}  {since:>4}  {each.number:>4}  {_WORDS.get(each.outcome, '?')}")))
        told = f"{each.trigger}: {each.source} {each.event_id}"
        told += f", workload {each.workload}" if each.workload else ""
        told += f", {each.why}" if each.why else ""
        parts.append(Padding(Text(one_line(told)), (0, 0, 0, 2)))
    return Group(*parts)


def fired(firing: api.Firing) -> str:
    """What came of one firing, as a sentence."""
    outcome = _WORDS.get(firing.outcome, "?")
    what = f"firing {firing.number} of trigger {firing.trigger} by {firing.source} {firing.event_id}: {outcome}"
    return one_line(f"{what} {firing.workload}".rstrip() + (f" ({firing.why})" if firing.why else ""))


def prospect(found: api.TestTriggerResponse) -> str:
    """What a trigger would do, with the run's own layer."""
    if not found.matches:
        return one_line(f"nothing: {found.why}")
    outcome = _WORDS.get(found.outcome, "?")
    first = f"{outcome}: {found.workload}" if found.workload else outcome
    lines = [first + (f" ({found.why})" if found.why else "")]
    if found.remembered:
        lines.append("but this event has fired the trigger before, within its window: nothing would happen")
    if found.HasField("spec"):
        lines += ["what the run says above its template:", *_members(found.spec)]
    return "\n".join(map(one_line, lines))


def _members(spec: Message) -> list[str]:
    """What is set, a line each: texts as they are, everything else as JSON."""
    told = plain(spec)
    return [f"  {field.json_name}: {_text(told[field.json_name])}" for field, _ in spec.ListFields()]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _limits(told: api.Trigger) -> list[str]:
    limits = [f"{told.max_running} at once"] if told.max_running else []
    if told.HasField("rate"):
        limits.append(f"{told.rate.runs} within {told.rate.per.ToSeconds()} s")
    if not limits:
        return []
    drops = told.excess.policy == api.TRIGGER_EXCESS_POLICY_DROP
    above = "is dropped" if drops else f"waits {told.excess.deadline.ToSeconds()} s, {told.excess.most} at most"
    return [f"  limits: {' and '.join(limits)}; what is above {above}"]


def _standing(told: api.Trigger) -> str:
    if told.switched_off_because:
        return "stopped after errors"
    return "enabled" if told.enabled else "disabled"


def _enabled(told: api.Trigger) -> str:
    return "stopped" if told.switched_off_because else "yes" if told.enabled else "no"
