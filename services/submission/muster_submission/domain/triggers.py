"""A rule that turns events into runs: what it takes, what it asks of an event, and what is wrong with one.

Called with every event of muster.triggers and with every rule that somebody writes. Holds: a rule that `check` lets
through names its sources, its limits are within bounds, and fields beyond arguments and environment list their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from muster_kernel.ids import check_name
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.expressions import CONDITION, Schema
from muster_submission.domain.firings import Excess, Limits, Rate
from muster_submission.domain.problems import Problem

WINDOW: Final = timedelta(days=7)
LONGEST_WINDOW: Final = timedelta(days=90)
ANY: Final = "*"
_LONGEST_RATE: Final = timedelta(days=1)
_LONGEST_WAIT: Final = timedelta(days=7)
_MOST_RUNS: Final = 10_000
_MOST_VALUES: Final = 100  # environment variables, arguments, allowed values, sources: each
_TEXT_LIMIT: Final = 1024
_EXPRESSION_LIMIT: Final = 4096
_SCHEMA_LIMIT: Final = 256 << 10
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Choice:
    """A field that an event may choose, by the value of an expression, among those that the rule allows."""

    path: str
    value: str
    allowed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A trigger: which events start a run, of which template, in which project, with what from the event."""

    project: str
    name: str
    template: str
    event_type: str
    event_sources: tuple[str, ...] = (ANY,)
    event_subject: str = ""
    condition: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    window: timedelta = WINDOW
    limits: Limits = field(default_factory=Limits)
    run_as: str = ""
    schema: Schema | None = None
    enabled: bool = True

    @property
    def full_name(self) -> str:
        """The name that no other rule has."""
        return f"{self.project}/{self.name}"

    def takes(self, event: CloudEvent) -> bool:
        """Whether the rule wants this event, as far as its attributes say."""
        return (
            self.enabled
            and fits(self.event_type, event.type)
            and any(fits(pattern, event.source) for pattern in self.event_sources)
            and (not self.event_subject or fits(self.event_subject, event.subject))
        )

    def expressions(self) -> dict[str, str]:
        """Everything that the rule asks of an event in CEL, by where it stands in the rule."""
        asked = {CONDITION: self.condition} if self.condition else {}
        asked |= {f"environment.{name}": text for name, text in self.environment.items()}
        asked |= {f"arguments.{at}": text for at, text in enumerate(self.arguments)}
        return asked | {f"fields.{one.path}": one.value for one in self.choices}


def fits(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern says: exactly, or beginning with what stands before a last `*`."""
    return text.startswith(pattern[:-1]) if pattern.endswith(ANY) else text == pattern


def check(rule: Rule) -> list[Problem]:
    """Everything that is wrong with a rule that somebody wrote, but for its expressions, template and fields."""
    return [
        Problem(f"trigger.{path}", message)
        for path, message in (*_names(rule), *_patterns(rule), *_values(rule), *_choices(rule), *_limits(rule))
    ]


Found = Iterable[tuple[str, str]]


def _names(rule: Rule) -> Found:
    for path, name in (("name", rule.name), ("project", rule.project), ("template", rule.template)):
        try:
            check_name(name)
        except ValueError as error:
            yield path, str(error)
    if len(rule.run_as) > _TEXT_LIMIT or "\x00" in rule.run_as:
        yield "run_as", f"has {len(rule.run_as)} characters; at most {_TEXT_LIMIT}, none of them NUL"
    if rule.schema is not None and len(rule.schema.descriptor_set) > _SCHEMA_LIMIT:
        yield "data_schema", f"has {len(rule.schema.descriptor_set)} bytes; at most {_SCHEMA_LIMIT} are allowed"


def _patterns(rule: Rule) -> Found:
    if not rule.event_type:
        yield "event_type", "empty; a trigger names the CloudEvents type that it takes, or a prefix and '*'"
    if not rule.event_sources:
        yield "event_sources", "empty; a trigger names the sources that it trusts, and '*' where it takes all"
    if len(rule.event_sources) > _MOST_VALUES:
        yield "event_sources", f"{len(rule.event_sources)} sources; at most {_MOST_VALUES} are allowed"
    given = [("event_type", rule.event_type), ("event_subject", rule.event_subject)]
    given += [(f"event_sources.{at}", text) for at, text in enumerate(rule.event_sources[:_MOST_VALUES])]
    for path, text in given:
        if len(text) > _TEXT_LIMIT or "\x00" in text:
            yield path, f"has {len(text)} characters; at most {_TEXT_LIMIT}, none of them NUL"
        elif ANY in text[:-1]:
            yield path, f"{text[:80]!r} has a '*' that is not its end: a pattern is exact, or a prefix and one '*'"
        elif not text and path.startswith("event_sources"):
            yield path, "empty; no event has an empty source"


def _values(rule: Rule) -> Found:
    for path, count in (("environment", len(rule.environment)), ("arguments", len(rule.arguments))):
        if count > _MOST_VALUES:
            yield path, f"{count} values; at most {_MOST_VALUES} are allowed"
    for variable in sorted(rule.environment):
        if _VARIABLE.fullmatch(variable) is None or len(variable) > _TEXT_LIMIT:
            path = f"environment.{variable[:80]}"
            yield path, "no name of a variable: letters, digits and '_', not beginning with a digit"
    for key, text in rule.expressions().items():
        if not text or len(text) > _EXPRESSION_LIMIT or "\x00" in text:
            yield key, f"has {len(text)} characters; an expression has 1 to {_EXPRESSION_LIMIT}, none of them NUL"


def _choices(rule: Rule) -> Found:
    if len(rule.choices) > _MOST_VALUES:
        yield "fields", f"{len(rule.choices)} fields; at most {_MOST_VALUES} are allowed"
    seen = set[str]()
    for one in rule.choices[:_MOST_VALUES]:
        path = f"fields.{one.path[:80]}"
        if one.path in seen:
            yield path, "stands there twice"
        seen.add(one.path)
        if not 1 <= len(one.allowed) <= _MOST_VALUES:
            yield path, f"lists {len(one.allowed)} allowed values: an event may choose among 1 to {_MOST_VALUES}"
        elif any(not text or len(text) > _TEXT_LIMIT or "\x00" in text for text in one.allowed):
            yield path, f"has an allowed value that is empty, holds NUL, or is longer than {_TEXT_LIMIT} characters"


def _limits(rule: Rule) -> Found:
    limits = rule.limits
    yield from _within("window", rule.window, LONGEST_WINDOW)
    if limits.running > _MOST_RUNS:
        yield "max_running", f"{limits.running} is too many: 1 to {_MOST_RUNS}, or 0 for no limit"
    yield from _rate(limits.rate)
    yield from _excess(limits.excess)


def _rate(rate: Rate | None) -> Found:
    if rate is not None:
        if not 1 <= rate.runs <= _MOST_RUNS:
            yield "rate.runs", f"{rate.runs} is no number of starts: 1 to {_MOST_RUNS}"
        yield from _within("rate.per", rate.per, _LONGEST_RATE)


def _excess(excess: Excess) -> Found:
    if not 1 <= excess.most <= _MOST_RUNS:
        yield "excess.most", f"{excess.most} is no number of waiting firings: 1 to {_MOST_RUNS}"
    yield from _within("excess.deadline", excess.deadline, _LONGEST_WAIT)


def _within(path: str, given: timedelta, most: timedelta) -> Found:
    if not timedelta(seconds=1) <= given <= most:
        yield path, f"{given.total_seconds():g} s is outside 1 s to {most.total_seconds():g} s"
