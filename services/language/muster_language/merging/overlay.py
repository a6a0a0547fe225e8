"""The fast form of the merge: the same spec as `merge` gives, without saying where its values came from.

Called where a spec is shown or a master is completed, and by whoever merges very many. protobuf's own MergeFrom does
the scalars and objects in C; what it does differently from the language (exclusive groups, lists that are one value,
items by label) is put right around it, by tables made once from the catalogue.
Holds: no argument is changed; `overlay(*specs) == merge(layers of the same).spec` (a property test).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from muster_language.catalogue import COMPANIONS, FOLLOWERS, Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.labels import label_of, members_of
from muster_language.merging.layers import SHARED, Layer
from muster_language.spec import WorkloadSpec

MASTER: Final = "master_spec"


@dataclass(frozen=True, slots=True)
class Group:
    """An exclusive group: a layer that gives one of `members` takes everything in `all` from the layers below.

    Followers (limits, the request's type) are in `all` alone: they mean nothing without the member that they qualify.
    """

    name: str
    members: tuple[str, ...]
    all: tuple[str, ...]


@cache
def groups() -> tuple[Group, ...]:
    """The exclusive groups of the catalogue."""
    rows = catalogue().rows
    names = dict.fromkeys(row.exclusive for row in rows if row.exclusive)
    return tuple(_group(name, rows) for name in names)


def _group(name: str, rows: tuple[Row, ...]) -> Group:
    members = tuple(row.name for row in rows if row.exclusive == name or COMPANIONS.get(row.name) == name)
    known = {row.name for row in rows}
    followers = tuple(each for each, group in FOLLOWERS.items() if group == name and each in known)
    return Group(name, members, members + followers)


def overlay(low: WorkloadSpec, *higher: WorkloadSpec) -> WorkloadSpec:
    """The specs laid over each other, each of which may give everything."""
    spec = WorkloadSpec()
    spec.CopyFrom(low)
    for layer in higher:
        _lay(spec, layer)
    settle(spec)
    return spec


def combine(layers: Iterable[Layer]) -> WorkloadSpec:
    """What `merge` gives as its spec: as `overlay`, but names and the like of shared layers are left behind."""
    spec = WorkloadSpec()
    given = tuple(layers)
    for layer in given:
        if layer.name in SHARED:
            _lay(spec, without_own(layer.spec))
        else:
            _lay(spec, layer.spec)
    settle(spec)
    for layer in reversed(given):
        if layer.attributes is not None:
            fill(spec, layer.attributes)
    return spec


def without_own(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec without the fields that are never inherited, its master's included; itself where it has none."""
    has_master = spec.HasField("master_spec")
    if not has_master and not any(spec.HasField(name) for name in _own()):  # type: ignore[arg-type]
        return spec
    shared = WorkloadSpec()
    shared.CopyFrom(spec)
    for one in (shared, shared.master_spec) if has_master else (shared,):
        for name in _own():
            one.ClearField(name)  # type: ignore[arg-type]
    return shared


@cache
def _own() -> tuple[str, ...]:
    return tuple(row.name for row in catalogue().rows if row.own)


def _lay(spec: Any, layer: Any) -> None:
    for group in groups():
        if any(layer.HasField(name) for name in group.members):
            for name in group.all:
                spec.ClearField(name)
    for name in _one_value():
        if layer.HasField(name):
            spec.ClearField(name)
    if layer.HasField(MASTER):
        # The master is a spec of its own: MergeFrom would add up its lists and keep both sides of a group.
        master = WorkloadSpec()
        master.CopyFrom(spec.master_spec)
        _lay(master, layer.master_spec)
        spec.MergeFrom(layer)
        spec.master_spec.CopyFrom(master)
    else:
        spec.MergeFrom(layer)


@cache
def _one_value() -> tuple[str, ...]:
    """Messages that are one value: a later one takes the place of an earlier one, where MergeFrom would add them up."""
    every = catalogue()
    return tuple(row.name for row in (*every.rows, *every.whole) if row.type in {of.ARRAY, of.WHOLE})


@cache
def itemized() -> tuple[str, ...]:
    """The proto names of the itemized fields."""
    return tuple(row.name for row in catalogue().rows if row.type == of.ITEMIZED)


def settle(spec: Any) -> None:
    """Items of all layers, one after the other, into one a label: the last one, at its first place; the dead go."""
    for name in itemized():
        items = getattr(spec, name)
        if not items:
            continue
        last: dict[str, Any] = {}
        for item in items:
            label = item.label
            if not label:
                label = item.label = label_of(item)
            last[label] = item
        alive = [item for item in last.values() if not item.deleted]
        if len(alive) != len(items):
            del items[:]
            items.extend(alive)
        for item in items:
            item.ClearField("deleted")  # `deleted: false` in a layer only says that the item is there
    if spec.HasField(MASTER):
        settle(spec.master_spec)


def fill(spec: Any, attributes: Any) -> None:
    """Gives every item the members of its field's attributes that it does not say itself."""
    for _, item, wanted, members in unsaid(spec, attributes):
        for member in members:
            put(member, item, wanted)
    if spec.HasField(MASTER):
        fill(spec.master_spec, attributes.master_spec if attributes.HasField(MASTER) else attributes)


def unsaid(spec: Any, attributes: Any) -> Iterator[tuple[Row, Any, Any, list[Row]]]:
    """The items of fields that have attributes: the field, the item, the attributes, and which of them it lacks."""
    for row in catalogue().rows:
        if row.type != of.ITEMIZED or not getattr(attributes, row.name):
            continue
        wanted = getattr(attributes, row.name)[0]
        for item in getattr(spec, row.name):
            lacking = [one for one in members_of(row) if given(one, wanted) and not given(one, item)]
            yield row, item, wanted, lacking


def given(member: Row, message: Any) -> bool:
    """Whether the message says the member."""
    return bool(message.HasField(member.name))


def put(member: Row, target: Any, source: Any) -> None:
    """The member's value of `source` in place of the one of `target`."""
    value = getattr(source, member.name)
    if member.type in {of.ARRAY, of.WHOLE}:
        getattr(target, member.name).CopyFrom(value)
    else:
        setattr(target, member.name, value)


def gpu_members() -> tuple[str, ...]:
    """The proto names that together are the GPU request: exclusive with each other, or what qualifies them."""
    return next(group.all for group in groups() if group.name == "gpu")
