"""How a value is read, by its row: made once a row, since looking at the row anew for each value cost half the reading.

Called by fields.py for fields and items, and by colossal.py for its members. Forms that a row cannot say stand in
forms.py.
Holds: what could not be read is left unset and said, and reading goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from muster_language.catalogue import Row, catalogue, either
from muster_language.catalogue import value_types as of
from muster_language.documents.findings import Findings, unknown_field
from muster_language.documents.nodes import Mapping, Node, Scalar, Sequence
from muster_language.values import Refused, Value, parser

Taker = Callable[[Findings, Node, str, Any], None]
"""Reads a node, at a path, into a message."""

_BESIDE: Final = "secret_name"


@cache
def taker(row: Row) -> Taker:
    """How a value of the row is read into the message that has the field."""
    match row.type:
        case of.OBJECT:
            return lambda findings, node, path, target: _object(findings, row, node, path, getattr(target, row.name))
        case of.ARRAY:
            return lambda findings, node, path, target: _array(findings, row, node, path, getattr(target, row.name))
        case _:
            return scalar(row.name, parser(row))


@cache
def item_taker(row: Row) -> Taker:
    """How the `value:` of an item is read: members, or one text."""
    if row.members:
        return lambda findings, node, path, item: _item(findings, row, node, path, item)
    return scalar("value", str)


def scalar(name: str, parse: Callable[[str], Value | Refused]) -> Taker:
    """How a field of that name is read from one text."""

    def take(findings: Findings, node: Node, path: str, target: Any) -> None:
        text = node.text if isinstance(node, Scalar) and not node.null else findings.text(node, path)
        if text is None:
            return
        value = parse(text)
        if isinstance(value, Refused):
            findings.refuse(path, node, value)
        else:
            setattr(target, name, value)

    return take


def members(findings: Findings, row: Row, node: Node, path: str, target: Any) -> bool:
    """Reads the mapping of an object's or an item's members. False where it is none."""
    if not isinstance(node, Mapping):
        findings.say(path, node, f"{row.yaml} is not a mapping", either([each.yaml for each in row.members]))
        return False
    known = _members(row)
    for key, value in node.entries:
        here = f"{path}.{key.text}"
        take = known.get(key.text)
        if take is None:
            findings.say(here, key, *unknown_field(key.text, [each.yaml for each in row.members]))
        else:
            take(findings, value, here, target)
    return True


@cache
def _members(row: Row) -> dict[str, Taker]:
    known: dict[str, Taker] = {
        word: taker(member) for member in row.members for word in (member.yaml, *member.aliases) if word
    }
    # REST writes the label of an item as a member of it; people carry the habit over.
    return {word: _label for each in row.inside if each.name == "label" for word in each.aliases} | known


@cache
def _keyed(row: Row) -> tuple[Row, ...]:
    return tuple(member for member in row.members if member.keyed_by)


def _item(findings: Findings, row: Row, node: Node, path: str, item: Any) -> None:
    if not members(findings, row, node, path, item) or not _keyed(row) or not item.HasField(_BESIDE):
        return
    for member in _keyed(row):
        if not item.HasField(member.name):
            continue
        key = next(each for each in row.members if each.name == member.keyed_by)
        if item.HasField(key.name):
            message = f"{member.yaml} and {key.yaml} are the same beside secretName"
            findings.say(f"{path}.{member.yaml}", node, message, "one of them: the key in that Secret")
        # Beside secretName the text is the name of a key in it, and no credential: it may be shown.
        setattr(item, key.name, getattr(item, member.name))
        item.ClearField(member.name)


def _label(findings: Findings, node: Node, path: str, item: Any) -> None:
    text = findings.text(node, path)
    if text is not None and text != item.label:
        findings.warn(path, node, f"{text} is not used: the item is known by its label {item.label}")


def _object(findings: Findings, row: Row, node: Node, path: str, target: Any) -> None:
    target.SetInParent()
    members(findings, row, node, path, target)


def _array(findings: Findings, row: Row, node: Node, path: str, target: Any) -> None:
    target.SetInParent()
    if isinstance(node, Sequence):
        texts = findings.words(node, path)
    else:
        text = findings.text(node, path)
        texts = [] if text is None else [each for each in (part.strip() for part in text.split(",")) if each]
    target.values.extend(row.one_of.get(each.casefold(), each) for each in texts)


TAKE_DELETED: Final = scalar("deleted", parser(catalogue().by_name["preemptible"]))  # any row of true or false
