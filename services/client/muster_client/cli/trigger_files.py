"""A trigger as a YAML file, and a sample event as a JSON file.

    name: on-new-data
    template: nightly
    eventType: com.example.dataset.ready
    eventSources: [/datasets]
    condition: data.rows > 1000
    environment:
      DATASET: data.uri
      SOURCE: event.source

Called by the verbs of `muster triggers`. Triggers are no workloads, so the language does not read them; the keys are
the API's own. Holds: everything that is wrong with a file is said at once.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from muster.api.v1 import triggers_pb2
from muster.events.v1 import cloudevent_pb2
from muster_client.cli.failures import in_file, not_yaml
from muster_client.errors import InvalidInput, Violation
from muster_kernel.numbers import bound_yaml

_Loader: Final = bound_yaml(yaml.SafeLoader)
_TEXTS: Final = {
    "name": "name",
    "project": "project",
    "template": "template",
    "eventType": "event_type",
    "eventSubject": "event_subject",
    "condition": "condition",
    "runAs": "run_as",
}
_NEEDED: Final = ("name", "template", "eventType", "eventSources")
_POLICIES: Final = {
    "wait": triggers_pb2.TRIGGER_EXCESS_POLICY_WAIT,
    "drop": triggers_pb2.TRIGGER_EXCESS_POLICY_DROP,
}
_LARGEST_NUMBER: Final = 2**32 - 1
_OWN: Final = {"id": "id", "source": "source", "type": "type", "specversion": "spec_version"}

Found = Iterator[Violation]
_Take = Callable[[triggers_pb2.Trigger, Any, Path], Found]


def read_trigger(path: Path) -> triggers_pb2.Trigger:
    """The trigger of a file. Raises InvalidInput with everything that is wrong with it."""
    loaded = _mapping(path, ", ".join(_KEYS))
    trigger = triggers_pb2.Trigger(enabled=True)
    violations = [found for key, value in loaded.items() for found in _one(trigger, str(key), value, path)]
    violations += [Violation(key, "missing, and a trigger needs it") for key in _NEEDED if key not in loaded]
    if violations:
        raise in_file(InvalidInput, str(path), violations, done="no trigger was applied")
    return trigger


def read_event(path: Path) -> cloudevent_pb2.CloudEvent:
    """The event of a file in CloudEvents' JSON form (YAML says the same). Raises InvalidInput."""
    loaded = _mapping(path, "id, source, type, and data as CloudEvents have them")
    event = cloudevent_pb2.CloudEvent(spec_version="1.0")
    content = str(loaded.get("datacontenttype", ""))
    violations = [found for key, value in loaded.items() for found in _event_member(event, str(key), value, content)]
    missing = [key for key in ("id", "source", "type") if key not in loaded]
    violations += [Violation(key, "missing, and an event needs it") for key in missing]
    if violations:
        raise in_file(InvalidInput, str(path), violations, done="nothing was tried")
    return event


