"""The fields of a spec: nodes of the YAML tree into the typed message, by the catalogue's rows.

Called by the reader for `spec` and `masterSpec`. What a row cannot say of a field's form stands in shapes.py.
Holds: `value:`, `items:` and `deleted:` are the only words that are not in the catalogue; what could not be read is
left unset and said, and reading goes on, so that a person sees every error at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from muster_language import value_types as of
from muster_language.bounds import refusal
from muster_language.catalogue import COMPANIONS, Row, catalogue, either, nearest
from muster_language.documents import Violation
from muster_language.nodes import Mapping, Node, Scalar, Sequence
from muster_language.spec import Kind
from muster_language.validation import gpu_members
from muster_language.values import Refused, Value, gpu, parser, shown

_LISTED: Final = 40  # known names that an error lists at most
_VALUE: Final = ("value",)
_ITEMS: Final = ("items",)
_ITEM: Final = ("value", "deleted")

Taker = Callable[["FieldReader", Node, str, Any], None]
"""Reads a node, at a path, into a message."""


@dataclass(slots=True)
class Findings:
    """Errors so far. `moved`: paths of the spec whose value stands elsewhere in the text -> where."""

    found: list[Violation] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def say(self, path: str, node: Node, message: str, allowed: str = "") -> None:
        """An error at a node."""
        self.found.append(Violation(path, message, node.line, node.column, allowed))

    def refuse(self, path: str, node: Node, refused: Refused) -> None:
        """An error at a node whose value is not taken."""
        self.say(path, node, refused.message, refused.allowed)

    def unknown(self, mapping: Mapping, known: Iterable[str], path: str = "") -> None:
        """An error for each key that is not known."""
        names = list(known)
        for key, _ in mapping.entries:
            if key.text not in names:
                self.say(f"{path}{key.text}", key, *unknown_field(key.text, names))


@dataclass(slots=True)
class FieldReader:
    """Reads the fields of one document's specs."""

    findings: Findings
    kind: Kind | None
    whole: set[str] = field(default_factory=set)  # the specs whose `gpu` said a number of devices

    def spec(self, node: Node, path: str, spec: Any) -> None:
        """Reads the mapping under `spec` or `masterSpec` into the message."""
        if not isinstance(node, Mapping):
            self.findings.say(path, node, f"{path} is not a mapping", "a mapping of fields")
            return
        rows = catalogue().by_yaml
        written: dict[str, str] = {}
        for key, value in node.entries:
            word = key.text
            here = f"{path}.{word}"
            row = rows.get(word)
            if row is None or row.beside_spec:
                self.findings.say(here, key, *self._not_a_field(word, row))
            elif row.name in written:
                message = f"{word} and {written[row.name]} are the same field"
                self.findings.say(here, key, message, f"one of them; the usual name is {row.yaml}")
            else:
                written[row.name] = word
                _field(row)(self, value, here, spec)
        if "gpu_portion_request" in written:
            self._gpu_once(node, path, written)

    def _not_a_field(self, word: str, row: Row | None) -> tuple[str, str]:
        if row is not None:
            return f"{word} does not stand inside spec", f"{word} is a sibling of spec"
        rows = [each for each in catalogue().rows if self.kind is None or self.kind in each.kinds]
        return unknown_field(word, [each.yaml for each in rows if each.yaml and not each.beside_spec])

    def _gpu_once(self, node: Mapping, path: str, written: dict[str, str]) -> None:
        """Refuses several ways to ask for GPU in one layer.

        `gpu: 2` and `gpu: 0` are devices in the spec, so that the spec alone no longer shows what excludes what.
        """
        word = written["gpu_portion_request"]
        keys = {key.text: key for key, _ in node.entries}
        for name in gpu_members():
            if name in written and name != "gpu_portion_request" and (name not in COMPANIONS or path in self.whole):
                message = f"{word} and {written[name]} exclude each other"
                here = f"{path}.{written[name]}.value"
                self.findings.say(here, keys[written[name]], message, "one of them says what each replica is given")

    def unwrap(self, row: Row, node: Node, path: str) -> tuple[Node | None, str]:
        """The node behind `value:`; bare fields may be written without it. None after an error."""
        if isinstance(node, Mapping) and any(key.text == "value" for key, _ in node.entries):
            self.findings.unknown(node, _VALUE, f"{path}.")
            return next(value for key, value in node.entries if key.text == "value"), f"{path}.value"
        if row.bare:
            return node, path
        shape = f"{path.rpartition('.')[2]}: {{value: ..}}"
        if isinstance(node, Mapping):
            self.findings.unknown(node, _VALUE, f"{path}.")
            if not node.entries:
                self.findings.say(path, node, "the field has no value", shape)
        elif isinstance(node, Scalar) and not node.null:
            self.findings.say(path, node, f"{shown(node.text)} stands here without `value:`", shape)
        else:
            self.findings.say(path, node, "the field has no value", shape)
        return None, path

    def text(self, node: Node, path: str) -> str | None:
        """The text of a value; None after an error."""
        if not isinstance(node, Scalar):
            what = "list" if isinstance(node, Sequence) else "mapping"
            self.findings.say(path, node, f"a {what} stands where a value belongs")
        elif node.null:
            self.findings.say(path, node, "the field has no value", 'a value, or "" for the empty text')
        else:
            return node.text
        return None

    def members(self, row: Row, node: Node, path: str, target: Any) -> None:
        """Reads the mapping of an object's or an item's members."""
        if not isinstance(node, Mapping):
            self.findings.say(path, node, f"{row.yaml} is not a mapping", either([each.yaml for each in row.members]))
            return
        known = _members(row)
        for key, value in node.entries:
            here = f"{path}.{key.text}"
            taker = known.get(key.text)
            if taker is None:
                self.findings.say(here, key, *unknown_field(key.text, [each.yaml for each in row.members]))
            else:
                taker(self, value, here, target)

    def items(self, row: Row, node: Node, path: str, target: Any) -> None:
        """Reads the labelled items of an itemized field."""
        shape = f"{path.rpartition('.')[2]}: {{items: {{LABEL: {{value: ..}}}}}}"
        if not isinstance(node, Mapping):
            self.findings.say(path, node, "the field has no items", shape)
            return
        self.findings.unknown(node, _ITEMS, f"{path}.")
        items = next((value for key, value in node.entries if key.text == "items"), None)
        if items is None:
            if not node.entries:
                self.findings.say(path, node, "the field has no items", shape)
        elif isinstance(items, Mapping):
            take = _item_value(row)
            for label, value in items.entries:
                self._item(take, label, value, f"{path}.items.{label.text}", target)
        elif not (isinstance(items, Scalar) and items.null):
            self.findings.say(f"{path}.items", items, "items is not a mapping of labels", shape)

    def _item(self, take: Taker, label: Scalar, node: Node, path: str, target: Any) -> None:
        if not isinstance(node, Mapping):
            self.findings.say(path, node, "the item is not a mapping", "value: .., or deleted: true")
            return
        item = target.add(label=label.text)
        for key, value in node.entries:
            here = f"{path}.{key.text}"
            if key.text == "value":
                take(self, value, here, item)
            elif key.text == "deleted":
                _deleted(self, value, here, item)
            else:
                self.findings.say(here, key, *unknown_field(key.text, list(_ITEM)))


