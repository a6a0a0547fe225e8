"""The defaults of a v1 policy: values and items as a workload writes them, read by the reader of workloads.

Used by the reader of a block. What a workload may write a policy may give, in the same words, so the values are put
together into the document that a workload would be, read and checked as one, and taken apart into defaults.
Holds: a default that would be refused in a workload is refused here, at its line; a null gives nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from muster_language import Kind, Row, Violation, WorkloadSpec, catalogue, check_layer
from muster_language.catalogue import value_types as of
from muster_language.checks.bounds import refusal
from muster_language.documents.document import MORE, TooManyErrors
from muster_language.documents.fields import FieldReader
from muster_language.documents.findings import Findings
from muster_language.documents.nodes import Mapping, Node, Scalar
from muster_language.documents.places import place_of
from muster_language.labels import members_of
from muster_language.naming import YamlNaming
from muster_language.spec import set_kind
from muster_policy_engine.documents.defaults import CREDENTIALS
from muster_policy_engine.documents.reading import NodeReader, is_null
from muster_policy_engine.documents.v1_fields import Field, given_places
from muster_policy_engine.places import Side
from muster_policy_engine.policy import Default

_VALUE: Final = Scalar("value", null=False, plain=True, line=0, column=0)
_ITEMS: Final = Scalar("items", null=False, plain=True, line=0, column=0)
_UNKNOWN: Final = "unknown field"


@dataclass(slots=True)
class Given:
    """What a block gives so far, as nodes: fields in the form of a workload, and the members for every item."""

    reader: NodeReader
    kind: Kind
    side: Side
    path: str
    fields: list[tuple[Scalar, Node]] = field(default_factory=list)
    every: list[tuple[Field, Scalar, Scalar, Node]] = field(default_factory=list)

    def value(self, key: Scalar, node: Node) -> None:
        """The value of a field."""
        if not is_null(node):
            self.fields.append((key, _wrapped(_VALUE, _said(node))))

    def entries(self, key: Scalar, node: Node) -> None:
        """A list that is one value, written as labelled items."""
        if not is_null(node):
            self.fields.append((key, _wrapped(_ITEMS, _said(node))))

    def item(self, key: Scalar, label: Scalar, node: Node) -> None:
        """One item of a field."""
        if is_null(node):
            return
        entry = (label, _wrapped(_VALUE, _said(node)))
        if self.fields and self.fields[-1][0] is key:
            items = self.fields[-1][1].entries[0][1]  # type: ignore[union-attr]
            items.entries.append(entry)  # type: ignore[union-attr]
        else:
            self.fields.append((key, _wrapped(_ITEMS, Mapping([entry], label.line, label.column))))

    def attributes(self, known: Field, key: Scalar, label: Scalar, node: Node) -> None:
        """The members that every item of a field gets."""
        if not known.members and not is_null(node):
            path = f"{self.path}.{key.text}.items.{label.text}"
            self.reader.say(path, label, f"items of {known.word} have no members")
        elif not is_null(node):
            self.every.append((known, key, label, _said(node)))


def _said(node: Node) -> Node:
    """The node without the members of mappings that are null."""
    if not isinstance(node, Mapping):
        return node
    return node._replace(entries=[(key, _said(value)) for key, value in node.entries if not is_null(value)])


def _wrapped(key: Scalar, node: Node) -> Mapping:
    return Mapping([(key._replace(line=node.line, column=node.column), node)], node.line, node.column)


def defaults_of(given: Given, block: Node) -> Iterator[Default]:
    """The defaults of a block. What is wrong with them is said to its reader."""
    yield from _values(given, block)
    for known, key, label, node in given.every:
        yield from _attributes(given, known, key, label, node)


def _values(given: Given, block: Node) -> Iterator[Default]:
    tree = Mapping(given.fields, block.line, block.column)
    spec, findings = _read(given, tree)
    set_kind(spec, given.kind)
    root = Mapping([(_VALUE._replace(text=given.path), tree)], block.line, block.column)
    naming = YamlNaming(given.path)
    for each in (*check_layer(spec, naming), *_credentials(spec, naming)):
        if any(_is_inside(each.path, said.path) or _is_inside(said.path, each.path) for said in findings.found):
            continue  # what could not be read is said already, and the rest follows from it
        place = place_of(root, each.path, findings.moved)
        line, column = (place.line, place.column) if place is not None else (block.line, block.column)
        given.reader.found.append(Violation(each.path, each.message, line, column, each.allowed))
    places, rows = given_places(given.kind, given.side), catalogue().by_number
    for descriptor, value in spec.ListFields():
        row = rows.get(descriptor.number)
        if row is not None and row.name in places:
            yield from _defaults(given, row, value)


def _is_inside(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.")


def _read(given: Given, tree: Mapping) -> tuple[WorkloadSpec, Findings]:
    spec, findings = WorkloadSpec(), Findings()
    try:
        FieldReader(findings, given.kind).spec(tree, given.path, spec)
    except TooManyErrors:
        findings.found.append(MORE)
    given.reader.found.extend(map(_worded, findings.found))
    return spec, findings


def _worded(found: Violation) -> Violation:
    """The error, with the word that is unknown in it."""
    if not found.message.startswith(_UNKNOWN):
        return found
    word = found.path.rpartition(".")[2]
    message = f'{_UNKNOWN} "{word[:60]}"{found.message.removeprefix(_UNKNOWN)}'
    return Violation(found.path, message, found.line, found.column, found.allowed)


def _credentials(spec: Any, naming: YamlNaming) -> Iterator[Violation]:
    """Secrets in clear, which every reader of the policy would see."""
    for row in catalogue().rows:
        if row.sensitive and spec.HasField(row.name):
            yield Violation(naming.value(row), CREDENTIALS)
        elif row.type == of.ITEMIZED and any(member.sensitive for member in row.inside):
            for item in getattr(spec, row.name):
                for member in row.inside:
                    if member.sensitive and item.HasField(member.name):
                        yield Violation(naming.member(row, item.label, member), CREDENTIALS)


def _defaults(given: Given, row: Row, value: Any) -> Iterator[Default]:
    place, members = given_places(given.kind, given.side)[row.name]
    if row.type == of.ITEMIZED:
        for item in value:
            said = tuple((member, _plain(member, item)) for member in members_of(row) if item.HasField(member.name))
            yield Default(place, label=item.label, members=((None, item.label), *said))
    elif row.type == of.OBJECT:
        for member in members_of(row):
            if value.HasField(member.name) and member.name in members:
                yield Default(members[member.name], _plain(member, value))
    else:
        yield Default(place, list(value.values) if row.type == of.ARRAY else value)


def _plain(member: Row, message: Any) -> Any:
    value = getattr(message, member.name)
    return list(value.values) if member.type == of.ARRAY else value


def _attributes(given: Given, known: Field, key: Scalar, label: Scalar, node: Node) -> Iterator[Default]:
    entry = Mapping([(label, _wrapped(_VALUE, node))], label.line, label.column)
    spec, findings = _read(given, Mapping([(key, _wrapped(_ITEMS, entry))], key.line, key.column))
    path = f"{given.path}.{key.text}.items.{label.text}.value"
    if findings.found:
        return
    _, places = given_places(given.kind, given.side)[known.row.name]
    for item in getattr(spec, known.row.name):
        for member in members_of(known.row):
            if not item.HasField(member.name):
                continue
            value = _plain(member, item)
            refused = refusal(member, value)
            here = f"{path}.{member.yaml}"
            if member.sensitive:
                given.reader.say(here, node, CREDENTIALS)
            elif refused is not None:
                given.reader.say(here, _node_of(node, member), refused.message, refused.allowed)
            elif member.name in places:
                yield Default(places[member.name], value)


def _node_of(node: Node, member: Row) -> Node:
    words = {member.yaml, *member.aliases}
    entries = node.entries if isinstance(node, Mapping) else []
    return next((value for key, value in entries if key.text in words), node)
