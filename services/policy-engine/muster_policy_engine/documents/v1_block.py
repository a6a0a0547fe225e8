"""`spec` or `masterSpec` of a v1 policy: its fields into rules and defaults.

    FIELD: {rules: .., value: ..}
    LIST:  {rules: .., itemRules: {MEMBER: ..}, items: {LABEL: {rules: .., value: ..}, DEFAULTS: {value: ..}}}

Used by the reader of v1 documents.
Holds: what could not be read is said, and reading goes on, so that a person sees every error at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from muster_language import Kind
from muster_language.catalogue import nearest
from muster_language.catalogue import value_types as of
from muster_language.documents.forms import LISTS
from muster_language.documents.nodes import Mapping, Node, Scalar
from muster_policy_engine.documents.reading import NodeReader, is_null
from muster_policy_engine.documents.rules import RuleReader
from muster_policy_engine.documents.v1_defaults import Given, defaults_of
from muster_policy_engine.documents.v1_fields import Field, fields
from muster_policy_engine.places import Place, Side
from muster_policy_engine.policy import Body, Default, Ruled, Rules

ATTRIBUTES: Final = "DEFAULTS"
"""The label of what gives its members to every item."""


@dataclass(slots=True)
class _Touched:
    """The labels of a list that may not be taken out (kept), not be changed (fixed), or neither (locked)."""

    kept: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)

    def on(self, rules: Rules) -> Rules:
        """The rules of the list with these."""
        kept, fixed, locked = (tuple(each) or None for each in (self.kept, self.fixed, self.locked))
        return replace(rules, kept=kept, fixed=fixed, locked=locked)


class BlockReader:
    """Reads one block of a document of one kind."""

    def __init__(self, reader: NodeReader, kind: Kind, side: Side, path: str) -> None:
        self._reader = reader
        self._kind = kind
        self._path = path
        self._fields = fields(kind, side)
        self._rules = RuleReader(reader, kind)
        self._given = Given(reader, kind, side, path)
        self._found: dict[str, Ruled] = {}

    def read(self, node: Node) -> Body:
        """What the block says."""
        if not isinstance(node, Mapping):
            if not is_null(node):
                self._reader.say(self._path, node, f"{self._path} is not a mapping", "a mapping of fields")
            return Body()
        written: dict[str, str] = {}
        for key, value in node.entries:
            known = self._fields.get(key.text)
            if known is None:
                self._unknown(key)
            elif (first := written.setdefault(known.word, key.text)) != key.text:
                message = f"{key.text} and {first} are the same field"
                allowed = f"one of them; the usual name is {known.word}"
                self._reader.say(f"{self._path}.{key.text}", key, message, allowed)
            else:
                self._field(known, key, value, f"{self._path}.{key.text}")
        given: list[Default] = list(defaults_of(self._given, node))
        return Body(tuple(given), self._found)

    def _unknown(self, key: Scalar) -> None:
        word = key.text
        others = [kind.word for kind in Kind if kind is not self._kind and word in fields(kind)]
        near = nearest(word, list(self._fields))
        if self._path != "spec" and word in fields(self._kind):
            hint = ": it belongs to the workload as a whole, under spec"
        elif others:
            hint = f": a policy for {self._kind.word} does not take it, for {' and '.join(others)} it does"
        else:
            hint = f"; did you mean {near}?" if near else ""
        self._reader.say(f"{self._path}.{word}", key, f'unknown field "{word[:60]}"{hint}')

    def _field(self, known: Field, key: Scalar, node: Node, path: str) -> None:
        if is_null(node):
            return
        if known.row.bare and not isinstance(node, Mapping):
            self._given.value(key, node)
            return
        touched, rules = _Touched(), Rules()
        for word, inner in self._reader.entries(node, path, _words(known)):
            here = f"{path}.{word}"
            match word:
                case "rules":
                    rules = self._ruled(known.judged, inner, here)
                case "itemRules":
                    self._members(known, inner, here)
                case "items" if known.itemized:
                    self._items(known, key, inner, here, touched)
                case "items":
                    self._given.entries(key, inner)
                case _:
                    self._given.value(key, inner)
        self._put(known.judged, touched.on(rules) if known.itemized else rules)

    def _ruled(self, place: Place, node: Node, path: str) -> Rules:
        if is_null(node):
            return Rules()
        if not place.rules:
            word = path.removesuffix(".rules").rpartition(".")[2]
            self._reader.say(path, node, f"{word} takes no rules", "a default value alone")
            return Rules()
        return self._rules.rules(place, node, path)

    def _put(self, place: Place, rules: Rules) -> None:
        if rules.said:
            self._found[place.path] = Ruled(place, rules)

    def _members(self, known: Field, node: Node, path: str) -> None:
        written: dict[str, str] = {}
        for word, inner in self._reader.entries(node, path, list(known.members)):
            place = known.members[word]
            if (first := written.setdefault(place.path, word)) != word:
                self._reader.say(f"{path}.{word}", inner, f"{word} and {first} are the same member", "one of them")
            else:
                self._put(place, self._ruled(place, inner, f"{path}.{word}"))

    def _items(self, known: Field, key: Scalar, node: Node, path: str, touched: _Touched) -> None:
        if not isinstance(node, Mapping):
            if not is_null(node):
                self._reader.say(path, node, "items is not a mapping of labels", "items: {LABEL: {value: ..}}")
            return
        for label, item in node.entries:
            here = f"{path}.{label.text}"
            words = ["value"] if label.text == ATTRIBUTES else ["rules", "value"]
            for word, inner in self._reader.entries(item, here, words):
                if word == "rules":
                    self._touch(label.text, inner, f"{here}.rules", touched)
                elif label.text == ATTRIBUTES:
                    self._given.attributes(known, key, label, inner)
                else:
                    self._given.item(key, label, inner)

    def _touch(self, label: str, node: Node, path: str, touched: _Touched) -> None:
        words = ["canRemove", "canEdit"]
        said = {
            word: self._reader.flag(inner, f"{path}.{word}")
            for word, inner in self._reader.entries(node, path, words)
            if not is_null(inner)
        }
        kept, fixed = (said.get(word) is False for word in words)
        if kept or fixed:
            (touched.locked if kept and fixed else touched.kept if kept else touched.fixed).append(label)


def _words(known: Field) -> list[str]:
    if known.itemized:
        return ["rules", *(["itemRules"] if known.members else []), "items"]
    listed = known.row.type == of.ARRAY and known.row.name in LISTS
    return ["rules", "value", *(["items"] if listed else [])]
