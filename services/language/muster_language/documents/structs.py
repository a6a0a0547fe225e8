"""Nodes as JSON-like values, by YAML 1.2's core schema: for what is kept as it stands, such as a pod template.

Called by colossal.py and the writer. Everything with a catalogue row is typed by its row instead.
"""

from __future__ import annotations

import re
from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value

from muster_language.documents.findings import Findings
from muster_language.documents.nodes import Mapping, Node, Scalar

_NUMBER: Final = re.compile(r"[-+]?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})([eE][-+]?[0-9]{1,2})?")
_EXACT: Final = 1e15  # up to here every whole number is itself as a float
_TRUTHS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def struct_of(findings: Findings, node: Node, path: str) -> Struct:
    """The mapping as a Struct; an empty one where it is none, which is said."""
    struct = Struct()
    if isinstance(node, Mapping):
        for key, value in node.entries:
            _fill(struct.fields[key.text], value)
    else:
        findings.say(path, node, "this is not a mapping", "a pod template")
    return struct


def _fill(value: Value, node: Node) -> None:
    if isinstance(node, Scalar):
        _scalar(value, node)
    elif isinstance(node, Mapping):
        value.struct_value.SetInParent()
        for key, inner in node.entries:
            _fill(value.struct_value.fields[key.text], inner)
    else:
        value.list_value.SetInParent()
        for item in node.items:
            _fill(value.list_value.values.add(), item)


def _scalar(value: Value, node: Scalar) -> None:
    if node.null:
        value.null_value = NULL_VALUE
    elif node.plain and node.text in _TRUTHS:
        value.bool_value = _TRUTHS[node.text]
    elif node.plain and _NUMBER.fullmatch(node.text):
        value.number_value = float(node.text)
    else:
        value.string_value = node.text


class Quoted(str):
    """A text that reads as a number where it stands without quotes."""

    __slots__ = ()


def plain(struct: Struct) -> dict[str, Any]:
    """A Struct as Python has it, keys in their order in the alphabet: a Struct keeps none."""
    return {key: _plain(struct.fields[key]) for key in sorted(struct.fields)}


def _plain(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            return plain(value.struct_value)
        case "list_value":
            return [_plain(each) for each in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) < _EXACT else number
        case "string_value":
            text = value.string_value
            return Quoted(text) if _NUMBER.fullmatch(text) else text
        case "bool_value":
            return value.bool_value
        case _:
            return None
