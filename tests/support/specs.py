"""Legal layers of every kind with every field of the catalogue, for the laws that hold for any spec.

Called by the property tests of the YAML, of the REST bodies and of merging. Whatever comes out keeps the LAYER stage
(`check_layer` says nothing); credentials never appear as literals, since no channel gives them back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from muster.workload.v1 import workload_pb2 as wl
from muster_language import Kind, Row, WorkloadSpec, catalogue
from muster_language.catalogue import value_types as of
from muster_language.checks.bounds import refusal
from muster_language.spec import set_kind

TEXT: Final = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAME: Final = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
LABELS: Final = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
KEYS: Final = st.from_regex(
    r"([a-z0-9]{1,8}\.[a-z]{2,3}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,10}[A-Za-z0-9])?", fullmatch=True
)
PATHS: Final = st.from_regex(r"(/[a-z0-9_ é]{1,8}){1,3}", fullmatch=True)
LABEL_VALUES: Final = st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,10}[A-Za-z0-9])?)?", fullmatch=True)
_PRINTABLE: Final = st.characters(min_codepoint=32, max_codepoint=126)
_MOUNTS: Final = frozenset({"mount_path", "path"})
_SOURCES: Final = frozenset({"nfs", "volumes"})  # here `path` is the source, and may be the same twice

Skip = Callable[[Row], bool]


def whole_numbers(row: Row) -> st.SearchStrategy[int]:
    """Every number that the row takes."""
    return st.integers(int(row.minimum or 0), int(row.maximum) if row.maximum is not None else of.LARGEST_INTEGER)


def texts(row: Row) -> st.SearchStrategy[str]:
    """Every text that the row takes, or as good as every one."""
    if row.pattern == "/.*":
        return PATHS
    if row.name == "supplemental_groups":  # semicolons are read as well, and written as commas
        return st.lists(st.integers(0, 99), min_size=1, max_size=3).map(lambda ids: ",".join(map(str, ids)))
    if row.pattern:
        found = st.from_regex(re.compile(row.pattern), fullmatch=True, alphabet=_PRINTABLE)
        return found.filter(lambda text: len(text) <= row.max_length)
    return TEXT.filter(lambda text: refusal(row, text) is None)


def entries(row: Row) -> st.SearchStrategy[list[str]]:
    """Lists that are one value."""
    if row.one_of:
        return st.lists(st.sampled_from(sorted(row.one_of.values())), unique=True, max_size=4)
    return st.lists(texts(row) if row.pattern else TEXT, unique=True, max_size=4)


def values(row: Row) -> st.SearchStrategy[Any]:
    """Every value that a row takes, but for lists, items and objects."""
    if row.words is not None:
        return st.sampled_from(sorted(row.words.by_number))
    if row.type == of.NUMBER and row.step:
        return st.integers(1, 100).map(lambda hundredths: hundredths / 100)
    if row.type == of.QUANTITY:
        return st.sampled_from(["1", "0.5", "2", "250m"] if row.quantity == "CPU" else ["1", "250M", "4Gi", "1.5Gi"])
    if row.type == of.BOOLEAN:
        return st.booleans()
    if row.type == of.INTEGER:
        return whole_numbers(row)
    return texts(row)


def fill(draw: st.DrawFn, row: Row, spec: Any, mounts: list[str]) -> None:
    """Gives a field some value."""
    if row.type == of.ARRAY:
        getattr(spec, row.name).SetInParent()
        getattr(spec, row.name).values.extend(draw(entries(row)))
    elif row.type == of.ITEMIZED:
        labels = KEYS if row.name in {"labels", "annotations"} else LABELS
        for label in draw(st.lists(labels, unique=True, max_size=3)):
            _item(draw, row, getattr(spec, row.name).add(label=label), mounts)
    elif row.beside_spec:
        spec.master_spec.SetInParent()
        inside: list[str] = []  # the master's folders are its own
        for each in chosen(draw, [each for each in catalogue().of_kind(Kind.DISTRIBUTED) if each.for_roles]):
            fill(draw, each, spec.master_spec, inside)
    elif row.type == of.OBJECT:
        getattr(spec, row.name).SetInParent()
        for member in row.members:
            if draw(st.booleans()):
                setattr(getattr(spec, row.name), member.name, draw(values(member)))
    else:
        setattr(spec, row.name, draw(values(row)))


def _item(draw: st.DrawFn, row: Row, target: Any, mounts: list[str]) -> None:
    if draw(st.booleans()):
        target.deleted = draw(st.booleans())
    if target.deleted:
        return
    if row.plain_items:
        target.value = draw(LABEL_VALUES if row.name == "labels" else TEXT)
    for member in row.members:
        if member.sensitive or not (member.mandatory or draw(st.booleans())):
            continue
        if member.type == of.ARRAY:
            fill(draw, member, target, mounts)
        elif member.name in _MOUNTS and not (row.name in _SOURCES and member.name == "path"):
            mounts.append(f"/mnt/{len(mounts)}")
            setattr(target, member.name, mounts[-1])
        else:
            setattr(target, member.name, draw(values(member)))


def chosen(draw: st.DrawFn, rows: list[Row], skip: Skip = lambda _: False) -> list[Row]:
    """Some of the rows, at most one of each exclusive group."""
    legal = [row for row in rows if not (row.refused or row.sensitive or skip(row)) and (row.yaml or row.rest)]
    picked = draw(st.lists(st.sampled_from(legal), unique_by=lambda row: row.exclusive or row.name, max_size=14))
    return sorted(picked, key=lambda row: row.number)


@st.composite
def specs(draw: st.DrawFn, skip: Skip = lambda _: False) -> WorkloadSpec:
    """A legal layer. skip: rows that a channel cannot say."""
    spec = WorkloadSpec()
    kind = draw(st.sampled_from(list(Kind)))
    set_kind(spec, kind)
    mounts: list[str] = []
    for row in chosen(draw, list(catalogue().of_kind(kind)), skip):
        fill(draw, row, spec, mounts)
    _settle(spec)
    return spec


def _settle(spec: WorkloadSpec) -> None:
    """What single fields do not show: a template has no base and no prefix; `mpi: true` is lowered where it is read."""
    spec.ClearField("mpi")
    for each in (spec, spec.master_spec) if spec.HasField("master_spec") else (spec,):
        _devices(each)
        _ports(each)
    if spec.usage == wl.USAGE_TEMPLATE:
        spec.ClearField("base_workload")
        spec.ClearField("name_prefix")


def _devices(spec: WorkloadSpec) -> None:
    """No devices beside another request for GPU contradict it."""
    others = spec.HasField("gpu_portion_request") or spec.HasField("gpu_memory_request") or spec.HasField("mig_profile")
    if not spec.gpu_devices_request and others:
        spec.ClearField("gpu_devices_request")


def _ports(spec: WorkloadSpec) -> None:
    """Two ports have no external port in common."""
    taken: set[int] = set()
    for port in spec.ports:
        if port.external in taken:
            port.ClearField("external")
        elif port.HasField("external"):
            taken.add(port.external)
