"""A trigger as the API's message and as the domain's rule: how it is kept, and how it is shown.

Called by the books of triggers and by the rpc. Holds: a rule that came out of a message goes back into the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from google.protobuf.duration_pb2 import Duration

from muster.api.v1 import triggers_pb2 as api
from muster_submission.domain.expressions import Schema
from muster_submission.domain.firings import MOST_WAITING, WAIT, Excess, Limits, Rate
from muster_submission.domain.triggers import WINDOW, Choice, Rule
from muster_submission.trigger_ports import StoredFiring, StoredRule


def rule_of(asked: api.Trigger) -> Rule:
    """The rule that a message says, defaults put in."""
    return Rule(
        project=asked.project,
        name=asked.name,
        template=asked.template,
        event_type=asked.event_type,
        event_sources=tuple(asked.event_sources),
        event_subject=asked.event_subject,
        condition=asked.condition,
        environment=dict(asked.environment),
        arguments=tuple(asked.arguments),
        choices=tuple(Choice(one.path, one.value, tuple(one.allowed)) for one in asked.fields),
        window=_span(asked.window) if asked.HasField("window") else WINDOW,
        limits=_limits(asked),
        run_as=asked.run_as,
        schema=Schema(asked.data_schema.descriptor_set, asked.data_schema.message)
        if asked.HasField("data_schema")
        else None,
        enabled=asked.enabled,
    )


def message_of(rule: Rule) -> api.Trigger:
    """The message that says the rule."""
    limits = rule.limits
    message = api.Trigger(
        name=rule.name,
        project=rule.project,
        template=rule.template,
        event_type=rule.event_type,
        event_sources=rule.event_sources,
        event_subject=rule.event_subject,
        condition=rule.condition,
        environment=dict(rule.environment),
        arguments=rule.arguments,
        fields=[api.TriggerField(path=one.path, value=one.value, allowed=one.allowed) for one in rule.choices],
        run_as=rule.run_as,
        enabled=rule.enabled,
        max_running=limits.running,
    )
    message.window.FromTimedelta(rule.window)
    if limits.rate is not None:
        message.rate.runs = limits.rate.runs
        message.rate.per.FromTimedelta(limits.rate.per)
    policy = api.TRIGGER_EXCESS_POLICY_WAIT if limits.excess.waits else api.TRIGGER_EXCESS_POLICY_DROP
    message.excess.policy, message.excess.most = policy, limits.excess.most
    message.excess.deadline.FromTimedelta(limits.excess.deadline)
    if rule.schema is not None:
        message.data_schema.descriptor_set = rule.schema.descriptor_set
        message.data_schema.message = rule.schema.message
    return message


def shown(stored: StoredRule) -> api.Trigger:
    """A trigger as people see it."""
    message = message_of(stored.rule)
    message.fired, message.version, message.switched_off_because = stored.fired, stored.version, stored.stopped
    return message


def shown_firing(firing: StoredFiring) -> api.Firing:
    """A firing as people see it."""
    message = api.Firing(
        id=firing.id,
        project=firing.project,
        trigger=firing.trigger,
        source=firing.event.source,
        event_id=firing.event.id,
        number=firing.number,
        outcome=api.FiringOutcome.ValueType(int(firing.outcome)),
        why=firing.why,
        workload_id=firing.workload_id or "",
        workload=firing.name if firing.workload_id else "",
    )
    _put(message.fired_at.FromDatetime, firing.at)
    _put(message.started_at.FromDatetime, firing.started_at)
    _put(message.deadline.FromDatetime, firing.deadline)
    return message


def _limits(asked: api.Trigger) -> Limits:
    excess = asked.excess
    return Limits(
        running=asked.max_running,
        rate=Rate(asked.rate.runs, _span(asked.rate.per)) if asked.HasField("rate") else None,
        excess=Excess(
            waits=excess.policy != api.TRIGGER_EXCESS_POLICY_DROP,
            most=excess.most or MOST_WAITING,
            deadline=_span(excess.deadline) if excess.HasField("deadline") else WAIT,
        ),
    )


def _span(given: Duration) -> timedelta:
    """A duration, whatever its members are: what no calendar holds becomes the longest one, which is refused."""
    try:
        return timedelta(seconds=given.seconds, microseconds=given.nanos // 1000)
    except OverflowError:
        return timedelta.max if given.seconds > 0 else timedelta.min


def _put(into: Callable[[datetime], None], when: datetime | None) -> None:
    if when is not None:
        into(when)
