"""Messages as plain JSON values.

Called by the output. Not protobuf's own JSON, which prints whole numbers of 64 bits as text and enum values by their
long names. Holds: members are camelCase; a number is a number; an enum value is its word; times are ISO 8601 in UTC,
durations seconds; what has no value is left out where absence means something, and is its zero everywhere else, so
that programs find the keys they look for.
"""

from __future__ import annotations

import base64
from datetime import UTC
from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from muster.options.v1 import options_pb2
from muster_client.words import enum_word


def plain(message: Message) -> Any:
    """A message as dictionaries, lists, texts, numbers and booleans."""
    if isinstance(message, Timestamp):
        return message.ToDatetime(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(message, Duration):
        return message.ToTimedelta().total_seconds()
    return {
        field.json_name: _member(message, field)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _member(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {str(key): _value(each, inner) for key, each in value.items()}
    if field.is_repeated:
        return [_value(each, field) for each in value]
    return _value(value, field)


def _value(value: Any, field: Any) -> Any:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if field.enum_type is not None:
        return word_of(field.enum_type, value)
    return value


def word_of(enum: EnumDescriptor, number: int) -> str | int:
    """The word of an enum value: what the language calls it, else its name without the enum's.

    Empty where nothing is said.
    """
    value = enum.values_by_number.get(number)
    if value is None:
        return number
    if number == 0:
        return ""
    word = value.GetOptions().Extensions[options_pb2.word].word
    return word or enum_word(value.name, enum.values_by_number[0].name.removesuffix("UNSPECIFIED"))
