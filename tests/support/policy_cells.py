"""Every cell of the policy table, judged: path x rule x kind, each with a submission that passes and one that does not.

    python -m tests.support.policy_cells --json

prints {"cells", "accepted", "refused", "not_taken", "default_from", "skipped", "mutations", "caught"}. not_taken: rules
that a path does not take, each refused when it is written. default_from: fields that were worked out from another one.
mutations, caught: types of rules that were taken out of the judge, and how many of those the cells noticed, each cell
of the type by itself. The judge is changed here, from outside: the engine has no switch for it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final
from unittest import mock

from muster_language import Kind, WorkloadSpec
from muster_language.catalogue import value_types as of
from muster_policy_engine.amounts import amount_of, unit_of
from muster_policy_engine.composing import Composed, compose
from muster_policy_engine.documents.document import Frame, PolicyDocument, read_policies
from muster_policy_engine.documents.rules import WORDS
from muster_policy_engine.judging import judge as judging
from muster_policy_engine.judging import layering
from muster_policy_engine.judging.judge import Admitted, Context, Rejected
from muster_policy_engine.judging.rules import objections
from muster_policy_engine.judging.values import value_of
from muster_policy_engine.places import Place, Side, places
from muster_policy_engine.policy import Scope
from tests.support.policy_samples import (
    LABEL,
    item,
    item_document,
    item_label,
    path_of,
    sample,
    say,
    typed,
    workload,
)
from tests.support.tables import kinds_of, table

RULES: Final = ("canEdit", "required", "options", "min", "max", "step", "canAdd", "locked")


class CellError(AssertionError):
    """A cell that is not judged as its rule says."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One rule of one path for one kind. where: for what is said of it."""

    place: Place
    rule: str
    kind: Kind

    @property
    def where(self) -> str:
        """`training compute.cpuCoreRequest: min`."""
        return f"{self.kind.word} {self.place.path}: {self.rule}"


def in_table() -> Iterator[Cell]:
    """The cells of the table, in its order."""
    for row in table("policy_rules"):
        for kind in sorted(kinds_of(row["kinds(W,T,D,F)"])):
            for rule in row["rule_types"].split("|"):
                yield Cell(places(kind)[row["field"]], rule, kind)


def document(kind: Kind, policy: dict[str, Any]) -> PolicyDocument:
    """A policy of the tenant, read from its text."""
    (found,) = read_policies(json.dumps(policy), Frame(kind, Scope()))
    return found


def composed(cell: Cell, policy: dict[str, Any]) -> Composed:
    """What holds where the policy stands alone."""
    found = document(cell.kind, policy)
    if found.policy is None:
        raise CellError(f"{cell.where}: the policy is refused: {found.violations}")
    return compose(cell.kind, [found.policy])


@dataclass(frozen=True, slots=True)
class Case:
    """A policy of one rule, a submission that keeps it, and one that does not."""

    policy: dict[str, Any]
    accepted: WorkloadSpec
    refused: WorkloadSpec


def case(cell: Cell) -> Case:
    """The case of a cell."""
    place, rule = cell.place, cell.rule
    if place.instances:
        return _instances(cell)
    values = sample(place)
    bounds = {
        "options": ([values.low], values.low, values.high),
        "min": (values.high, values.high, values.low),
        "max": (values.low, values.low, values.high),
        "step": (values.low, values.high, values.odd),
        "required": (True, values.low, None),
    }
    if rule == "canEdit":
        return _edited(cell)
    bound, good, bad = bounds[rule]
    policy = {"rules": {place.path: {rule: bound}}}
    return Case(policy, _saying(cell, good), _saying(cell, bad))


def _saying(cell: Cell, text: str | None) -> WorkloadSpec:
    return say(workload(cell.kind, cell.place), cell.place, text)


def _edited(cell: Cell) -> Case:
    """The default itself passes; a place that takes no default is left alone, or has it from a default item."""
    place, values = cell.place, sample(cell.place)
    policy: dict[str, Any] = {"rules": {place.path: {"canEdit": False}}}
    if place.defaultable:
        policy["defaults"] = {place.path: values.low}
        return Case(policy, _saying(cell, values.low), _saying(cell, values.high))
    if place.value.mandatory:
        policy["defaults"] = {"ports.instances": [{"name": "http", "container": values.low}]}
        return Case(policy, _saying(cell, values.low), _saying(cell, values.high))
    return Case(policy, _saying(cell, None), _saying(cell, values.high))


