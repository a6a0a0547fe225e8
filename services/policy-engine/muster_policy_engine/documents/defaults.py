"""The defaults of a policy document: each one a step that fills a spec, tried on an empty one when it is read.

Used by the document's reader.
Holds: a default that would be refused in a workload is refused here, at its line, and not at each use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from muster_language import Row, WorkloadSpec, check_layer
from muster_language.catalogue import value_types as of
from muster_language.documents.nodes import Node, Sequence
from muster_language.labels import label_of, members_of
from muster_language.spec import set_kind
from muster_policy_engine.places import Place
from muster_policy_engine.documents.reading import NodeReader

Fill = Callable[[WorkloadSpec], None]


@dataclass(frozen=True, slots=True)
class Default:
    """One default; `attribute`: it goes into the section's attributes, not into its defaults."""

    place: Place
    fill: Fill
    attribute: bool = False


def default(reader: NodeReader, place: Place, node: Node, path: str) -> Default | None:
    """The default that a node says for a place; None where it says none that could be taken."""
    fill: Fill | None = None
    if place.itemized and place.member is None:
        fill = _items(reader, place, node, path)
    else:
        value = reader.scalar(place.value, node, path)
        if value is not None:
            fill = partial(_member if place.member is not None else _field, place, value)
    if fill is None:
        return None
    said = Default(place, fill, attribute=place.itemized and place.member is not None)
    if not said.attribute:
        _try(reader, said, node, path)
    return said


def _try(reader: NodeReader, said: Default, node: Node, path: str) -> None:
    spec = WorkloadSpec()
    set_kind(spec, min(said.place.kinds & said.place.row.kinds))
    said.fill(spec)
    for each in check_layer(spec):
        reader.say(path, node, each.message, each.allowed)


def _field(place: Place, value: Any, spec: WorkloadSpec) -> None:
    _put(place.row, place.target(spec), value)


def _member(place: Place, value: Any, spec: WorkloadSpec) -> None:
    """A member of an object, or of the one item that stands for all."""
    if place.member is None:
        raise ValueError(f"{place.path} has no member")
    target = getattr(place.target(spec), place.row.name)
    if place.itemized:
        target = target[0] if len(target) else target.add()
    _put(place.member, target, value)


def _put(row: Row, target: Any, value: Any) -> None:
    if row.type == of.ARRAY:
        entries = getattr(target, row.name)
        entries.ClearField("values")
        entries.values.extend(value)
    else:
        setattr(target, row.name, value)


def _items(reader: NodeReader, place: Place, node: Node, path: str) -> Fill | None:
    """`[{name: A, value: b}]`, by REST names; the label is what REST calls the item."""
    if not isinstance(node, Sequence):
        reader.say(path, node, "a list of items belongs here", "[{name: ..}]")
        return None
    items = [_item(reader, place.row, item, f"{path}.{index}") for index, item in enumerate(node.items)]
    return partial(_add, place, [item for item in items if item])


def _item(reader: NodeReader, row: Row, node: Node, path: str) -> list[tuple[Row | None, Any]]:
    """The members that an item says; None stands for its label."""
    members = {member.rest: member for member in members_of(row) if member.rest}
    label = next((each.rest for each in row.inside if each.name == "label" and each.rest), "name")
    item: list[tuple[Row | None, Any]] = []
    known = [label, *(name for name in members if name != label)]
    for key, value in reader.entries(node, path, known):
        if key == label and label not in members:
            text = reader.word(value, f"{path}.{key}")
            item += [(None, text)] if text else []
            continue
        read = reader.scalar(members[key], value, f"{path}.{key}")
        item += [(members[key], read)] if read is not None else []
    return item


def _add(place: Place, items: list[list[tuple[Row | None, Any]]], spec: WorkloadSpec) -> None:
    target = getattr(place.target(spec), place.row.name)
    for members in items:
        added = target.add()
        for member, value in members:
            if member is None:
                added.label = value
            else:
                _put(member, added, value)
        added.label = label_of(added)
        known = next((index for index, each in enumerate(target) if each.label == added.label), len(target) - 1)
        if known != len(target) - 1:
            target[known].CopyFrom(added)
            del target[len(target) - 1]
