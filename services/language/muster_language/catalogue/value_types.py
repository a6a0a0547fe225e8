"""The types that a catalogue value can have, under short names, and the limits that hold where a row names none."""

from __future__ import annotations

from typing import Final

from muster.options.v1 import options_pb2

BOOLEAN: Final = options_pb2.VALUE_TYPE_BOOLEAN
STRING: Final = options_pb2.VALUE_TYPE_STRING
INTEGER: Final = options_pb2.VALUE_TYPE_INTEGER
NUMBER: Final = options_pb2.VALUE_TYPE_NUMBER
QUANTITY: Final = options_pb2.VALUE_TYPE_QUANTITY
ARRAY: Final = options_pb2.VALUE_TYPE_ARRAY
ITEMIZED: Final = options_pb2.VALUE_TYPE_ITEMIZED
OBJECT: Final = options_pb2.VALUE_TYPE_OBJECT
WHOLE: Final = options_pb2.VALUE_TYPE_WHOLE

LONGEST_TEXT: Final = 65_536  # characters, where a row names no limit of its own
LARGEST_INTEGER: Final = (1 << 32) - 1  # what the protobuf type of every whole number holds