def _instances(cell: Cell) -> Case:
    """With a default item: repeating it passes; adding another, or changing it, does not."""
    row = cell.place.row
    label = item_label(row)
    policy = {
        "defaults": {cell.place.path: [item_document(row)]},
        "rules": {cell.place.path: {"canAdd": False} if cell.rule == "canAdd" else {"locked": [label]}},
    }
    accepted, refused = workload(cell.kind), workload(cell.kind)
    for spec in (accepted, refused):
        if cell.kind is Kind.INFERENCE and cell.place.row.name == "ports":
            del spec.ports[:]
    getattr(cell.place.target(accepted), row.name).add(label=label, **item(row))
    further = getattr(cell.place.target(refused), row.name)
    if cell.rule == "canAdd":
        further.add(label="y", **{**item(row, changed=True), **_renamed(row.name)})
    else:
        further.add(label=label, **item(row, changed=True))
    return Case(policy, accepted, refused)


def _renamed(name: str) -> dict[str, str]:
    return {"resource": "example.org/other"} if name == "extended_resources" else {}


def is_accepted(cell: Cell, case: Case) -> bool:
    """Whether the submission that keeps the rule is admitted."""
    return isinstance(judging.judge(case.accepted, None, composed(cell, case.policy), Context()), Admitted)


def is_refused(cell: Cell, case: Case) -> bool:
    """Whether the other one is refused by this rule at this path alone; the language may have its own say."""
    verdict = judging.judge(case.refused, None, composed(cell, case.policy), Context())
    if isinstance(verdict, Admitted):
        return False
    found = [(each.path, each.rule) for each in verdict.issues if each.policy is not None]
    return found == [(path_of(cell.place, _label(cell, verdict)), cell.rule)]


def _label(cell: Cell, verdict: Rejected) -> str:
    """The label of the item that is meant: the sample's, or the one that its content gives."""
    if cell.place.first_only:
        return "http"
    if cell.place.value.name == "label":
        return next((each.item for each in verdict.issues if each.policy is not None), "")
    return LABEL if cell.place.row.name != "extended_resources" else item_label(cell.place.row)


def not_taken(kind: Kind, place: Place) -> int:
    """How many types of rules the path does not take, each refused when it is written."""
    others = [word for word in WORDS if word not in place.rules]
    for word in others:
        found = document(kind, {"rules": {place.path: {word: True}}})
        said = [each.message for each in found.violations]
        if found.policy is not None or said != [f"{place.path} does not take the rule {word}"]:
            raise CellError(f"{kind.word} {place.path}: {word} is taken, or refused otherwise: {said}")
    return len(others)


def is_worked_out(cell: Cell) -> bool:
    """Whether the field has the value that follows from another field of its side."""
    place, kind = cell.place, cell.kind
    source = _source(place, kind)
    less, more = (source, place) if place.value.name in {"cpu_limit", "memory_limit"} else (place, source)
    values = {less: sample(less).low, more: sample(more).high}  # a limit is no less than its request
    wanted = amount_of(place.value, typed(place.value, values[place]))
    given = typed(source.value, values[source])
    factor = Fraction(wanted) / Fraction(amount_of(source.value, given))
    field = source.path.removeprefix(place.side)
    rule = {"defaultFrom": {"field": field, "factor": str(float(factor))}}
    spec = say(workload(kind, place), place, None)
    target: Any = place.target(spec)
    setattr(target if source.member is None else getattr(target, source.row.name), source.value.name, given)
    verdict = judging.judge(spec, None, composed(cell, {"rules": {place.path: rule}}), Context())
    if isinstance(verdict, Rejected):
        return False
    value = value_of(place.value, _holder(verdict.effective, place))
    return value is not None and amount_of(place.value, value) == wanted


def _source(place: Place, kind: Kind) -> Place:
    """Another field of the same unit on the same side."""
    fields = {
        "cpu": "compute.cpuCoreLimit",
        "cpu_limit": "compute.cpuCoreRequest",
        "memory": "compute.cpuMemoryLimit",
        "memory_limit": "compute.cpuMemoryRequest",
        "gpu_memory_request": "compute.cpuMemoryRequest",
        "gpu_memory_limit": "compute.cpuMemoryRequest",
        "initial_delay_seconds": "probes.readiness.periodSeconds",
    }
    path = fields.get(place.value.name, "probes.readiness.initialDelaySeconds")
    found = places(kind)[f"{place.side}{path}"]
    if unit_of(found.value) is not unit_of(place.value):
        raise CellError(f"{place.path} has no source of its unit")
    return found


