"""The laws of the merge, over every field of the catalogue: it repeats itself, groups as it likes, invents nothing.

The specs here are typed but need not be legal: the merge comes before the checks and may not depend on them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from muster_language import Layer, LayerName, WorkloadSpec, combine, merge, overlay
from muster_language.catalogue import value_types as of
from muster_language.labels import label_of
from muster_language.merging.layers import SHARED
from muster_language.merging.overlay import MASTER, itemized
from muster_language.merging.overlay import given as says
from tests.support.layers import ROWS, specs, stacks


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
