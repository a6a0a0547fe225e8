"""Rules that turn events into runs: writing them, and firing them.

Firing is called by the stream with events that are CloudEvents. Holds: within the rule's window an event fires a rule
once, because the firing, the run's row and its WorkloadSubmitted are one commit; an event that some rule could not
take still fires the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta

from muster.api.v1 import triggers_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import metrics
from muster_chassis.events import Reject
from muster_chassis.unit import Unit
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.names import Given, run_name
from muster_submission.domain.problems import Problem
from muster_submission.domain.triggers import WINDOW, Lacks, Remembered, Rule, check, environment, fire
from muster_submission.errors import DraftRefused, NoSuchTemplate
from muster_submission.handlers.drafts import Checked, Drafts, Refusal
from muster_submission.handlers.submit import Submit
from muster_submission.ports import StoredRule, Triggers

EVENTS = metrics.counter(
    "muster_trigger_events_total",
    unit="events",
    meaning="CloudEvents by what came of them: fired, remembered (fired before), unmatched (no rule takes it), failed.",
    action="unmatched grows and should not: `muster triggers list` shows which types are taken; failed: dead letters.",
    labels=("outcome",),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that an event is about to start."""

    stored: StoredRule
    draft: Checked


class Rules:
    """Writes rules down."""

    def __init__(self, triggers: Triggers, drafts: Drafts) -> None:
        self._triggers = triggers
        self._drafts = drafts

    async def check(self, asked: api.Trigger) -> Rule:
        """The rule that somebody wants. Raises DraftRefused, NoSuchProject and NoSuchTemplate."""
        rule = _rule(asked)
        problems = check(rule)
        if problems:
            raise DraftRefused("the trigger", problems)
        project = await self._drafts.project(rule.project, "")
        if isinstance(project, Refusal):
            raise project.error()
        if isinstance(project, Problem):
            raise DraftRefused("the trigger", [project])
        if await self._drafts.base(rule.project, rule.template) is None:
            raise NoSuchTemplate(f"template {rule.template!r} exists neither in project {rule.project} nor globally")
        return rule

    async def save(self, unit: Unit, rule: Rule, owner: wl.Owner) -> StoredRule:
        """Makes the rule or changes the one of its name."""
        return await self._triggers.save(unit, rule, owner)


class Firing:
    """Starts runs. `apart`: opens a transaction of its own, for the rules that work where others do not."""

    def __init__(
        self,
        triggers: Triggers,
        drafts: Drafts,
        submit: Submit,
        apart: Callable[[], AbstractAsyncContextManager[Unit]],
    ) -> None:
        self._triggers = triggers
        self._drafts = drafts
        self._submit = submit
        self._apart = apart

    async def take(self, unit: Unit, events: Sequence[CloudEvent]) -> None:
        """Fires every rule that takes one of the events. Raises Reject where a rule cannot.

        The events then come one by one, and what the other rules do with that one is committed before it is rejected.
        """
        stored = await self._triggers.for_types(unit, {event.type for event in events})
        for event in events:
            matching = [one for one in stored if one.rule.takes(event)]
            if not matching:
                unit.after_commit(EVENTS.labels("unmatched").inc)
                continue
            plans, failures = await self._plan(matching, event)
            if failures and len(events) == 1:
                if plans:
                    async with self._apart() as other:
                        await self._fire_all(other, plans, event)
                EVENTS.labels("failed").inc()
            if failures:
                raise Reject("; ".join(failures))
            await self._fire_all(unit, plans, event)

    async def _plan(self, matching: Sequence[StoredRule], event: CloudEvent) -> tuple[list[Plan], list[str]]:
        plans, failures = list[Plan](), list[str]()
        for stored in matching:
            plan = await self._plan_one(stored, event)
            if isinstance(plan, str):
                failures.append(plan)
            else:
                plans.append(plan)
        return plans, failures

    async def _plan_one(self, stored: StoredRule, event: CloudEvent) -> Plan | str:
        rule = stored.rule
        taken = environment(rule, event)
        if isinstance(taken, Lacks):
            return taken.why
        project = await self._drafts.project(rule.project, "")
        if isinstance(project, Refusal | Problem):
            return f"trigger {rule.full_name}: {project.message}"
        base = await self._drafts.base(rule.project, rule.template)
        if base is None:
            return f"trigger {rule.full_name}: template {rule.template!r} does not exist any more"
        spec = _own_layer(base.spec, rule.template, taken)
        name = Given(rule.template)  # the firing's number, which the name depends on, is known only under the lock
        return Plan(stored, Checked(project, spec, name, wl.ORIGIN_TRIGGER, "", base))

    async def _fire_all(self, unit: Unit, plans: Sequence[Plan], event: CloudEvent) -> None:
        for plan in plans:
            await self._fire(unit, plan, event)

    async def _fire(self, unit: Unit, plan: Plan, event: CloudEvent) -> None:
        rule = plan.stored.rule
        firing = fire(await self._triggers.firing(unit, rule, event.source, event.id), unit.now, rule.window)
        if isinstance(firing, Remembered):
            unit.after_commit(EVENTS.labels("remembered").inc)
            return
        name = run_name(
            rule.template, trigger=rule.full_name, source=event.source, event_id=event.id, number=firing.number
        )
        plan.draft.spec.name = name
        owner = wl.Owner()
        owner.CopyFrom(plan.stored.owner)
        owner.trigger = rule.full_name
        (answer,) = await self._submit.make(
            unit, [replace(plan.draft, naming=Given(name))], owner, caused_by=f"{event.source} {event.id}"
        )
        if isinstance(answer, Refusal):
            raise Reject(f"trigger {rule.full_name}: {answer.message}")
        await self._triggers.remember(unit, rule, event.source, event.id, firing, answer.id)
        unit.after_commit(EVENTS.labels("fired").inc)


def _own_layer(template: wl.WorkloadSpec, name: str, taken: Mapping[str, str]) -> wl.WorkloadSpec:
    """The run's own layer: its kind, what it inherits from, and the values of the event."""
    spec = wl.WorkloadSpec(kind=template.kind, base_workload=name)
    for variable, value in taken.items():
        spec.environment.add(label=variable, value=value)
    return spec


def _rule(asked: api.Trigger) -> Rule:
    window = WINDOW
    if asked.HasField("window"):
        window = timedelta(seconds=asked.window.seconds, microseconds=asked.window.nanos // 1000)
    return Rule(
        project=asked.project,
        name=asked.name,
        template=asked.template,
        event_type=asked.event_type,
        event_source=asked.event_source,
        event_subject=asked.event_subject,
        variables=dict(asked.environment),
        window=window,
        enabled=asked.enabled,
    )