@cache
def _field(row: Row) -> Taker:
    """How a field is read; made once a row, since looking at the row anew for each value cost half of the reading."""
    if row.type == of.ITEMIZED:
        return lambda reader, node, path, spec: reader.items(row, node, path, getattr(spec, row.name))
    take = _gpu if row.name == "gpu_portion_request" else _value(row)

    def unwrapped(reader: FieldReader, node: Node, path: str, spec: Any) -> None:
        if isinstance(node, Mapping) and len(node.entries) == 1 and node.entries[0][0].text == "value":
            take(reader, node.entries[0][1], f"{path}.value", spec)
            return
        value, path = reader.unwrap(row, node, path)
        if value is not None:
            take(reader, value, path, spec)

    return unwrapped


@cache
def _members(row: Row) -> dict[str, Taker]:
    return {word: _value(member) for member in row.members for word in (member.yaml, *member.aliases) if word}


def _value(row: Row) -> Taker:
    match row.type:
        case of.OBJECT:
            return lambda reader, node, path, target: _object(reader, row, node, path, getattr(target, row.name))
        case of.ARRAY:
            return lambda reader, node, path, target: _array(reader, node, path, getattr(target, row.name))
        case _:
            return _scalar(row.name, parser(row))


def _item_value(row: Row) -> Taker:
    if row.members:
        return lambda reader, node, path, item: reader.members(row, node, path, item)
    return _text


def _scalar(name: str, parse: Callable[[str], Value | Refused]) -> Taker:
    def take(reader: FieldReader, node: Node, path: str, target: Any) -> None:
        text = node.text if isinstance(node, Scalar) and not node.null else reader.text(node, path)
        if text is None:
            return
        value = parse(text)
        if isinstance(value, Refused):
            reader.findings.refuse(path, node, value)
        else:
            setattr(target, name, value)

    return take


def _object(reader: FieldReader, row: Row, node: Node, path: str, target: Any) -> None:
    target.SetInParent()
    reader.members(row, node, path, target)


def _array(reader: FieldReader, node: Node, path: str, target: Any) -> None:
    target.SetInParent()
    if isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            if isinstance(item, Scalar) and not item.null:
                target.values.append(item.text)
            else:
                reader.findings.say(f"{path}.{index}", item, "an entry of the list is not a text", "a list of words")
        return
    text = reader.text(node, path)
    if text is not None:
        target.values.extend(entry for entry in (part.strip() for part in text.split(",")) if entry)


def _gpu(reader: FieldReader, node: Node, path: str, spec: Any) -> None:
    """`gpu` is a portion of one device, or a number of devices."""
    text = reader.text(node, path)
    if text is None:
        return
    asked = gpu(text)
    if isinstance(asked, Refused):
        reader.findings.refuse(path, node, asked)
    elif asked.devices == 1:
        spec.gpu_portion_request = asked.milli / 1000
    else:
        reader.whole.add(path.removesuffix(".value").rpartition(".")[0])
        refused = refusal(catalogue().by_name["gpu_devices_request"], asked.devices)
        if refused is not None:
            reader.findings.refuse(path, node, refused)
        else:
            spec.gpu_devices_request = asked.devices


def unknown_field(word: str, known: list[str]) -> tuple[str, str]:
    """Message and hint for a word that is no field: the nearest known name, else the known ones."""
    near = nearest(word, known)
    if near is not None:
        return f"unknown field; did you mean {near}?", ""
    listed = f"{', '.join(known[:_LISTED])}{', ..' if len(known) > _LISTED else ''}"
    return "unknown field", f"known here: {listed}"


_deleted: Final = _scalar("deleted", parser(catalogue().by_name["preemptible"]))  # any row of true or false
_text: Final = _scalar("value", str)
