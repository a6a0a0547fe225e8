"""A trigger as a YAML file.

    name: on-new-data
    template: nightly
    eventType: com.example.dataset.ready
    environment:
      DATASET: uri
      SOURCE: ce:source

Called by `muster triggers apply`. Triggers are no workloads, so the language does not read them; the keys are the
API's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from muster.api.v1 import triggers_pb2
from muster_client.cli.failures import in_file
from muster_client.errors import InvalidInput, Violation

_TEXTS: Final = {
    "name": "name",
    "project": "project",
    "template": "template",
    "eventType": "event_type",
    "eventSource": "event_source",
    "eventSubject": "event_subject",
}
_KEYS: Final = (*_TEXTS, "environment", "windowSeconds", "enabled")
_NEEDED: Final = ("name", "template", "eventType")
_EXPECTED: Final[dict[str, tuple[type, str]]] = {
    "windowSeconds": (int, "a whole number of seconds"),
    "enabled": (bool, "true or false"),
}


def read_trigger(path: Path) -> triggers_pb2.Trigger:
    """The trigger of a file. Raises InvalidInput with everything that is wrong with it."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidInput(f"{path}: {problem.strerror or problem}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as problem:
        raise InvalidInput(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    if not isinstance(loaded, dict):
        raise InvalidInput(f"{path}: expected a mapping with {', '.join(_KEYS)}")
    trigger = triggers_pb2.Trigger(enabled=True)
    violations = [found for key, value in loaded.items() for found in _take(trigger, str(key), value)]
    violations += [Violation(key, "missing, and a trigger needs it") for key in _NEEDED if key not in loaded]
    if violations:
        raise in_file(InvalidInput, str(path), violations, done="no trigger was applied")
    return trigger


def _take(trigger: triggers_pb2.Trigger, key: str, value: Any) -> Iterator[Violation]:
    """Puts one key into the trigger; yields what is wrong with it instead."""
    if key == "environment":
        yield from _take_environment(trigger, value)
    elif key not in _KEYS:
        yield Violation(key, f"unknown key; there are {', '.join(_KEYS)}")
    else:
        kind, expected = _EXPECTED.get(key, (str, "a text"))
        if not _is_a(value, kind):
            yield Violation(key, f"{value!r} given, {expected} expected")
        elif key == "windowSeconds":
            yield from _take_window(trigger, value)
        else:
            setattr(trigger, _TEXTS.get(key, key), value)


def _take_environment(trigger: triggers_pb2.Trigger, value: Any) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield Violation("environment", f"{value!r} given, a mapping of variables to members of the event expected")
        return
    for name, member in value.items():
        if isinstance(member, str):
            trigger.environment[str(name)] = member
        else:
            yield Violation(f"environment.{name}", f"{member!r} given, a text expected")


def _take_window(trigger: triggers_pb2.Trigger, seconds: int) -> Iterator[Violation]:
    try:
        trigger.window.FromTimedelta(timedelta(seconds=seconds))
    except (OverflowError, ValueError):
        yield Violation("windowSeconds", f"{seconds} is more than a duration can hold")


def _is_a(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))
