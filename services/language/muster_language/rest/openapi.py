"""JSON Schemas of REST bodies, made from the catalogue: what the reader takes and what the writer gives.

Called by submission for the served OpenAPI document. Holds: a body that breaks its schema is refused by the reader; a
body that the reader refuses may still fit, since rules across members are no schema.
"""

from __future__ import annotations

from typing import Any, Final

from muster_kernel.quantities import QUANTITY_PATTERN
from muster_language.catalogue import Row
from muster_language.catalogue import value_types as of
from muster_language.rest.reader import TOGETHER
from muster_language.rest.tree import Branch, Leaf, serving_port, spec_tree
from muster_language.rest.values import WORDS
from muster_language.spec import Kind

_LARGEST_WHOLE: Final = of.LARGEST_INTEGER
_MOST_ITEMS: Final = 1_000
_SIMPLE: Final[dict[int, dict[str, str]]] = {
    of.BOOLEAN: {"type": "boolean"},
    of.INTEGER: {"type": "integer"},
    of.NUMBER: {"type": "number"},
}
_SECRET: Final = {
    "type": "object",
    "description": "The Secret, and the key in it, from which the variable takes its text.",
    "required": ["name", "key"],
    "additionalProperties": False,
    "properties": {name: {"type": "string", "minLength": 1, "maxLength": 253} for name in ("name", "key")},
}


def spec_schema(kind: Kind, *, master: bool = False, answer: bool = False) -> dict[str, Any]:
    """The schema of `spec`, or of `masterSpec`. answer: as it is written, where further words may come up."""
    schema = _object(spec_tree(kind, master=master), "", answer=answer)
    if kind is Kind.INFERENCE:
        port = _object(serving_port(), "servingPort", answer=answer)
        schema["properties"]["servingPort"] = port | {
            "description": "The port on which the service answers: the first of its ports.",
            "required": ["container"],
        }
    return schema


def _object(branch: Branch, path: str, *, answer: bool) -> dict[str, Any]:
    properties = {
        name: _leaf(node, answer=answer) if isinstance(node, Leaf) else _object(node, _join(path, name), answer=answer)
        for name, node in branch.members.items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if answer:
        return schema  # what a layer left open, an answer leaves open too
    schema["additionalProperties"] = False
    needed = next((names for end, names in TOGETHER.items() if f".{path}".endswith(f".{end}")), ())
    return schema | ({"required": list(needed)} if needed else {})


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _leaf(leaf: Leaf, *, answer: bool) -> dict[str, Any]:
    row = leaf.row
    schema = _shape(leaf, answer=answer)
    if row.description:
        schema["description"] = row.description
    if row.default is not None:
        schema["x-muster-default"] = row.default
    return schema


def _shape(leaf: Leaf, *, answer: bool) -> dict[str, Any]:
    row = leaf.row
    match row.type:
        case of.ITEMIZED:
            return {"type": "array", "maxItems": _MOST_ITEMS, "items": _item(leaf, answer=answer)}
        case of.OBJECT if leaf.inside is not None:
            return _object(leaf.inside, row.rest, answer=answer)
        case of.ARRAY:
            words = {"enum": list(row.one_of.values())} if row.one_of else {}
            return {"type": "array", "items": {"type": "string", **words}}
        case _:
            return _scalar(row)


def _item(leaf: Leaf, *, answer: bool) -> dict[str, Any]:
    schema = _object(leaf.inside or Branch(), "", answer=answer)
    if leaf.row.name == "environment":
        schema["properties"]["secret"] = _SECRET
    if answer:
        return schema
    needed = [member.rest for member in leaf.row.inside if member.mandatory and member.rest]
    # An item that only takes an inherited one out has nothing but its key.
    tombstone = any(member.name == "deleted" and member.rest for member in leaf.row.inside)
    keys = [member.rest for member in leaf.row.inside if member.mandatory and member.rest == leaf.row.item_key]
    return schema | ({"required": keys if tombstone else needed} if needed else {})


def _scalar(row: Row) -> dict[str, Any]:
    if row.words is not None:
        words = WORDS.get(row.name, {})
        return {"type": "string", "enum": [words.get(word, word) for word in row.words.by_number.values()]}
    if row.type == of.QUANTITY and row.quantity == "CPU":
        return {"type": "number", "exclusiveMinimum": 0}
    if row.type == of.QUANTITY:
        return {"type": "string", "pattern": QUANTITY_PATTERN}
    if row.type in _SIMPLE:
        return _SIMPLE[row.type] | _bounds(row)
    if row.name == "quantity":
        return {"anyOf": [{"type": "string", "minLength": 1}, {"type": "number", "exclusiveMinimum": 0}]}
    return {"type": "string"} | _lengths(row)


def _bounds(row: Row) -> dict[str, Any]:
    low, high = row.minimum, row.maximum
    if row.type == of.INTEGER:
        return {"minimum": int(low or 0), "maximum": _LARGEST_WHOLE if high is None else int(high)}
    return ({} if low is None else {"minimum": low}) | ({} if high is None else {"maximum": high})


def _lengths(row: Row) -> dict[str, Any]:
    schema: dict[str, Any] = {"minLength": row.rest_min_length} if row.rest_min_length else {}
    if row.max_length:
        schema["maxLength"] = row.max_length
    if row.pattern:
        schema["pattern"] = f"^(?:{row.pattern})$"
    if row.rest_format:
        schema["format"] = row.rest_format
    return schema
