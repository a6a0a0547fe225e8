"""The fields of a spec: nodes of the YAML tree into the typed message, by the catalogue's rows.

Called by the reader for `spec` and `masterSpec`. How one value is read stands in takers.py and forms.py.
Holds: `value:`, `items:` and `deleted:` are the only words that are not in the catalogue; what could not be read is
left unset and said, and reading goes on, so that a person sees every error at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from muster_language.catalogue import COMPANIONS, FOLLOWERS, Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.documents.findings import Findings, unknown_field
from muster_language.documents.forms import LISTS, VALUES
from muster_language.documents.nodes import Mapping, Node, Scalar, entry
from muster_language.documents.takers import TAKE_DELETED, Taker, item_taker, taker
from muster_language.merging.overlay import gpu_members
from muster_language.spec import Kind
from muster_language.values import shown

_VALUE: Final = ("value",)
_ITEMS: Final = ("items",)
_ITEM: Final = ("value", "deleted")


@dataclass(slots=True)
class FieldReader:
    """Reads the fields of one document's specs."""

    findings: Findings
    kind: Kind | None

    def spec(self, node: Node, path: str, spec: Any) -> None:
        """Reads the mapping under `spec` or `masterSpec` into the message."""
        if not isinstance(node, Mapping):
            self.findings.say(path, node, f"{path} is not a mapping", "a mapping of fields")
            return
        known = _known()
        findings = self.findings
        written: dict[str, str] = {}
        for key, value in node.entries:
            word = key.text
            found = known.get(word)
            if found is not None and found[0] not in written:
                written[found[0]] = word
                found[1](findings, value, f"{path}.{word}", spec)
            else:
                self._special(word, key, value, path, spec, written)
        if "gpu_portion_request" in written:
            self._gpu_once(node, path, written)

    def _special(self, word: str, key: Scalar, node: Node, path: str, spec: Any, written: dict[str, str]) -> None:
        """What is no usual field: said twice, not taken, a group of older documents, or unknown."""
        row = catalogue().by_yaml.get(word)
        here = f"{path}.{word}"
        if row is None and word in _older():
            self._older(word, node, path, spec, written)
        elif row is None or row.beside_spec:
            self.findings.say(here, key, *self._not_a_field(word, row))
        else:
            self._field(row, word, key, node, here, spec, written)

    def _field(
        self, row: Row, word: str, key: Scalar, node: Node, here: str, spec: Any, written: dict[str, str]
    ) -> None:
        if row.name in written:
            message = f"{word} and {written[row.name]} are the same field"
            self.findings.say(here, key, message, f"one of them; the usual name is {row.yaml}")
            return
        written[row.name] = word
        if row.refused:
            self.findings.say(here, key, f"{word} is not taken", row.refused)
        else:
            _taker(row)(self.findings, node, here, spec)

    def _older(self, word: str, node: Node, path: str, spec: Any, written: dict[str, str]) -> None:
        """A group of fields of older documents: mpiJob, pyTorchJob, runPolicy. Their members are usual fields."""
        here = f"{path}.{word}"
        if isinstance(node, Mapping) and (wrapped := entry(node, "value")):
            node, here = wrapped[1], f"{here}.value"
        if not isinstance(node, Mapping):
            self.findings.say(here, node, f"{word} is not a mapping", f"{', '.join(_older()[word])}")
            return
        for key, value in node.entries:
            row = _older()[word].get(key.text)
            if row is None:
                self.findings.say(f"{here}.{key.text}", key, *unknown_field(key.text, list(_older()[word])))
                continue
            self.findings.moved[f"{path}.{row.yaml}"] = f"{here}.{key.text}"
            wrapper = value if isinstance(value, Mapping) else Mapping([(_WORD, value)], value.line, value.column)
            self._field(row, key.text, key, wrapper, f"{here}.{key.text}", spec, written)

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
        whole = path in self.findings.whole
        for name in gpu_members():
            if name in written and name not in _BESIDE_GPU and (name not in COMPANIONS or whole):
                message = f"{word} and {written[name]} exclude each other"
                here = f"{path}.{written[name]}.value"
                self.findings.say(here, keys[written[name]], message, "one of them says what each replica is given")


