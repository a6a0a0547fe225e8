"""The defaults of a document: nodes into values, each tried on an empty spec; and defaults laid into a spec.

Used by the reader of a policy's body, and by composing.
Holds: a default that would be refused in a workload is refused here, at its line, and not at each use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from muster_language import Row, WorkloadSpec, check_layer
from muster_language.catalogue import value_types as of
from muster_language.documents.nodes import Mapping, Node, Sequence, entry
from muster_language.labels import label_of, members_of
from muster_language.spec import set_kind
from muster_policy_engine.documents.reading import NodeReader, is_null, join
from muster_policy_engine.places import Place
from muster_policy_engine.policy import Default

_EXCLUDE: Final = "exclude"
CREDENTIALS: Final = "a policy may not hold credentials: name a Secret"


class Given(NamedTuple):
    """A default, and the node that gives it."""

    default: Default
    node: Node


def defaults(reader: NodeReader, place: Place, node: Node, path: str) -> Iterator[Given]:
    """The defaults that a node says for a place: one value, or an item each. What is wrong is said to the reader."""
    if is_null(node):
        return
    if place.instances:
        yield from _items(reader, place, node, path)
        return
    value = reader.scalar(place.value, node, path)
    if value is not None:
        yield from _tried(reader, Default(place, value), node, path)


def lay(given: Iterable[Default]) -> tuple[WorkloadSpec, WorkloadSpec]:
    """The defaults as a layer: the spec, and the attributes, which have one item a field."""
    spec, attributes = WorkloadSpec(), WorkloadSpec()
    for each in given:
        _fill(each, attributes if each.attribute else spec)
        if each.attribute and each.place.side:
            # Those of the workers are not the master's, to whose items the merge would give them otherwise.
            attributes.master_spec.SetInParent()
    return spec, attributes


def _tried(reader: NodeReader, said: Default, node: Node, path: str) -> Iterator[Given]:
    if said.attribute or said.excluded:
        yield Given(said, node)
        return
    spec = WorkloadSpec()
    set_kind(spec, min(said.place.kinds))
    _fill(said, spec)
    found = check_layer(spec)
    for each in found:
        reader.say(path, node, each.message, each.allowed)
    if not found:
        yield Given(said, node)


def _fill(said: Default, spec: WorkloadSpec) -> None:
    place, target = said.place, said.place.target(spec)
    if place.instances:
        _add(said, getattr(target, place.row.name))
    elif place.member is None:
        _put(place.row, target, said.value)
    else:
        inner = getattr(target, place.row.name)
        if place.itemized:  # one item stands for all
            inner = inner[0] if len(inner) else inner.add()
        _put(place.member, inner, said.value)


def _put(row: Row, target: Any, value: Any) -> None:
    if row.type == of.ARRAY:
        entries = getattr(target, row.name)
        entries.ClearField("values")
        entries.values.extend(value)
    else:
        setattr(target, row.name, value)


def _add(said: Default, items: Any) -> None:
    item = type(items.add())()
    del items[-1]
    for member, value in said.members:
        if member is not None:
            _put(member, item, value)
    item.label = said.label
    item.deleted = said.excluded
    known = next((each for each in items if each.label == said.label), None)
    (items.add() if known is None else known).CopyFrom(item)


def _items(reader: NodeReader, place: Place, node: Node, path: str) -> Iterator[Given]:
    """`[{name: A, value: b}]`, by REST names; the label is what REST calls the item."""
    if not isinstance(node, Sequence):
        reader.say(path, node, "a list of items belongs here", "[{name: ..}]")
        return
    for index, each in enumerate(node.items):
        here = f"{path}.{index}"
        before = len(reader.found)
        said = _item(reader, place, each, here)
        if len(reader.found) == before:
            yield from _tried(reader, said, each, here)


def _item(reader: NodeReader, place: Place, node: Node, path: str) -> Default:
    row = place.row
    members = {member.rest: member for member in members_of(row) if member.rest}
    label = label_word(row)
    said: list[tuple[Row | None, Any]] = []
    secrets = _secrets(row)
    known = [label, *(name for name in members if name != label), _EXCLUDE]
    excluded = False
    for key, value in _leaves(reader, node, path, known, secrets):
        here = join(path, key)
        if key in secrets:
            reader.say(here, value, CREDENTIALS)
        elif key == _EXCLUDE:
            excluded = reader.flag(value, here) or False
        elif key == label and label not in members:
            text = reader.word(value, here)
            said += [(None, text)] if text else []
        elif not is_null(value):
            read = reader.scalar(members[key], value, here)
            said += [(members[key], read)] if read is not None else []
    made = Default(place, members=tuple(said), excluded=excluded)
    labelled = _labelled(made)
    if not labelled.label:
        reader.say(path, node, "the item has no label", f"{label}: TEXT")
    if excluded and isinstance(node, Mapping) and any(entry(node, name) for name in members if name != label):
        reader.say(path, node, "an excluded item says nothing else", f"{{{label}: .., {_EXCLUDE}: true}}")
    return labelled


def _leaves(
    reader: NodeReader, node: Node, path: str, known: list[str], unnamed: Collection[str]
) -> Iterator[tuple[str, Node]]:
    """The members of an item, nested (`claimInfo: {size: 1Gi}`) or in one word with dots."""
    outer = {name.rpartition(".")[0] for name in known if "." in name}
    outer |= {name.partition(".")[0] for name in outer}
    for key, value in reader.entries(node, path, known, {*unnamed, *outer}):
        if key not in outer:
            yield key, value
            continue
        inside = [name.removeprefix(f"{key}.") for name in known if name.startswith(f"{key}.")]
        yield from ((f"{key}.{inner}", leaf) for inner, leaf in _leaves(reader, value, join(path, key), inside, ()))


def _secrets(row: Row) -> frozenset[str]:
    """The members that are credentials, by every name that they have."""
    secret = [member for member in members_of(row) if member.sensitive]
    return frozenset(name for each in secret for name in (each.yaml, each.rest, *each.aliases) if name)


def label_word(row: Row) -> str:
    """What REST calls the label of the row's items: name, or resource."""
    return next((each.rest for each in row.inside if each.name == "label" and each.rest), "name")


def _labelled(said: Default) -> Default:
    item = getattr(WorkloadSpec(), said.place.row.name).add()
    for member, value in said.members:
        if member is None:
            item.label = value
        else:
            _put(member, item, value)
    return Default(said.place, label=label_of(item), members=said.members, excluded=said.excluded)