def _holder(effective: WorkloadSpec, place: Place) -> Any:
    role: Any = effective.master_spec if place.side is Side.MASTER else effective
    if place.itemized:
        items = getattr(role, place.row.name)
        return items[0] if place.first_only else items[-1]
    return role if place.member is None else getattr(role, place.row.name)


def is_blocked(kind: Kind, place: Place) -> bool:
    """Whether a value of users is refused where the place is blocked."""
    cell = Cell(place, "blocked", kind)
    policy = {"rules": {place.path: {"blocked": True}}}
    spec = workload(kind, place)
    if place.instances:
        getattr(place.target(spec), place.row.name).add(label=item_label(place.row), **item(place.row))
    else:
        values = sample(place)
        say(spec, place, values.low if place.value.type == of.BOOLEAN else values.high)
        if place.row.name == "gpu_request_type":  # beside the request it is what the language derives by itself
            place.target(spec).ClearField("gpu_memory_request")
    verdict = judging.judge(spec, None, composed(cell, policy), Context())
    return isinstance(verdict, Rejected) and any(
        each.rule == "blocked" and each.policy is not None for each in verdict.issues
    )


def without(rule: str) -> AbstractContextManager[Any]:
    """The judge without one type of rule."""
    if rule == "defaultFrom":
        return mock.patch.object(layering, "work_out", return_value=None)
    return mock.patch.object(
        judging, "objections", lambda *asked: [each for each in objections(*asked) if each.rule != rule]
    )


def is_noticed(rule: str, cells: list[Cell]) -> bool:
    """Whether every cell of the type of rule sees that the judge lacks it."""
    with without(rule):
        match rule:
            case "defaultFrom":
                return not any(is_worked_out(cell) for cell in cells)
            case "blocked":
                return not any(is_blocked(cell.kind, cell.place) for cell in cells)
            case _:
                return not any(is_refused(cell, case(cell)) for cell in cells)


def sweep() -> dict[str, int]:
    """All cells, judged. Raises CellError at the first that is not as its rule says."""
    counted: Counter[str] = Counter()
    cells = list(in_table())
    for cell in cells:
        made = case(cell)
        if not is_accepted(cell, made) or not is_refused(cell, made):
            raise CellError(f"{cell.where}: {made}")
        counted.update(("accepted", "refused"))
    paths = {(cell.kind, cell.place.path): cell.place for cell in cells}
    for (kind, path), place in paths.items():
        counted["not_taken"] += not_taken(kind, place)
        if not is_blocked(kind, place):
            raise CellError(f"{kind.word} {path}: blocked")
    followers = [Cell(cell.place, "defaultFrom", cell.kind) for cell in cells if cell.rule == "min"]
    for cell in followers:
        if not is_worked_out(cell):
            raise CellError(cell.where)
    by_rule = {rule: [cell for cell in cells if cell.rule == rule] for rule in RULES}
    by_rule["defaultFrom"] = followers
    by_rule["blocked"] = [Cell(place, "blocked", kind) for (kind, _), place in paths.items()]
    caught = sum(is_noticed(rule, of_rule) for rule, of_rule in by_rule.items())
    return {
        "cells": len(cells),
        "accepted": counted["accepted"],
        "refused": counted["refused"],
        "not_taken": counted["not_taken"],
        "default_from": len(followers),
        "skipped": len(cells) - counted["accepted"],
        "mutations": len(by_rule),
        "caught": caught,
    }


def main() -> int:
    """Prints the figures; 1 where a mutation went unnoticed."""
    parser = argparse.ArgumentParser(description="Judge every cell of the policy table.")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    asked = parser.parse_args()
    found = sweep()
    sys.stdout.write(f"{json.dumps(found)}\n" if asked.json else "".join(f"{k}: {v}\n" for k, v in found.items()))
    return 0 if found["caught"] == found["mutations"] else 1


if __name__ == "__main__":
    sys.exit(main())
