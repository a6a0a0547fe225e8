"""The laws of the merge, over every field of the catalogue: it repeats itself, groups as it likes, invents nothing.

The specs here are typed but need not be legal: the merge comes before the checks and may not depend on them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_language import Kind, Layer, LayerName, WorkloadSpec, catalogue, combine, merge, overlay
from muster_language import value_types as of
from muster_language.catalogue import Row
from muster_language.labels import label_of
from muster_language.layers import SHARED
from muster_language.overlay import MASTER, itemized
from muster_language.overlay import given as says
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


def own(*given: WorkloadSpec) -> list[Layer]:
    return [Layer(LayerName.WORKLOAD, spec) for spec in given]


def sorted_items(spec: Any) -> WorkloadSpec:
    copy = WorkloadSpec()
    copy.CopyFrom(spec)
    for one in (copy, copy.master_spec) if copy.HasField(MASTER) else (copy,):
        for name in itemized():
            items = sorted(getattr(one, name), key=label_of)
            del getattr(one, name)[:]
            getattr(one, name).extend(items)
    return copy


@given(specs(), specs(), specs())
def test_the_fast_form_is_the_merge(a: WorkloadSpec, b: WorkloadSpec, c: WorkloadSpec) -> None:
    before = [each.SerializeToString(deterministic=True) for each in (a, b, c)]
    assert overlay(a, b, c) == merge(own(a, b, c)).spec
    assert [each.SerializeToString(deterministic=True) for each in (a, b, c)] == before


@settings(max_examples=200)
@given(stacks())
def test_the_fast_form_of_named_layers_is_the_merge(layers: list[Layer]) -> None:
    assert combine(layers) == merge(layers).spec


@given(specs(), specs())
def test_merging_again_changes_nothing(a: WorkloadSpec, b: WorkloadSpec) -> None:
    once = overlay(a, b)
    assert overlay(once) == once
    assert overlay(once, once) == once
    assert sorted_items(overlay(a, b, b)) == sorted_items(once)
    assert overlay(once, WorkloadSpec()) == once
    assert overlay(WorkloadSpec(), once) == once


@given(specs(tombstones=False), specs(tombstones=False), specs(tombstones=False))
def test_layers_group_either_way(a: WorkloadSpec, b: WorkloadSpec, c: WorkloadSpec) -> None:
    flat = overlay(a, b, c)
    assert overlay(overlay(a, b), c) == flat
    assert overlay(a, overlay(b, c)) == flat


@given(specs(), specs(), specs())
def test_with_tombstones_the_lower_layers_may_be_merged_first(
    a: WorkloadSpec, b: WorkloadSpec, c: WorkloadSpec
) -> None:
    """Not the higher ones: a tombstone that has done its work is gone, and what it was to take out comes later."""
    assert sorted_items(overlay(overlay(a, b), c)) == sorted_items(overlay(a, b, c))


@settings(max_examples=200)
@given(stacks())
def test_nothing_appears_from_nowhere(layers: list[Layer]) -> None:
    merged = merge(layers)
    by_name = {layer.name: layer for layer in layers}
    for row in ROWS:
        if row.type == of.ITEMIZED:
            for item in getattr(merged.spec, row.name):
                path = f"{row.path}.{item.label}"
                source = by_name[merged.provenance[path]]
                original = next(each for each in getattr(source.spec, row.name) if label_of(each) == item.label)
                assert not original.deleted
                for member in row.members:
                    if says(member, item) and not says(member, original):
                        layer = by_name[merged.provenance[f"{path}.{member.path}"]]
                        assert layer.attributes is not None
        elif row.type != of.OBJECT and says(row, merged.spec):
            layer = by_name[merged.provenance[row.path]]
            assert getattr(layer.spec, row.name) == getattr(merged.spec, row.name)
            assert not (row.own and layer.name in SHARED)


@given(stacks())
def test_what_is_cleared_was_there_and_is_gone(layers: list[Layer]) -> None:
    merged = merge(layers)
    names = [layer.name for layer in layers]
    for each in merged.cleared:
        assert names.index(each.layer) < names.index(each.by)


@given(specs(), specs())
def test_no_tombstone_is_left(a: WorkloadSpec, b: WorkloadSpec) -> None:
    spec: Any = overlay(a, b)
    for name in itemized():
        assert all(item.label and not item.HasField("deleted") for item in getattr(spec, name))
