"""The layers of a submission into one spec: merged, with the items of its master complete and its defaults worked out.

Called by judging for the submission itself, and again by the rules for what it would be without one of its fields.
Holds: no layer is changed; what the language derives is in it once it is settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_language import Kind, Layer, LayerName, Merged, Row, WorkloadSpec, derive, language_layer, merge
from muster_language.catalogue import catalogue
from muster_language.labels import members_of
from muster_language.merging.overlay import itemized, put, unsaid
from muster_language.merging.roles import complete_master
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.rewritten import without_replaced
from muster_policy_engine.judging.working_out import work_out
from muster_policy_engine.places import Side

_MASTER: Final = "masterSpec."


@dataclass(frozen=True, slots=True)
class Submission:
    """What is judged. base: the template, if it names one. rest: it came by REST."""

    kind: Kind
    own: WorkloadSpec
    base: WorkloadSpec | None
    composed: Composed | None
    rest: bool = False


def layered(submission: Submission) -> Merged:
    """The merged spec with all defaults of the policies, those that follow from other fields included."""
    merged = merge(_layers(submission))
    if submission.composed is not None:
        _fill_inherited(merged, submission.composed)
        work_out(merged, submission.composed)
    return merged


def settle(merged: Merged, submission: Submission) -> None:
    """Adds what the language derives, and the defaults that follow from it."""
    derive(merged, rest=submission.rest)
    if submission.composed is not None:
        work_out(merged, submission.composed, derived=True)


def _layers(submission: Submission) -> list[Layer]:
    own, base, composed = submission.own, submission.base, submission.composed
    given = [own] if base is None else [base, own]
    policies = [] if composed is None else [_beside(layer, given) for layer in composed.layers]
    template = [Layer(LayerName.TEMPLATE, base)] if base is not None else []
    return [language_layer(submission.kind), *policies, *template, Layer(LayerName.WORKLOAD, own)]


def _beside(layer: Layer, given: list[WorkloadSpec]) -> Layer:
    """The defaults; those of a master only where a layer gives one, since they alone would make one."""
    spec = without_replaced(layer.spec, given)
    if spec.HasField("master_spec") and not any(each.HasField("master_spec") for each in given):
        without = WorkloadSpec()
        without.CopyFrom(spec)
        without.ClearField("master_spec")
        spec = without
    return layer if spec is layer.spec else Layer(layer.name, spec, layer.attributes)


def _fill_inherited(merged: Merged, composed: Composed) -> None:
    """Gives the master's attributes to the items that it has from the workers too.

    Without it they would be filled only once the effective spec is submitted again, where they are the master's own.
    """
    master = complete_master(merged.spec)
    fields = _fields_of_masters(composed) if master is not None else frozenset()
    for name in (name for name in itemized() if name in fields):
        row = catalogue().by_name[name]
        for item in getattr(master, name):
            _note_inherited(merged.provenance, row, f"{row.path}.{item.label}")
        items = getattr(merged.spec.master_spec, name)
        del items[:]
        items.extend(getattr(master, name))
    for layer in reversed(composed.layers) if fields else ():
        if layer.attributes is None:
            continue
        for row, item, wanted, members in unsaid(merged.spec.master_spec, layer.attributes.master_spec):
            for member in members:
                put(member, item, wanted)
                merged.provenance[f"{_MASTER}{row.path}.{item.label}.{member.path}"] = layer.name


def _fields_of_masters(composed: Composed) -> frozenset[str]:
    """The itemized fields for which the policies give members to every item of a master."""
    given = {name for name in itemized() if getattr(composed.attributes.master_spec, name)}
    worked_out = {
        applied.ruled.place.row.name
        for applied in composed.rules
        if applied.ruled.place.side is Side.MASTER
        and applied.ruled.place.itemized
        and applied.ruled.rules.default_from is not None
    }
    return frozenset(given | worked_out)


def _note_inherited(provenance: dict[str, LayerName], row: Row, path: str) -> None:
    """The layers of an item of the workers, noted for the master that has it from them."""
    if f"{_MASTER}{path}" in provenance:
        return
    for each in (path, *(f"{path}.{member.path}" for member in members_of(row))):
        if each in provenance:
            provenance[f"{_MASTER}{each}"] = provenance[each]
