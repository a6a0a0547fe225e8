"""Policies and submissions drawn by chance, for the laws of the engine.

Both draw their values from the few samples of a place, so that a submission often is what a policy gives or allows, and
often is not. A policy is drawn as the tree of its document: what a law needs to know of it is there, and not only in
what the engine made of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final

from hypothesis import assume
from hypothesis import strategies as st

from muster_language import Kind, Row, WorkloadSpec
from muster_language.catalogue import value_types as of
from muster_language.merging.overlay import itemized
from muster_policy_engine.amounts import unit_of
from muster_policy_engine.composing import Composed, compose
from muster_policy_engine.documents.document import Frame, read_policies
from muster_policy_engine.places import Place, Side, places
from muster_policy_engine.policy import LEVELS, Policy, Scope
from tests.support.policy_samples import item, item_document, item_label, sample, typed, workload

_OFTEN: Final = (
    "image",
    "backoffLimit",
    "compute.cpuCoreRequest",
    "compute.cpuCoreLimit",
    "compute.gpuPortionRequest",
    "compute.gpuDevicesRequest",
    "compute.gpuRequestType",
    "ports.attributes.container",
    "ports.attributes.external",
    "ports.attributes.serviceType",
    "ports.instances",
    "labels.instances",
    "storage.pvc.instances",
)
"""Paths that are drawn more often than the others, so that levels and submissions meet at them."""
_UNITS: Final = ("", "home", "research", "vision")
_NO_REQUESTS: Final = frozenset({"memory", "migProfile"})  # types of GPU request that are legal with their amount alone


@dataclass(frozen=True)
class Drawn:
    """A policy as the tree of its document, by paths."""

    kind: Kind
    scope: Scope
    defaults: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The body of the document."""
        return json.dumps({"defaults": self.defaults, "rules": self.rules})

    @cached_property
    def policy(self) -> Policy | None:
        """The policy; None where the document is refused."""
        (found,) = read_policies(self.text, Frame(self.kind, self.scope))
        return found.policy


@cache
def known(kind: Kind) -> dict[str, Place]:
    """The places that are drawn: all but those of the first port, for which the order of ports matters."""
    return {path: each for path, each in places(kind).items() if not each.first_only}


