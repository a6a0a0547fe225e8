"""Text that attacks a terminal, and messages in which every text is such a one.

Used by the property over the client's renderers and by the test of the attacks of row A10.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from hypothesis import strategies as st

M = TypeVar("M", bound=Message)

TITLE: Final = "\x1b]0;owned\x07"
"""Sets the title of the window."""
CLEAR: Final = "\x1b[2J\x1b[H"
"""Empties the screen."""
REVERSED: Final = "\u202eevil"
"""Shown from right to left."""
OVERWRITE: Final = "fine\rFAILED"
_DEPTH: Final = 3
_CONTROLS: Final = st.characters(categories=["Cc", "Cf", "Zl", "Zp"])
_SEQUENCES: Final = st.sampled_from([TITLE, CLEAR, REVERSED, OVERWRITE, "\x1b[31m", "\x9b2J", "\x1bc", "[/red]", "[/]"])

hostile_texts: Final = st.lists(_CONTROLS | _SEQUENCES | st.text(max_size=5), min_size=1, max_size=6).map("".join)


def harm_in(output: str) -> list[str]:
    """The characters of an output that a terminal obeys or hides; ends of lines and tabs are none."""
    harmful = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return [char for char in output if char not in "\n\t\u200c\u200d" and unicodedata.category(char) in harmful]


def filled(kind: type[M], text: str, depth: int = _DEPTH) -> M:
    """A message with `text` in each of its texts, itself included where it is in itself; numbers and enums are 1."""
    made = kind()
    for field in kind.DESCRIPTOR.fields:
        value = _value(field, text, depth)
        if value is None or (field.containing_oneof and made.WhichOneof(field.containing_oneof.name)):
            continue
        _put(made, field, value)
    return made


def _put(made: Message, field: Any, value: Any) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        target = getattr(made, field.name)
        if field.message_type.fields_by_name["value"].message_type is None:
            target[text_key(field, value)] = value
    elif field.is_repeated:
        getattr(made, field.name).extend([value, value])
    elif isinstance(value, Message):
        getattr(made, field.name).CopyFrom(value)
    else:
        setattr(made, field.name, value)


def text_key(field: Any, value: Any) -> Any:
    """A key of a map field: the text itself where keys are texts."""
    return value if field.message_type.fields_by_name["key"].type == field.TYPE_STRING else 1


def _value(field: Any, text: str, depth: int) -> Any:
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            return text if field.message_type.fields_by_name["value"].type == field.TYPE_STRING else None
        return filled(field.message_type._concrete_class, text, depth - 1) if depth else None
    if field.type == field.TYPE_STRING:
        return text
    return text.encode(errors="replace") if field.type == field.TYPE_BYTES else 1
