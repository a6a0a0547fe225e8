"""CEL over one event: expressions are compiled once, evaluated, and every value becomes text.

Runs in the child process that `expressions` keeps, and in tests. Holds: whatever the expression, the event or the
schema is, the answer is a value or a sentence; nothing raises, and no text is seen in part. How long it takes is for
the child's clock to end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec
from cel_expr_python import cel  # type: ignore[import-untyped]  # its stubs bring no marker
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from muster_submission.domain.cloudevents import CloudEvent, loads, unfit
from muster_submission.domain.expressions import CONDITION, Answer, Broken, Question, Schema, Values

_COMPILED: Final = 2000
_SCHEMAS: Final = 100
_WHY: Final = 500
_WORDS: Final = (cel.Type.BOOL, cel.Type.DYN)
_TROUBLE: Final = (RuntimeError, ValueError, TypeError, OverflowError, KeyError, RecursionError, MemoryError)


class _Unfit(Exception):
    """What was asked cannot be answered; the message is a sentence for people."""


def evaluate(question: Question) -> Answer:
    """Whether the condition holds, and the value of each expression as text."""
    try:
        seen = _seen(question)
        condition = question.expressions.get(CONDITION)
        if condition is not None and not _holds(condition, seen):
            return Values(matched=False, texts={})
        asked = {key: text for key, text in question.expressions.items() if key != CONDITION}
        return Values(matched=True, texts={key: _value(key, text, seen) for key, text in asked.items()})
    except _Unfit as error:
        return Broken(str(error))


def _seen(question: Question) -> Mapping[str, Any]:
    """What expressions see. CEL reads a text up to its first NUL: a guard must not be passed by a part."""
    seen = {"event": dict(question.event.attributes), "data": data_of(question.event, question.schema)}
    where = unfit(seen["event"], "event") or unfit(seen["data"], "data")
    if where:
        raise _Unfit(f"{_clipped(where)} has a NUL or half of a surrogate pair, which no text of an event may have")
    return seen


def problems(expressions: Mapping[str, str], schema: Schema | None) -> dict[str, str]:
    """What is wrong with expressions before any event has come, by their key; the schema's under `data_schema`."""
    found: dict[str, str] = {}
    for key, text in expressions.items():
        try:
            compiled = _compiled(text)
            if key == CONDITION and compiled.return_type() not in _WORDS:
                found[key] = f"gives {compiled.return_type().name()}; a condition gives true or false"
        except _Unfit as error:
            found[key] = str(error)
    if schema is not None:
        try:
            _message_class(schema)
        except _Unfit as error:
            found["data_schema"] = str(error)
    return found


def data_of(event: CloudEvent, schema: Schema | None) -> Any:
    """The event's data as CEL sees it: JSON as it is, protobuf by the rule's schema, text as text, nothing as null."""
    if not event.data:
        return None
    kind = event.content.partition(";")[0].strip().lower()
    if kind in {"application/protobuf", "application/x-protobuf"}:
        return _protobuf(event.data, schema)
    if not kind or kind == "application/json" or kind.endswith("+json"):
        try:
            return loads(event.data)
        except ValueError as error:
            raise _Unfit(f"the event's data is no JSON: {error}") from None
    try:
        return event.data.decode()
    except UnicodeDecodeError:
        raise _Unfit(f"the event's data is neither JSON, protobuf nor text: {kind[:80]}") from None


def _protobuf(raw: bytes, schema: Schema | None) -> Any:
    if schema is None:
        raise _Unfit("the event's data is protobuf, and the trigger has no dataSchema to read it by")
    message = _message_class(schema)()
    try:
        message.ParseFromString(raw)
        return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    except (DecodeError, *_TROUBLE) as error:
        raise _Unfit(f"the event's data is no {schema.message}: {_clipped(error)}") from None


@lru_cache(maxsize=_SCHEMAS)
def _message_class(schema: Schema) -> Any:
    try:
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(schema.descriptor_set).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.message))
    except KeyError:
        raise _Unfit(f"the descriptor set has no message {schema.message[:200]!r}, or lacks what it imports") from None
    except (DecodeError, *_TROUBLE) as error:
        raise _Unfit(f"the descriptor set cannot be read: {_clipped(error)}") from None


@lru_cache(maxsize=1)
def _environment() -> Any:
    of = cel.Type
    return cel.NewEnv(variables={"event": of.Map(of.STRING, of.STRING), "data": of.DYN})


@lru_cache(maxsize=_COMPILED)
def _compiled(text: str) -> Any:
    try:
        return _environment().compile(text)
    except _TROUBLE as error:
        raise _Unfit(_clipped(error)) from None


def _holds(text: str, seen: Mapping[str, Any]) -> bool:
    found = _evaluated("condition", text, seen)
    if not isinstance(found, bool):
        raise _Unfit(f"condition gives {type(found).__name__}; a condition gives true or false")
    return found


def _value(key: str, text: str, seen: Mapping[str, Any]) -> str:
    try:
        return _text(_evaluated(key, text, seen))
    except (UnicodeDecodeError, *_TROUBLE) as error:
        raise _Unfit(f"{key} has a value that is no text: {_clipped(error)}") from None


def _evaluated(key: str, text: str, seen: Mapping[str, Any]) -> Any:
    try:
        found = _compiled(text).eval(data=seen)
        if found.type() == cel.Type.ERROR:
            raise _Unfit(f"{key}: {_clipped(found.value())}")
        return found.plain_value()
    except _TROUBLE as error:
        raise _Unfit(f"{key}: {_clipped(error)}") from None


def _text(value: Any) -> str:
    """A value as one whole text: strings as they are, lists and maps as JSON."""
    match value:
        case str():
            return value
        case None:
            raise ValueError("it is null")
        case bytes() | bytearray():
            return value.decode()
        case float() if math.isfinite(value) and value.is_integer() and abs(value) < 2**53:
            return str(int(value))  # JSON numbers of protobuf events are floats: 3.0 is what people write as 3
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():g}s"
        case bool() | int() | float():
            return json.dumps(value, allow_nan=False)
        case _:
            return msgspec.json.encode(value).decode()


def _clipped(error: object) -> str:
    said = " ".join(str(error).removesuffix("[INVALID_ARGUMENT]").split())
    return said if len(said) <= _WHY else f"{said[:_WHY]}.."