def _mapping(path: Path, expected: str) -> Mapping[Any, Any]:
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except OSError as problem:
        raise InvalidInput(f"{path}: {problem.strerror or problem}") from None
    except yaml.MarkedYAMLError as problem:
        raise not_yaml(path, problem, done="nothing was done") from None
    except (UnicodeDecodeError, ValueError, yaml.YAMLError) as problem:
        raise InvalidInput(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    except RecursionError:
        raise InvalidInput(f"{path}: nested too deeply") from None
    if not isinstance(loaded, dict):
        raise InvalidInput(f"{path}: expected a mapping with {expected}")
    return loaded


def _one(trigger: triggers_pb2.Trigger, key: str, value: Any, path: Path) -> Found:
    """Puts one key into the trigger; yields what is wrong with it instead."""
    take = _KEYS.get(key)
    if take is None:
        yield Violation(key, f"unknown key; there are {', '.join(_KEYS)}")
    else:
        yield from take(trigger, value, path)


def _text(key: str) -> _Take:
    def take(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
        if isinstance(value, str):
            setattr(trigger, _TEXTS[key], value)
        else:
            yield Violation(key, f"{value!r} given, a text expected")

    return take


def _enabled(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    if isinstance(value, bool):
        trigger.enabled = value
    else:
        yield Violation("enabled", f"{value!r} given, true or false expected")


def _sources(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    yield from _texts("eventSources", [value] if isinstance(value, str) else value, trigger.event_sources.append)


def _arguments(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    yield from _texts("arguments", value, trigger.arguments.append)


def _environment(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    if not isinstance(value, dict):
        yield Violation("environment", f"{value!r} given, a mapping of variables to CEL expressions expected")
        return
    for name, expression in value.items():
        if isinstance(expression, str):
            trigger.environment[str(name)] = expression
        else:
            yield Violation(f"environment.{name}", f"{expression!r} given, a text expected")


def _fields(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    if not isinstance(value, list):
        yield Violation("fields", f"{value!r} given, a list of path, value and allowed expected")
        return
    for at, item in enumerate(value):
        where = f"fields[{at}]"
        members = yield from _members(where, item, ("path", "value", "allowed"))
        if members is None:
            continue
        field = trigger.fields.add()
        for name in ("path", "value"):
            if isinstance(members.get(name), str):
                setattr(field, name, members[name])
            else:
                yield Violation(f"{where}.{name}", f"{members.get(name)!r} given, a text expected")
        yield from _texts(f"{where}.allowed", members.get("allowed"), field.allowed.append)


def _window(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    yield from _seconds("windowSeconds", value, trigger.window.FromTimedelta)


def _max_running(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    yield from _number("maxRunning", value, lambda given: setattr(trigger, "max_running", given))


def _rate(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    members = yield from _members("rate", value, ("runs", "perSeconds"))
    if members is None:
        return
    yield from _number("rate.runs", members.get("runs"), lambda given: setattr(trigger.rate, "runs", given))
    yield from _seconds("rate.perSeconds", members.get("perSeconds"), trigger.rate.per.FromTimedelta)


def _excess(trigger: triggers_pb2.Trigger, value: Any, _: Path) -> Found:
    members = yield from _members("excess", value, ("policy", "most", "deadlineSeconds"))
    if members is None:
        return
    policy = members.get("policy", "wait")
    if isinstance(policy, str) and policy in _POLICIES:
        trigger.excess.policy = _POLICIES[policy]
    else:
        yield Violation("excess.policy", f"{policy!r} given, wait or drop expected")
    if "most" in members:
        yield from _number("excess.most", members["most"], lambda given: setattr(trigger.excess, "most", given))
    if "deadlineSeconds" in members:
        yield from _seconds("excess.deadlineSeconds", members["deadlineSeconds"], trigger.excess.deadline.FromTimedelta)


def _data_schema(trigger: triggers_pb2.Trigger, value: Any, path: Path) -> Found:
    members = yield from _members("dataSchema", value, ("descriptorSet", "message"))
    if members is None:
        return
    file, message = members.get("descriptorSet"), members.get("message")
    if isinstance(message, str):
        trigger.data_schema.message = message
    else:
        yield Violation("dataSchema.message", f"{message!r} given, the full name of a message expected")
    if not isinstance(file, str):
        yield Violation("dataSchema.descriptorSet", f"{file!r} given, a file beside this one expected")
        return
    try:
        trigger.data_schema.descriptor_set = (path.parent / file).read_bytes()
    except (OSError, ValueError) as problem:
        yield Violation("dataSchema.descriptorSet", f"{file}: {getattr(problem, 'strerror', None) or problem}")


_KEYS: Final[Mapping[str, _Take]] = {
    **{key: _text(key) for key in _TEXTS},
    "eventSources": _sources,
    "environment": _environment,
    "arguments": _arguments,
    "fields": _fields,
    "windowSeconds": _window,
    "maxRunning": _max_running,
    "rate": _rate,
    "excess": _excess,
    "dataSchema": _data_schema,
    "enabled": _enabled,
}


def _members(where: str, value: Any, known: tuple[str, ...]) -> Generator[Violation, None, Mapping[str, Any] | None]:
    """Yields what is wrong; returns the members, None where there can be none."""
    if not isinstance(value, dict):
        yield Violation(where, f"{value!r} given, a mapping of {', '.join(known)} expected")
        return None
    for key in value:
        if key not in known:
            yield Violation(f"{where}.{key}", f"unknown key; there are {', '.join(known)}")
    return value


def _texts(where: str, value: Any, take: Callable[[str], None]) -> Found:
    if not isinstance(value, list):
        yield Violation(where, f"{value!r} given, a list of texts expected")
        return
    for at, text in enumerate(value):
        if isinstance(text, str):
            take(text)
        else:
            yield Violation(f"{where}[{at}]", f"{text!r} given, a text expected")


def _number(where: str, value: Any, take: Callable[[int], None]) -> Found:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_NUMBER:
        take(value)
    else:
        yield Violation(where, f"{value!r} given, a whole number expected")


def _seconds(where: str, value: Any, take: Callable[[timedelta], None]) -> Found:
    if not isinstance(value, int) or isinstance(value, bool):
        yield Violation(where, f"{value!r} given, a whole number of seconds expected")
        return
    try:
        take(timedelta(seconds=value))
    except (OverflowError, ValueError):
        yield Violation(where, f"{value} is more than a duration can hold")


def _event_member(event: cloudevent_pb2.CloudEvent, key: str, value: Any, content: str) -> Found:
    if key == "data":
        # A text stands for itself where the event's media type is another than JSON.
        plain = isinstance(value, str) and content and "json" not in content
        event.text_data = value if plain else json.dumps(value, default=str)
    elif key == "data_base64":
        try:
            event.binary_data = base64.b64decode(str(value), validate=True)
        except (binascii.Error, ValueError):
            yield Violation(key, "no base64")
    elif isinstance(value, bool | int | str):
        text = value if isinstance(value, str) else json.dumps(value)
        if key in _OWN:
            setattr(event, _OWN[key], text)
        else:
            event.attributes[key].ce_string = text
    else:
        yield Violation(key, f"{value!r} given, a text, a whole number, true or false expected")
