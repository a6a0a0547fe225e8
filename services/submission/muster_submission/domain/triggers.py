"""Which rules an event fires, and what the run takes from the event.

Called with every event of muster.triggers and with every rule that somebody writes. Holds: what comes from an event
enters a run only as one whole value of an environment variable that the rule names, and never as a reference to a
secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from muster_kernel.ids import check_name
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.problems import Problem

WINDOW: Final = timedelta(days=7)
LONGEST_WINDOW: Final = timedelta(days=90)
MOST_VARIABLES: Final = 100
_VALUE_LIMIT: Final = 65536  # characters of one environment value
_TEXT_LIMIT: Final = 1024
_ATTRIBUTE: Final = "ce:"
_SECRET: Final = "SECRET:"  # noqa: S105 - how the language writes a reference to a secret
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ATTRIBUTE_NAME: Final = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Rule:
    """A trigger: which events start a run, of which template, in which project. Empty source and subject take any."""

    project: str
    name: str
    template: str
    event_type: str
    event_source: str = ""
    event_subject: str = ""
    variables: Mapping[str, str] | None = None
    window: timedelta = WINDOW
    enabled: bool = True

    @property
    def full_name(self) -> str:
        """The name that no other rule has."""
        return f"{self.project}/{self.name}"

    def takes(self, event: CloudEvent) -> bool:
        """Whether the rule wants this event."""
        return (
            self.enabled
            and event.type == self.event_type
            and self.event_source in {"", event.source}
            and self.event_subject in {"", event.subject}
        )


@dataclass(frozen=True, slots=True)
class Lacks:
    """The event does not have what the rule takes from it; `why` is a sentence for people."""

    why: str


@dataclass(frozen=True, slots=True)
class Firing:
    """One firing as it is remembered: `number` grows when an event fires again after the window."""

    number: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Remembered:
    """The event has fired this rule within the window: nothing happens."""


def fire(before: Firing | None, now: datetime, window: timedelta) -> Firing | Remembered:
    """The firing of a rule by an event that fired it `before`, or not at all so far."""
    if before is not None and now < before.until:
        return Remembered()
    return Firing(number=1 if before is None else before.number + 1, until=now + window)


def environment(rule: Rule, event: CloudEvent) -> dict[str, str] | Lacks:
    """The run's environment variables, each one whole value of the event."""
    taken: dict[str, str] = {}
    for variable, origin in (rule.variables or {}).items():
        found = _attribute(event, origin) if origin.startswith(_ATTRIBUTE) else _member(event, origin)
        if isinstance(found, Lacks):
            return Lacks(f"trigger {rule.full_name} takes {variable} from {origin}: {found.why}")
        refused = _unfit(found)
        if refused:
            return Lacks(f"trigger {rule.full_name} takes {variable} from {origin}: {refused}")
        taken[variable] = found
    return taken


def _attribute(event: CloudEvent, origin: str) -> str | Lacks:
    name = origin.removeprefix(_ATTRIBUTE)
    found = event.attributes.get(name)
    return Lacks(f"the event has no attribute {name}") if found is None else found


def _member(event: CloudEvent, path: str) -> str | Lacks:
    try:
        here: Any = event.data.json()
    except ValueError as error:
        return Lacks(f"the event's data is no JSON: {error}")
    walked = "data"
    for step in path.split("."):
        if isinstance(here, dict) and step in here:
            here = here[step]
        elif isinstance(here, list) and step.isascii() and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        else:
            return Lacks(f"{walked} of the event has no member {step}")
        walked = f"{walked}.{step}"
    if here is None:
        return Lacks(f"{walked} of the event is null")
    return here if isinstance(here, str) else json.dumps(here, ensure_ascii=False, separators=(",", ":"))


def _unfit(value: str) -> str:
    if len(value) > _VALUE_LIMIT:
        return f"the value has {len(value)} characters; at most {_VALUE_LIMIT} are allowed"
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        return "the value has a character that no environment variable can hold"
    if value.startswith(_SECRET):
        return f"the value begins with {_SECRET}, and an event may not reach for a secret"
    return ""


def check(rule: Rule) -> list[Problem]:
    """Everything that is wrong with a rule that somebody wrote."""
    problems = [*_names(rule), *_texts(rule), *_variables(rule.variables or {})]
    if not timedelta(seconds=1) <= rule.window <= LONGEST_WINDOW:
        problems.append(
            Problem(
                "trigger.window", f"{rule.window.total_seconds():g} s is no window: 1 s to {LONGEST_WINDOW.days} days"
            )
        )
    return problems


def _names(rule: Rule) -> Iterable[Problem]:
    for path, name in (("name", rule.name), ("project", rule.project), ("template", rule.template)):
        try:
            check_name(name)
        except ValueError as error:
            yield Problem(f"trigger.{path}", str(error))


def _texts(rule: Rule) -> Iterable[Problem]:
    if not rule.event_type:
        yield Problem("trigger.event_type", "empty; a trigger names the CloudEvents type that it takes")
    given = {"event_type": rule.event_type, "event_source": rule.event_source, "event_subject": rule.event_subject}
    for path, text in given.items():
        if len(text) > _TEXT_LIMIT or "\x00" in text:
            yield Problem(f"trigger.{path}", f"has {len(text)} characters; at most {_TEXT_LIMIT}, none of them NUL")


def _variables(variables: Mapping[str, str]) -> Iterable[Problem]:
    if len(variables) > MOST_VARIABLES:
        yield Problem("trigger.environment", f"{len(variables)} variables; at most {MOST_VARIABLES} are allowed")
    for variable, origin in sorted(variables.items()):
        path = f"trigger.environment.{variable[:80]}"
        if _VARIABLE.fullmatch(variable) is None:
            yield Problem(path, "no name of a variable: letters, digits and '_', not beginning with a digit")
        if origin.startswith(_ATTRIBUTE):
            if _ATTRIBUTE_NAME.fullmatch(origin.removeprefix(_ATTRIBUTE)) is None:
                yield Problem(
                    path, f"{origin[:80]!r} is no attribute: ce: and lower-case letters or digits, as in ce:id"
                )
        elif not origin or "" in origin.split(".") or len(origin) > _TEXT_LIMIT or "\x00" in origin:
            yield Problem(path, f"{origin[:80]!r} is no path: members of the event's data with dots, as in model.name")