# What qualifies a request for GPU stands beside it.
_BESIDE_GPU: Final = frozenset({"gpu_portion_request", *FOLLOWERS})
_WORD: Final = Scalar("value", null=False, plain=True, line=0, column=0)


@cache
def _older() -> dict[str, dict[str, Row]]:
    """The groups of older documents: word -> member -> row. Their rows have them as aliases with a dot."""
    groups: dict[str, dict[str, Row]] = {}
    for row in catalogue().rows:
        for group, dot, member in (alias.partition(".") for alias in row.aliases):
            if dot:
                groups.setdefault(group, {})[member] = row
    return groups


@cache
def _known() -> dict[str, tuple[str, Taker]]:
    """The usual fields: word -> proto name, how it is read."""
    rows = catalogue().by_yaml.items()
    return {word: (row.name, _taker(row)) for word, row in rows if not row.beside_spec and not row.refused}


@cache
def _taker(row: Row) -> Taker:
    if row.type == of.ITEMIZED:
        return lambda findings, node, path, spec: _items(findings, row, node, path, getattr(spec, row.name))
    take = VALUES.get(row.name) or taker(row)
    listed = LISTS.get(row.name)

    def unwrapped(findings: Findings, node: Node, path: str, spec: Any) -> None:
        if isinstance(node, Mapping) and len(node.entries) == 1 and node.entries[0][0].text == "value":
            take(findings, node.entries[0][1], f"{path}.value", spec)
            return
        if listed is not None and isinstance(node, Mapping) and entry(node, "items"):
            listed(findings, node, path, spec)
            return
        value, path = _unwrap(findings, row, node, path)
        if value is not None:
            take(findings, value, path, spec)

    return unwrapped


def _unwrap(findings: Findings, row: Row, node: Node, path: str) -> tuple[Node | None, str]:
    """The node behind `value:`; bare fields may be written without it. None after an error."""
    wrapped = entry(node, "value") if isinstance(node, Mapping) else None
    if wrapped is not None and isinstance(node, Mapping):
        findings.unknown(node, _VALUE, f"{path}.")
        return wrapped[1], f"{path}.value"
    if row.bare:
        return node, path
    shape = f"{path.rpartition('.')[2]}: {{value: ..}}"
    if isinstance(node, Mapping):
        findings.unknown(node, _VALUE, f"{path}.")
        if not node.entries:
            findings.say(path, node, "the field has no value", shape)
    elif isinstance(node, Scalar) and not node.null:
        given = "a credential" if row.sensitive else shown(node.text)
        findings.say(path, node, f"{given} stands here without `value:`", shape)
    else:
        findings.say(path, node, "the field has no value", shape)
    return None, path


def _items(findings: Findings, row: Row, node: Node, path: str, target: Any) -> None:
    """The labelled items of an itemized field."""
    shape = f"{path.rpartition('.')[2]}: {{items: {{LABEL: {{value: ..}}}}}}"
    if not isinstance(node, Mapping):
        findings.say(path, node, "the field has no items", shape)
        return
    if len(node.entries) == 1 and node.entries[0][0].text == "items":
        items: Node | None = node.entries[0][1]
    else:
        findings.unknown(node, _ITEMS, f"{path}.")
        items = next((value for key, value in node.entries if key.text == "items"), None)
    if items is None:
        if not node.entries:
            findings.say(path, node, "the field has no items", shape)
    elif isinstance(items, Mapping):
        take = item_taker(row)
        for label, value in items.entries:
            _item(findings, take, label, value, f"{path}.items.{label.text}", target)
    elif not (isinstance(items, Scalar) and items.null):
        findings.say(f"{path}.items", items, "items is not a mapping of labels", shape)


def _item(findings: Findings, take: Taker, label: Scalar, node: Node, path: str, target: Any) -> None:
    if not isinstance(node, Mapping):
        findings.say(path, node, "the item is not a mapping", "value: .., or deleted: true")
        return
    item = target.add(label=label.text)
    for key, value in node.entries:
        here = f"{path}.{key.text}"
        if key.text == "value":
            take(findings, value, here, item)
        elif key.text == "deleted":
            TAKE_DELETED(findings, value, here, item)
        else:
            findings.say(here, key, *unknown_field(key.text, list(_ITEM)))