@cache
def paths(kind: Kind, most: int) -> st.SearchStrategy[list[str]]:
    """Some paths of a kind."""
    every = sorted(known(kind))
    often = [path for path in every if path.removeprefix(Side.WORKER).removeprefix(Side.MASTER) in _OFTEN]
    chosen = st.lists(st.sampled_from([*often * (len(every) // len(often)), *every]), max_size=most)
    return chosen.map(lambda found: list(dict.fromkeys(found)))


def _text(draw: st.DrawFn, place: Place) -> str:
    values = sample(place)
    return draw(st.sampled_from([values.low, values.high]))


def _default(draw: st.DrawFn, place: Place) -> Any:
    if not place.instances:
        return _text(draw, place)
    labels = draw(st.lists(st.sampled_from(_labels(place.row)), min_size=1, max_size=2, unique=True))
    return [_item_document(place.row, label) for label in labels]


def _labels(row: Row) -> list[str]:
    return [item_label(row)] if row.name == "extended_resources" else ["x", "y"]


def _item_document(row: Row, label: str) -> dict[str, Any]:
    """A default item; two of them are mounted at folders of their own and have ports of their own."""
    said = item_document(row, label)
    mount = next((name for name in ("mountPath", "path") if name in said), "")
    return {**said, mount: f"{said[mount]}/{label}"} if mount else said


def _rules(draw: st.DrawFn, place: Place) -> dict[str, Any]:
    if draw(st.integers(0, 7)) == 0:
        return {"blocked": True}
    words = draw(st.lists(st.sampled_from(sorted(place.rules - {"blocked"})), min_size=1, max_size=3, unique=True))
    return {word: value for word in words if (value := _rule(draw, place, word)) is not None}


def _rule(draw: st.DrawFn, place: Place, word: str) -> Any:
    if word == "locked":
        return draw(st.lists(st.sampled_from(_labels(place.row)), max_size=2, unique=True))
    if word == "defaultFrom":
        return _default_from(draw, place)
    if word in {"canEdit", "canAdd"}:
        return draw(st.sampled_from([False, False, True]))
    values = sample(place)
    drawn = {
        "required": True,
        "options": draw(st.sampled_from([[values.low], [values.low, values.high]])),
        "min": draw(st.sampled_from([values.low, values.odd or values.low])),
        "max": draw(st.sampled_from([values.high, values.odd or values.high])),
        "step": values.low,
    }
    return drawn[word]


def _default_from(draw: st.DrawFn, place: Place) -> Any:
    sources = [
        each
        for each in known(min(place.kinds)).values()
        if each.side is place.side
        and not each.itemized
        and each.value is not place.value
        and unit_of(each.value) is unit_of(place.value)
        and "min" in each.rules
    ]
    if not sources:
        return None
    source = draw(st.sampled_from(sorted(sources, key=lambda each: each.path)))
    return {"field": source.path, "factor": draw(st.sampled_from(["0.5", "1", "2"]))}


@st.composite
def policies(draw: st.DrawFn, kind: Kind, scope: Scope) -> Drawn:
    """A policy that is taken when it is written."""
    every = known(kind)
    given = {path: _default(draw, every[path]) for path in draw(paths(kind, 5)) if every[path].defaultable}
    ruled = {path: rules for path in draw(paths(kind, 5)) if (rules := _rules(draw, every[path]))}
    blocked = {path for path, rules in ruled.items() if "blocked" in rules}
    made = Drawn(kind, scope, {path: value for path, value in given.items() if path not in blocked}, ruled)
    assume(made.policy is not None)
    return made


@st.composite
def branches(draw: st.DrawFn, kind: Kind | None = None) -> list[Drawn]:
    """Policies of one kind on one branch, the highest first, at most one a level."""
    meant = kind if kind is not None else draw(st.sampled_from(Kind))
    levels = draw(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4, unique=True))
    scopes = [Scope(level, unit) for level, unit in zip(LEVELS, _UNITS, strict=True) if level in levels]
    return [draw(policies(meant, scope)) for scope in scopes]


def together(drawn: list[Drawn]) -> Composed:
    """The policies of a branch laid together."""
    return compose(drawn[0].kind, [each.policy for each in drawn if each.policy is not None])


@st.composite
def submissions(draw: st.DrawFn, kind: Kind) -> WorkloadSpec:
    """A workload that mostly keeps the language, without tombstones."""
    spec = workload(kind)
    if kind is Kind.DISTRIBUTED and draw(st.booleans()):
        spec.ClearField("master_spec")
    return draw(_filled(kind, spec))


@st.composite
def templates(draw: st.DrawFn, kind: Kind) -> WorkloadSpec:
    """What a template says: less than a workload."""
    bare = WorkloadSpec()
    bare.kind = workload(kind).kind
    return draw(_filled(kind, bare))


@st.composite
def _filled(draw: st.DrawFn, kind: Kind, spec: WorkloadSpec) -> WorkloadSpec:
    for path in draw(paths(kind, 6)):
        place = known(kind)[path]
        if place.side is Side.MASTER and not spec.HasField("master_spec"):
            continue
        _say(draw, spec, place)
    return spec


def _say(draw: st.DrawFn, spec: WorkloadSpec, place: Place) -> None:
    target: Any = place.target(spec)
    if place.itemized:
        labels = _labels(place.row)
        target = _item(getattr(target, place.row.name), place.row, draw(st.sampled_from(labels)))
        if place.instances:
            return
    elif place.member is not None:
        target = getattr(target, place.row.name)
    row, text = place.value, _text(draw, place)
    if row.name == "label" or text in _NO_REQUESTS:
        return
    if row.type == of.ARRAY:
        getattr(target, row.name).values[:] = typed(row, text)
    else:
        setattr(target, row.name, typed(row, text))


def _item(items: Any, row: Row, label: str) -> Any:
    there = next((each for each in items if each.label == label), None)
    if there is not None:
        return there
    members = item(row)
    mount = next((name for name in ("mount_path", "path") if name in members), "")
    if mount:
        members[mount] = f"{members[mount]}/{label}"
    return items.add(label=label, **members)


def in_one_order(spec: WorkloadSpec) -> bytes:
    """The spec with its items by label: the order of items is no part of what a law says."""
    copy: Any = WorkloadSpec()
    copy.CopyFrom(spec)
    for role in (copy, copy.master_spec) if copy.HasField("master_spec") else (copy,):
        for name in itemized():
            items = sorted(getattr(role, name), key=lambda each: str(each.label))
            del getattr(role, name)[:]
            getattr(role, name).extend(items)
    found: bytes = copy.SerializeToString(deterministic=True)
    return found
