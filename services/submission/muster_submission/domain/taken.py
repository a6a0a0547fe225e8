"""What a run takes from an event: whole arguments, whole environment values, and listed values of other fields.

Called by the handlers of triggers with the texts that a rule's expressions gave. Holds: a text of an event is one
word of the command line and one value of a variable, whatever is in it; it never becomes a reference to a secret, and
a field that decides what runs, as whom or where takes only what the rule lists.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster_submission.domain.triggers import Rule

PROJECT: Final = "project"
"""The one choice that is no field of a workload."""
_VALUE_LIMIT: Final = 65536  # characters of one value
_SECRET: Final = "SECRET:"  # noqa: S105 - how the language writes a reference to a secret


@dataclass(frozen=True, slots=True)
class Lacks:
    """The event does not give what the rule takes from it; `why` is a sentence for people."""

    why: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What a run gets: `fields` by the name of the field, `project` empty where the event does not choose it."""

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    project: str = ""


def take(rule: Rule, texts: Mapping[str, str]) -> Taken | Lacks:
    """What the run gets of the texts of the rule's expressions."""
    for key, text in texts.items():
        refused = _unfit(text)
        if refused:
            return Lacks(f"{key}: {refused}")
    chosen = {one.path: texts[f"fields.{one.path}"] for one in rule.choices}
    for one in rule.choices:
        if chosen[one.path] not in one.allowed:
            listed = ", ".join(repr(text) for text in one.allowed[:10])
            return Lacks(f"fields.{one.path}: the event gives {chosen[one.path][:80]!r}; allowed are {listed}")
    return Taken(
        environment={name: texts[f"environment.{name}"] for name in rule.environment},
        arguments=tuple(texts[f"arguments.{at}"] for at in range(len(rule.arguments))),
        fields={path: text for path, text in chosen.items() if path != PROJECT},
        project=chosen.get(PROJECT, ""),
    )


def appended(written: str, arguments: tuple[str, ...]) -> str:
    """A template's arguments with an event's behind them, each quoted so that it stays one word as it is.

    Agents split the text as a shell does and then replace `$(NAME)` and `$$`: quoting undoes the first, a doubled `$`
    the second. Raises ValueError where the template's own text cannot be split, since no quoting would hold behind it.
    """
    if not arguments:
        return written
    shlex.split(written)
    return " ".join([*([written] if written else []), *(shlex.quote(text.replace("$", "$$")) for text in arguments)])


def _unfit(value: str) -> str:
    if len(value) > _VALUE_LIMIT:
        return f"the value has {len(value)} characters; at most {_VALUE_LIMIT} are allowed"
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        return "the value has a character that neither an argument nor an environment variable can hold"
    if value.startswith(_SECRET):
        return f"the value begins with {_SECRET}, and an event may not reach for a secret"
    return ""
