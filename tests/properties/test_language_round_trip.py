"""Whatever a spec says, written as YAML and read again it says the same; and no text at all makes the reader raise."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster_language import Kind, Row, WorkloadSpec, catalogue, check_layer, overlay, read, write
from muster_language import value_types as of
from muster_language.spec import set_kind

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
LABELS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
PATTERNED = {
    "name": NAME,
    "namePrefix": NAME,
    "migProfile": st.sampled_from(["1g.5gb", "3g.40gb", "1g.10gb+me"]),
    "priorityClass": st.sampled_from(["low", "high", "train", "42"]),
}


def whole_numbers(row: Row) -> st.SearchStrategy[int]:
    return st.integers(int(row.minimum or 0), int(row.maximum) if row.maximum is not None else of.LARGEST_INTEGER)


def values(row: Row) -> st.SearchStrategy[Any]:
    if row.words is not None:
        return st.sampled_from(sorted(row.words.by_number))
    if row.name == "gpu_portion_request":
        return st.integers(1, 100).map(lambda hundredths: hundredths / 100)
    if row.type == of.QUANTITY:
        return st.sampled_from(["1", "0.5", "2", "250m"] if row.quantity == "CPU" else ["1", "250M", "4Gi", "1.5Gi"])
    simple: dict[int, st.SearchStrategy[Any]] = {
        of.BOOLEAN: st.booleans(),
        of.INTEGER: whole_numbers(row),
        of.NUMBER: st.floats(row.minimum or 0, 1e6, allow_nan=False),
        of.ARRAY: st.lists(NAME, unique=True, max_size=4),
    }
    return simple.get(row.type, PATTERNED.get(row.yaml, TEXT))


def fill(draw: st.DrawFn, row: Row, spec: Any) -> None:
    if row.type == of.ARRAY:
        getattr(spec, row.name).SetInParent()
        getattr(spec, row.name).values.extend(draw(values(row)))
    elif row.type == of.ITEMIZED:
        for label in draw(st.lists(LABELS, unique=True, max_size=3)):
            item(draw, row, getattr(spec, row.name).add(label=label))
    elif row.beside_spec:
        spec.master_spec.SetInParent()
        for each in chosen(draw, [each for each in catalogue().of_kind(Kind.DISTRIBUTED) if each.for_roles]):
            fill(draw, each, spec.master_spec)
    elif row.type == of.OBJECT:
        getattr(spec, row.name).SetInParent()
        for member in row.members:
            if draw(st.booleans()):
                setattr(getattr(spec, row.name), member.name, draw(values(member)))
    else:
        setattr(spec, row.name, draw(values(row)))


def item(draw: st.DrawFn, row: Row, target: Any) -> None:
    if draw(st.booleans()):
        target.deleted = draw(st.booleans())
    if target.deleted:
        return
    if not row.members:
        target.value = draw(TEXT)
    for member in row.members:
        if member.mandatory or draw(st.booleans()):
            setattr(target, member.name, draw(values(member)))


def chosen(draw: st.DrawFn, rows: list[Row]) -> list[Row]:
    """Some of the rows, at most one of each exclusive group."""
    picked = draw(st.lists(st.sampled_from(rows), unique_by=lambda row: row.exclusive or row.name, max_size=12))
    return sorted(picked, key=lambda row: row.number)


@st.composite
def specs(draw: st.DrawFn) -> WorkloadSpec:
    spec = WorkloadSpec()
    kind = draw(st.sampled_from(list(Kind)))
    set_kind(spec, kind)
    for row in chosen(draw, list(catalogue().of_kind(kind))):
        fill(draw, row, spec)
    return spec


@given(specs())
def test_a_spec_survives_yaml(spec: WorkloadSpec) -> None:
    assert check_layer(spec) == []
    [document] = read(write(spec, namespace="runai-a"))
    assert document.violations == []
    assert document.spec == spec
    assert document.namespace == "runai-a"


@given(specs(), specs())
def test_merging_again_changes_nothing(low: WorkloadSpec, high: WorkloadSpec) -> None:
    once = overlay(low, high)
    assert overlay(once) == once
    assert overlay(once, high) == once


@given(st.text(st.characters(), max_size=200))
def test_no_text_makes_the_reader_raise(text: str) -> None:
    for document in read(text):
        assert document.violations


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
    )
)
def test_no_tree_makes_the_reader_raise(tree: Any) -> None:
    import yaml  # noqa: PLC0415  only this test makes YAML of its own

    body = {"apiVersion": "run.ai/v2alpha1", "kind": "DistributedWorkload", "metadata": tree, "masterSpec": tree}
    fields = {row.yaml: {"value": tree, "items": tree} for row in catalogue().rows}
    text = yaml.dump({**body, "spec": fields}, Dumper=yaml.CSafeDumper, allow_unicode=True)
    assert read(text)[0].violations
