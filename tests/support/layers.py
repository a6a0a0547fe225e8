"""Specs of every shape that protobuf can hold, legal or not, and stacks of named layers of them.

For laws that hold before anything is checked: the merge, and that no spec makes the checks or policy raise.
`specs.py` beside this draws legal layers.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from muster_language import Kind, Layer, LayerName, WorkloadSpec, catalogue
from muster_language.catalogue import Row
from muster_language.catalogue import value_types as of
from muster_language.merging.layers import SHARED
from muster_language.merging.overlay import MASTER
from muster_language.spec import set_kind

ROWS = tuple(row for row in (*catalogue().rows, *catalogue().whole) if row.name != MASTER)
LABELS = st.sampled_from(["a", "b", "c"])


def _scalar(row: Row, message: Any, draw: st.DrawFn) -> Any:
    field = message.DESCRIPTOR.fields_by_name[row.name]
    if field.enum_type is not None:
        return draw(st.sampled_from([value.number for value in field.enum_type.values if value.number] or [0]))
    if field.cpp_type == field.CPPTYPE_BOOL:
        return draw(st.booleans())
    if field.cpp_type in {field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT}:
        return draw(st.sampled_from([0.0, 0.5, 1.0]))
    return draw(st.sampled_from(["x", "y"] if field.cpp_type == field.CPPTYPE_STRING else [0, 1, 2]))


def _fill(row: Row, message: Any, draw: st.DrawFn) -> None:
    """Gives the message a value for the row, whatever its shape is."""
    if row.type == of.ARRAY:
        getattr(message, row.name).values.extend(draw(st.lists(st.sampled_from(["p", "q"]), max_size=2, unique=True)))
        getattr(message, row.name).SetInParent()
    elif row.type == of.WHOLE:
        message.colossal.torch_config.script.extend(draw(st.lists(st.sampled_from(["a.py", "b"]), max_size=2)))
        message.colossal.SetInParent()
    elif row.type == of.OBJECT:
        getattr(message, row.name).SetInParent()
        _members(row, getattr(message, row.name), draw)
    else:
        setattr(message, row.name, _scalar(row, message, draw))


def _members(row: Row, message: Any, draw: st.DrawFn) -> None:
    for member in draw(st.lists(st.sampled_from(row.members), max_size=3, unique=True)) if row.members else []:
        _fill(member, message, draw)


def _item(row: Row, target: Any, draw: st.DrawFn, *, tombstones: bool) -> None:
    label = draw(LABELS)
    if any(item.label == label for item in target):
        return  # two items of one label in one layer are refused before anything merges
    item = target.add(label=label)
    if tombstones and draw(st.integers(0, 3)) == 0:
        item.deleted = True
    elif row.members:
        _members(row, item, draw)
    else:
        item.value = draw(st.sampled_from(["v", "w"]))


@st.composite
def specs(draw: st.DrawFn, *, tombstones: bool = True, master: bool = True) -> WorkloadSpec:
    spec = WorkloadSpec()
    if draw(st.booleans()):
        set_kind(spec, draw(st.sampled_from(Kind)))
    for row in draw(st.lists(st.sampled_from(ROWS), max_size=8, unique=True)):
        if row.type == of.ITEMIZED:
            for _ in range(draw(st.integers(1, 3))):
                _item(row, getattr(spec, row.name), draw, tombstones=tombstones)
        else:
            _fill(row, spec, draw)
    if master and draw(st.integers(0, 3)) == 0:
        spec.master_spec.CopyFrom(draw(specs(tombstones=tombstones, master=False)))
    return spec


@st.composite
def stacks(draw: st.DrawFn) -> list[Layer]:
    """Some layers in their order, policies with attributes."""
    names = [name for name in LayerName if name is not LayerName.DERIVED and draw(st.booleans())]
    return [
        Layer(name, draw(specs()), draw(specs(tombstones=False)) if name in SHARED and draw(st.booleans()) else None)
        for name in names
    ]
