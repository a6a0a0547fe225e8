"""The fields of a spec: nodes of the YAML tree into the typed message, by the catalogue's rows.

Called by the reader for `spec` and `masterSpec`.
Holds: `value:`, `items:` and `deleted:` are the only words that are not in the catalogue; what could not be read is
left unset and said, and reading goes on, so that a person sees every error at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from muster_language import value_types as of
from muster_language.catalogue import COMPANIONS, Row, catalogue, either, nearest
from muster_language.documents import Violation
from muster_language.nodes import Mapping, Node, Scalar, Sequence
from muster_language.spec import Kind
from muster_language.validation import gpu_members
from muster_language.values import Refused, Value, gpu, refusal, shown, typed

_LISTED: Final = 40  # known names that an error lists at most


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value of the spec stands, and under which path its user wrote it."""

    path: str
    line: int
    column: int


@dataclass(slots=True)
class Findings:
    """Errors so far, and `marks`: the path that validation uses -> the place in the text."""

    found: list[Violation] = field(default_factory=list)
    marks: dict[str, Mark] = field(default_factory=dict)

    def say(self, path: str, node: Node, message: str, allowed: str = "") -> None:
        """An error at a node."""
        self.found.append(Violation(path, message, node.line, node.column, allowed))

    def mark(self, path: str, written: str, node: Node) -> None:
        """Remembers the place of a value."""
        self.marks.setdefault(path, Mark(written, node.line, node.column))

    def place(self, path: str) -> Mark | None:
        """The place of a path, else of what holds it."""
        while path not in self.marks and "." in path:
            path = path.rpartition(".")[0]
        return self.marks.get(path)

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
            row = rows.get(key.text)
            here = f"{path}.{key.text}"
            if row is None or row.beside_spec:
                self.findings.say(here, key, *self._not_a_field(key.text, row))
            elif row.name in written:
                message = f"{key.text} and {written[row.name]} are the same field"
                self.findings.say(here, key, message, f"one of them; the usual name is {row.yaml}")
            else:
                written[row.name] = key.text
                self.findings.mark(f"{path}.{row.yaml}", here, key)
                self._field(row, value, here, spec)
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
        word = written.get("gpu_portion_request")
        if word is None:
            return
        keys = {key.text: key for key, _ in node.entries}
        for name in gpu_members():
            if name in written and name != "gpu_portion_request" and (name not in COMPANIONS or path in self.whole):
                message = f"{word} and {written[name]} exclude each other"
                here = f"{path}.{written[name]}.value"
                self.findings.say(here, keys[written[name]], message, "one of them says what each replica is given")

    def _field(self, row: Row, node: Node, path: str, spec: Any) -> None:
        if row.type == of.ITEMIZED:
            self._items(row, node, path, getattr(spec, row.name))
            return
        value, path = self._unwrap(row, node, path)
        if value is None:
            return
        self.findings.mark(f"{_parent(path, row)}.value", path, value)
        if row.type == of.OBJECT:
            self._object(row, value, path, getattr(spec, row.name))
        elif row.type == of.ARRAY:
            self._array(row, value, path, getattr(spec, row.name))
        elif row.name == "gpu_portion_request":
            self._gpu(value, path, spec)
        else:
            self._scalar(row, value, path, partial(setattr, spec, row.name))

    def _unwrap(self, row: Row, node: Node, path: str) -> tuple[Node | None, str]:
        """The node behind `value:`; bare fields may be written without it. None after an error."""
        if isinstance(node, Mapping) and any(key.text == "value" for key, _ in node.entries):
            self.findings.unknown(node, ["value"], f"{path}.")
            return next(value for key, value in node.entries if key.text == "value"), f"{path}.value"
        if row.bare:
            return node, path
        shape = f"{path.rpartition('.')[2]}: {{value: ..}}"
        if isinstance(node, Mapping):
            self.findings.unknown(node, ["value"], f"{path}.")
            if not node.entries:
                self.findings.say(path, node, "the field has no value", shape)
        elif isinstance(node, Scalar) and not node.null:
            self.findings.say(path, node, f"{shown(node.text)} stands here without `value:`", shape)
        else:
            self.findings.say(path, node, "the field has no value", shape)
        return None, path

    def _scalar(self, row: Row, node: Node, path: str, store: Callable[[Value], None]) -> None:
        if not isinstance(node, Scalar):
            self.findings.say(
                path, node, f"a {'list' if isinstance(node, Sequence) else 'mapping'} stands where a value belongs"
            )
            return
        if node.null:
            self.findings.say(path, node, "the field has no value", 'a value, or "" for the empty text')
            return
        value = typed(row, node.text)
        if isinstance(value, Refused):
            self.findings.say(path, node, value.message, value.allowed)
            return
        store(value)

    def _gpu(self, node: Node, path: str, spec: Any) -> None:
        if not isinstance(node, Scalar) or node.null:
            self._scalar(catalogue().by_name["gpu_portion_request"], node, path, lambda _: None)
            return
        asked = gpu(node.text)
        if isinstance(asked, Refused):
            self.findings.say(path, node, asked.message, asked.allowed)
        elif asked.devices == 1:
            spec.gpu_portion_request = asked.milli / 1000
        else:
            self.whole.add(path.removesuffix(".value").rpartition(".")[0])
            refused = refusal(catalogue().by_name["gpu_devices_request"], asked.devices)
            if refused is not None:
                self.findings.say(path, node, refused.message, refused.allowed)
            else:
                spec.gpu_devices_request = asked.devices

    def _array(self, row: Row, node: Node, path: str, target: Any) -> None:
        target.SetInParent()
        if isinstance(node, Sequence):
            for index, item in enumerate(node.items):
                self._scalar_item(item, f"{path}.{index}", target)
        else:
            self._scalar(row, node, path, target.values.extend)

    def _scalar_item(self, node: Node, path: str, target: Any) -> None:
        if isinstance(node, Scalar) and not node.null:
            target.values.append(node.text)
        else:
            self.findings.say(path, node, "an entry of the list is not a text", "a list of words")

    def _object(self, row: Row, node: Node, path: str, target: Any) -> None:
        target.SetInParent()
        if not isinstance(node, Mapping):
            self.findings.say(path, node, f"{row.yaml} is not a mapping", either([each.yaml for each in row.members]))
            return
        known = [member.yaml for member in row.members]
        self.findings.unknown(node, known, f"{path}.")
        for key, value in node.entries:
            member = row.member(key.text)
            if member is None:
                continue
            here = f"{path}.{key.text}"
            self.findings.mark(here, here, value)
            self._scalar(member, value, here, partial(setattr, target, member.name))

    def _items(self, row: Row, node: Node, path: str, target: Any) -> None:
        shape = f"{path.rpartition('.')[2]}: {{items: {{LABEL: {{value: ..}}}}}}"
        if not isinstance(node, Mapping):
            self.findings.say(path, node, "the field has no items", shape)
            return
        self.findings.unknown(node, ["items"], f"{path}.")
        items = next((value for key, value in node.entries if key.text == "items"), None)
        if items is None:
            if not node.entries:
                self.findings.say(path, node, "the field has no items", shape)
        elif not isinstance(items, Mapping):
            if not (isinstance(items, Scalar) and items.null):
                self.findings.say(f"{path}.items", items, "items is not a mapping of labels", shape)
        else:
            for label, value in items.entries:
                self._item(row, label, value, f"{path}.items.{label.text}", target)

    def _item(self, row: Row, label: Scalar, node: Node, path: str, target: Any) -> None:
        self.findings.mark(path, path, label)
        if not isinstance(node, Mapping):
            self.findings.say(path, node, "the item is not a mapping", "value: .., or deleted: true")
            return
        self.findings.unknown(node, ["value", "deleted"], f"{path}.")
        item = target.add(label=label.text)
        for key, value in node.entries:
            here = f"{path}.{key.text}"
            if key.text == "deleted":
                self._scalar(_DELETED, value, here, partial(setattr, item, "deleted"))
            elif key.text == "value":
                self.findings.mark(here, here, value)
                if row.members:
                    self._object(row, value, here, item)
                else:
                    self._scalar(_ITEM_VALUE, value, here, partial(setattr, item, "value"))


def _parent(path: str, row: Row) -> str:
    """The path that validation uses for a row, whatever alias the user wrote."""
    head = path.removesuffix(".value").rpartition(".")[0]
    return f"{head}.{row.yaml}"


def unknown_field(word: str, known: list[str]) -> tuple[str, str]:
    """Message and hint for a word that is no field: the nearest known name, else the known ones."""
    near = nearest(word, known)
    if near is not None:
        return f"unknown field; did you mean {near}?", ""
    listed = f"{', '.join(known[:_LISTED])}{', ..' if len(known) > _LISTED else ''}"
    return "unknown field", f"known here: {listed}"


_DELETED: Final = catalogue().by_name["preemptible"]  # any row of true or false
_ITEM_VALUE: Final = catalogue().by_name["command"]  # any row of free text
