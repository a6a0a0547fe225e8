"""Layers of a workload into one spec, with the layer that every value came from.

Called by policy for the effective spec and by submission where a template is shown. Pure; `overlay` is the fast form.
Rules: scalars go by presence, lists that are one value whole, items whole by their label at their first position,
tombstones take items out, objects go member by member, a member of an exclusive group clears the others below it, a
workload's own is not inherited; last, attributes fill what the remaining items leave unsaid.
Holds: no layer is changed; merging the result of a merge with nothing gives it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from muster_language.catalogue import Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.labels import label_of, members_of
from muster_language.merging.layers import SHARED, Cleared, Layer, LayerName, Merged
from muster_language.merging.overlay import MASTER, Group, given, groups, put, settle, unsaid
from muster_language.spec import WorkloadSpec


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


@dataclass(frozen=True, slots=True)
class _Step:
    """One layer on its way in; `prefix` is the path in front of its fields (`masterSpec.` inside the master)."""

    name: LayerName
    trace: _Trace
    prefix: str = ""

    def at(self, path: str) -> str:
        """A path as provenance has it."""
        return f"{self.prefix}{path}"

    def note(self, path: str) -> None:
        """The value at the path is this layer's."""
        self.trace.provenance[path] = self.name


def merge(layers: Sequence[Layer]) -> Merged:
    """The spec that the layers, given from low to high, make together; its kind is that of the highest with one."""
    spec = WorkloadSpec()
    trace = _Trace()
    for layer in layers:
        _apply(spec, layer.spec, _Step(layer.name, trace))
    settle(spec)
    for layer in reversed(layers):
        if layer.attributes is not None:
            _fill(spec, layer.attributes, _Step(layer.name, trace))
    return Merged(spec, trace.provenance, trace.cleared)


def _apply(spec: Any, layer: Any, step: _Step) -> None:
    rows = catalogue().by_number
    if layer.kind:
        spec.kind = layer.kind
    taken = [(rows[each.number], value) for each, value in layer.ListFields() if each.number in rows]
    if step.name in SHARED:
        taken = [(row, value) for row, value in taken if not row.own]
    _make_way(spec, {row.name for row, _ in taken}, step)
    for row, value in taken:
        path = step.at(row.path)
        if row.type == of.ITEMIZED:
            _items(getattr(spec, row.name), value, path, step)
        elif row.name == MASTER:
            spec.master_spec.SetInParent()
            _apply(spec.master_spec, value, _Step(step.name, step.trace, f"{path}."))
        elif row.type == of.OBJECT:
            _object(row, getattr(spec, row.name), value, path, step)
        else:
            put(row, spec, layer)
            step.note(path)
    for row in catalogue().whole:
        if layer.HasField(row.name):
            put(row, spec, layer)
            step.note(step.at(row.path))


@cache
def _group_rows(group: Group) -> tuple[Row, ...]:
    return tuple(catalogue().by_name[name] for name in group.all)


def _make_way(spec: Any, names: set[str], step: _Step) -> None:
    """Clears the exclusive groups that the layer is about to set, so that `gpu: 2` over `gpu: 0.5` is two devices."""
    for group in groups():
        if names.isdisjoint(group.members):
            continue
        for row in _group_rows(group):
            if spec.HasField(row.name):
                spec.ClearField(row.name)
                if row.name not in names:
                    step.trace.clear(step.at(row.path), step.name)


def _object(row: Row, target: Any, value: Any, path: str, step: _Step) -> None:
    target.SetInParent()
    for member in members_of(row):
        if not given(member, value):
            continue
        put(member, target, value)
        step.note(f"{path}.{member.path}")


def _items(target: Any, items: Iterable[Any], path: str, step: _Step) -> None:
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
        if item.deleted:
            step.trace.clear(f"{path}.{label}", step.name)
        else:
            step.note(f"{path}.{label}")


def _fill(spec: Any, attributes: Any, step: _Step) -> None:
    """`overlay.fill`, which says of each member that it came from this layer."""
    for row, item, wanted, members in unsaid(spec, attributes):
        for member in members:
            put(member, item, wanted)
            step.note(f"{step.at(row.path)}.{item.label}.{member.path}")
    if spec.HasField(MASTER):
        inner = attributes.master_spec if attributes.HasField(MASTER) else attributes
        _fill(spec.master_spec, inner, _Step(step.name, step.trace, f"{step.prefix}masterSpec."))
