"""Layers of a workload into one spec: catalogue defaults < policy defaults < template < the workload itself.

Called by policy for the effective spec and by submission where a template is shown. Pure; the fast form is `overlay`.
Rules: scalars go by presence, items whole by their label at their first position, tombstones take items out, objects
go member by member, a member of an exclusive group clears the others below it, a workload's own is not inherited.
Holds: no layer is changed; merging the result of a merge with nothing gives it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Final

from muster_language import value_types as of
from muster_language.catalogue import COMPANIONS, Row, catalogue
from muster_language.labels import label_of
from muster_language.spec import Kind, WorkloadSpec, set_kind


class LayerName(StrEnum):
    """The layers, the lowest first. The words are those of `Source.layer` in the events."""

    LANGUAGE = "language"
    POLICY = "policy"
    TEMPLATE = "template"
    WORKLOAD = "workload"


_INHERITED: Final = frozenset({LayerName.POLICY, LayerName.TEMPLATE})


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer under its name."""

    name: LayerName
    spec: WorkloadSpec


@dataclass(frozen=True, slots=True)
class Cleared:
    """A value or item of `layer` at `path` that the layer `by` took away without giving one of its own there."""

    path: str
    layer: LayerName
    by: LayerName


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged spec; `provenance` says per field or item path which layer its value came from."""

    spec: WorkloadSpec
    provenance: dict[str, LayerName]
    cleared: list[Cleared]


@dataclass(slots=True)
class _Trace:
    """What `merge` remembers beside the spec."""

    provenance: dict[str, LayerName] = field(default_factory=dict)
    cleared: list[Cleared] = field(default_factory=list)

    def clear(self, path: str, by: LayerName) -> None:
        """Something at `path` is gone; its members go with it."""
        inside = f"{path}."
        for each in [known for known in self.provenance if known == path or known.startswith(inside)]:
            self.cleared.append(Cleared(each, self.provenance.pop(each), by))


def merge(layers: Sequence[Layer]) -> Merged:
    """The spec that the layers, given from low to high, make together; its kind is that of the highest with one."""
    spec = WorkloadSpec()
    trace = _Trace()
    for layer in layers:
        _apply(spec, layer.spec, "", layer.name, trace)
    _bury(spec)
    return Merged(spec, trace.provenance, trace.cleared)


def overlay(low: WorkloadSpec, *higher: WorkloadSpec) -> WorkloadSpec:
    """The same without provenance, for layers that may all give everything. `low` is not changed."""
    spec = WorkloadSpec()
    for layer in (low, *higher):
        _apply(spec, layer, "", LayerName.WORKLOAD, None)
    _bury(spec)
    return spec


@cache
def language_layer(kind: Kind) -> Layer:
    """The defaults that the language itself gives to a kind: the lowest layer. Not to be changed by callers."""
    spec = WorkloadSpec()
    set_kind(spec, kind)
    for row in catalogue().of_kind(kind):
        if row.default is not None:
            setattr(spec, row.name, _default(row, row.default))
    return Layer(LayerName.LANGUAGE, spec)


def _default(row: Row, text: str) -> bool | int | float | str:
    if row.words is not None:
        return row.words.by_word[text.casefold()]
    match row.type:
        case of.BOOLEAN:
            return text == "true"
        case of.INTEGER:
            return int(text)
        case of.NUMBER:
            return float(text)
        case _:
            return text


def _apply(spec: Any, layer: Any, prefix: str, name: LayerName, trace: _Trace | None) -> None:
    """One layer over what is there; `prefix` is the path in front of its fields (`masterSpec.` inside the master)."""
    given = layer.ListFields()
    rows = catalogue().by_number
    if layer.kind:
        spec.kind = layer.kind
    taken = [(rows[each.number], value) for each, value in given if each.number in rows]
    if name in _INHERITED:
        taken = [(row, value) for row, value in taken if not row.own]
    _make_way(spec, [row for row, _ in taken], prefix, name, trace)
    for row, value in taken:
        path = f"{prefix}{row.path}"
        if row.type == of.ITEMIZED:
            _items(getattr(spec, row.name), value, path, name, trace)
        elif row.beside_spec:
            getattr(spec, row.name).SetInParent()
            _apply(getattr(spec, row.name), value, f"{path}.", name, trace)
        elif row.type == of.OBJECT:
            _object(row, getattr(spec, row.name), value, path, name, trace)
        else:
            _scalar(row, spec, value)
            if trace is not None:
                trace.provenance[path] = name


def _scalar(row: Row, spec: Any, value: Any) -> None:
    if row.type == of.ARRAY:
        getattr(spec, row.name).CopyFrom(value)
    else:
        setattr(spec, row.name, value)


@cache
def _group_of(name: str) -> tuple[str, tuple[Row, ...]] | None:
    """The exclusive group of a field and all rows in it, its number of devices included."""
    row = catalogue().by_name[name]
    group = row.exclusive or COMPANIONS.get(name, "")
    if not group:
        return None
    rows = (each for each in catalogue().rows if each.exclusive == group or COMPANIONS.get(each.name) == group)
    return group, tuple(rows)


def _make_way(spec: Any, given: list[Row], prefix: str, name: LayerName, trace: _Trace | None) -> None:
    """Clears the exclusive groups that the layer is about to set, so that `gpu: 2` over `gpu: 0.5` is two devices."""
    names = {row.name for row in given}
    groups = dict(found for found in (_group_of(row.name) for row in given) if found is not None)
    for rows in groups.values():
        for row in rows:
            if not spec.HasField(row.name):
                continue
            spec.ClearField(row.name)
            if trace is not None and row.name not in names:
                trace.clear(f"{prefix}{row.path}", name)


def _object(row: Row, target: Any, value: Any, path: str, name: LayerName, trace: _Trace | None) -> None:
    target.SetInParent()
    for member in row.members:
        if value.HasField(member.name):
            setattr(target, member.name, getattr(value, member.name))
            if trace is not None:
                trace.provenance[f"{path}.{member.path}"] = name


def _items(target: Any, items: Iterable[Any], path: str, name: LayerName, trace: _Trace | None) -> None:
    places = {item.label: index for index, item in enumerate(target)}
    for item in items:
        label = label_of(item)
        known = places.get(label)
        if known is None:
            places[label] = len(target)
            target.add().CopyFrom(item)
        else:
            target[known].CopyFrom(item)
        target[places[label]].label = label
        if trace is None:
            continue
        if item.deleted:
            trace.clear(f"{path}.{label}", name)
        else:
            trace.provenance[f"{path}.{label}"] = name


@cache
def _itemized() -> tuple[str, ...]:
    return tuple(row.name for row in catalogue().rows if row.type == of.ITEMIZED)


def _bury(spec: Any) -> None:
    """Takes the tombstones out: they belong to the stored layers, not to what runs."""
    for name in _itemized():
        items = getattr(spec, name)
        for index in range(len(items) - 1, -1, -1):
            if items[index].deleted:
                del items[index]
            else:
                items[index].ClearField("deleted")
    if spec.HasField("master_spec"):
        _bury(spec.master_spec)
