"""Messages as plain JSON values.

Called by the output. Not protobuf's own JSON, which prints whole numbers of 64 bits as text and enum values by their
long names. Holds: members are camelCase; a number is a number, in the unit that its name ends with (`cpuMilli`,
`memoryBytes`, `windowSeconds`) or a plain amount (`gpuDeserved` is GPUs, as people write them); an enum value is its
word; times are ISO 8601 in UTC; what has no value is left out where absence means something, and is its zero everywhere
else, so that programs find the keys they look for.
"""

from __future__ import annotations

import base64
from datetime import UTC
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from muster.options.v1 import options_pb2
from muster_client.words import enum_word
from muster_kernel.quantities import GPU

GPU_FIELDS: Final = frozenset(
    {
        "gpu",
        "gpu_charge",
        "gpu_deserved",
        "gpu_fair",
        "gpu_held",
        "gpu_limit",
        "gpu_mig",
        "gpu_total",
        "gpu_wanted",
    }
)
"""What the API counts in 1/7,000 GPU."""
_DIGITS: Final = 6


def plain(message: Message) -> Any:
    """A message as dictionaries, lists, texts, numbers and booleans."""
    if isinstance(message, Timestamp):
        return message.ToDatetime(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(message, Duration):
        return message.ToTimedelta().total_seconds()
    return {
        _name(field): _member(message, field)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _name(field: Any) -> str:
    """A member's name: with its unit, where the value is a duration, which is written in seconds."""
    name: str = field.json_name
    is_span = field.message_type is not None and field.message_type.full_name == Duration.DESCRIPTOR.full_name
    return f"{name}Seconds" if is_span and not name.endswith("Seconds") else name


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
    return _gpus(value) if field.name in GPU_FIELDS else value


def _gpus(units: int) -> int | float:
    """GPUs, of which the accounts count 1/7,000; whole numbers stay whole."""
    whole, rest = divmod(units, GPU)
    return round(units / GPU, _DIGITS) if rest else whole


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
