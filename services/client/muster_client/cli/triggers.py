"""A trigger as a YAML file.

    name: on-new-data
    template: nightly
    eventType: com.example.dataset.ready
    environment:
      DATASET: data.uri
      SOURCE: ce:source

Called by `muster triggers apply`. Triggers are no workloads, so the language does not read them; the keys are the
API's own.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from muster.api.v1 import triggers_pb2
from muster_client.errors import InvalidInput

_TEXTS: Final = {
    "name": "name",
    "project": "project",
    "template": "template",
    "eventType": "event_type",
    "eventSource": "event_source",
    "eventSubject": "event_subject",
}
_KEYS: Final = (*_TEXTS, "environment", "windowSeconds", "enabled")


def read_trigger(path: Path) -> triggers_pb2.Trigger:
    """The trigger of a file. Raises InvalidInput for the first thing that is wrong with it."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidInput(f"{path}: {problem.strerror or problem}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as problem:
        raise InvalidInput(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    if not isinstance(loaded, dict):
        raise InvalidInput(f"{path}: expected a mapping with {', '.join(_KEYS)}")
    return _trigger(path, loaded)


def _trigger(path: Path, loaded: dict[str, Any]) -> triggers_pb2.Trigger:
    trigger = triggers_pb2.Trigger(enabled=True)
    for key, value in loaded.items():
        if key in _TEXTS:
            setattr(trigger, _TEXTS[key], _typed(path, key, value, str, "a text"))
        elif key == "environment":
            variables = _typed(path, key, value, dict, "a mapping of variables to members of the event")
            for name, member in variables.items():
                trigger.environment[str(name)] = _typed(path, f"{key}.{name}", member, str, "a text")
        elif key == "windowSeconds":
            seconds = _typed(path, key, value, int, "a whole number of seconds")
            trigger.window.FromTimedelta(timedelta(seconds=seconds))
        elif key == "enabled":
            trigger.enabled = _typed(path, key, value, bool, "true or false")
        else:
            raise InvalidInput(f"{path}: {key}: unknown key; there are {', '.join(_KEYS)}")
    return trigger


def _typed(path: Path, key: str, value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidInput(f"{path}: {key}: {value!r} given, {expected} expected")
    return value
