"""What is wrong with one layer by itself, as a user, a template or a policy gives it: the LAYER stage.

Called at the edge (submission answers the call with these), by the client's `validate`, and by `effective` for the
merged spec. Per kind there is a table from field number to check, made once: protobuf lists what is set, and nothing
else is looked at.
Holds: every error at once, each with its path; nothing is written into the spec; what another layer may still give is
not missed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from muster_language.catalogue import Row, catalogue, either
from muster_language.catalogue import value_types as of
from muster_language.checks.items import Found, items_check, shaped
from muster_language.checks.neighbours import (
    annotations_check,
    external_ports_check,
    mounts_check,
    scaling_check,
)
from muster_language.documents.document import Violation
from muster_language.labels import members_of
from muster_language.naming import YAML, Naming
from muster_language.spec import Kind, WorkloadSpec, kind_of
from muster_language.values import Refused

Check = Callable[[Any, Naming, Found], None]
"""The value of a field, how to name places, and where to put what is wrong."""


def check_layer(spec: WorkloadSpec, naming: Naming = YAML) -> list[Violation]:
    """Types, bounds, patterns, lengths, exclusive members, labels, folders, and whether the kind takes each field."""
    return _check_spec(spec, naming, whole=False)


def check_whole(spec: WorkloadSpec, naming: Naming) -> list[Violation]:
    """The same for the effective spec, in which items have to be complete."""
    return _check_spec(spec, naming, whole=True)


def _check_spec(spec: WorkloadSpec, naming: Naming, *, whole: bool) -> list[Violation]:
    kind = kind_of(spec)
    found: list[Violation] = []
    if kind is None:
        allowed = either([each.document for each in Kind])
        found.append(Violation("kind", "the kind of workload is not said", allowed=allowed))
    _spec(spec, _plan(kind, master=False, whole=whole), naming, found)
    return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done about each field of a kind, and what may not stand together.

    single: fields of one value, with its check; None: every value is fine. checks: the others.
    """

    single: dict[int, tuple[Row, Callable[[Any], Refused | None] | None]]
    checks: dict[int, Check]
    exclusive: tuple[tuple[frozenset[int], tuple[Row, ...]], ...]
    volumes: dict[int, Row]
    scaling: frozenset[int]
    """Bounds and metric of a service, whose contradictions a layer is refused for; `effective` has rules of its own."""


_SCALING: Final = frozenset({"min_scale", "max_scale", "metric"})


@cache
def _plan(kind: Kind | None, *, master: bool, whole: bool) -> _Plan:
    rows = (*catalogue().rows, *catalogue().whole)
    checks = {row.number: _check(row, kind, master=master, whole=whole) for row in rows}
    return _Plan(
        single={row.number: (row, _single(row)) for row in rows if checks[row.number] is None},
        checks={number: check for number, check in checks.items() if check is not None},
        exclusive=tuple((frozenset(row.number for row in group), group) for group in _groups()),
        volumes={row.number: row for row in rows if row.type == of.ITEMIZED and row.group == "storage"},
        scaling=frozenset() if whole else frozenset(row.number for row in rows if row.name in _SCALING),
    )


@cache
def _groups() -> tuple[tuple[Row, ...], ...]:
    rows = catalogue().rows
    names = dict.fromkeys(row.exclusive for row in rows if row.exclusive)
    return tuple(tuple(row for row in rows if row.exclusive == name) for name in names)


def _spec(spec: WorkloadSpec, plan: _Plan, naming: Naming, found: Found) -> None:
    """Looks at what is set. Every microsecond here is paid for each of 20,000 specs a second."""
    fields = spec.ListFields()
    single, checks = plan.single, plan.checks
    for descriptor, value in fields:
        number = descriptor.number
        if number in single:
            row, refusal = single[number]
            if refusal is not None and (refused := refusal(value)) is not None:
                found.append(Violation(naming.value(row), refused.message, allowed=refused.allowed))
        elif number in checks:  # all but the kind itself, which has no row
            checks[number](value, naming, found)
    given = {descriptor.number for descriptor, _ in fields}
    for numbers, rows in plan.exclusive:
        if len(numbers & given) > 1:
            found.append(_excluding([row for row in rows if row.number in given], rows, naming))
    if len(plan.scaling & given) > 1:
        scaling_check(spec, naming, found)
    if not given.isdisjoint(plan.volumes):
        mounts_check(
            [(plan.volumes[d.number], items) for d, items in fields if d.number in plan.volumes], naming, found
        )


def _excluding(given: list[Row], rows: tuple[Row, ...], naming: Naming) -> Violation:
    names = [row.yaml or row.path for row in rows]
    said = f"{' and '.join(row.yaml or row.path for row in given)} exclude each other"
    return Violation(naming.value(given[1]), said, allowed=f"one {rows[0].exclusive} field: {either(names)}")


def _check(row: Row, kind: Kind | None, *, master: bool, whole: bool) -> Check | None:
    """What is done about a field; None: it is one value, and its row says all."""
    if row.refused:
        refused = f"{row.yaml or row.path} is not taken"
        return lambda _, naming, found: found.append(Violation(naming.field(row), refused, allowed=row.refused))
    if kind is not None and kind not in row.kinds:
        said = f"{_article(kind.document)} {kind.document} does not take {row.yaml or row.path}"
        return lambda _, naming, found: found.append(Violation(naming.field(row), said, allowed=_takers(row)))
    if master and not (row.for_roles or row.own):
        alone = f"{row.yaml or row.path} speaks about the workload as a whole"
        return lambda _, naming, found: found.append(Violation(naming.field(row), alone, allowed="say it under spec"))
    if row.name == "master_spec":
        plan = partial(_plan, kind, master=True, whole=whole)
        return lambda value, naming, found: _spec(value, plan(), naming.master(), found)
    if row.type == of.ITEMIZED:
        return _items(row, whole=whole)
    if row.type == of.OBJECT:
        return lambda value, naming, found: _object(row, value, naming, found)
    return None


def _article(word: str) -> str:
    return "an" if word.startswith(tuple("AEIOU")) else "a"


def _single(row: Row) -> Callable[[Any], Refused | None] | None:
    return None if row.type in {of.BOOLEAN, of.WHOLE} else shaped(row)


def _takers(row: Row) -> str:
    kinds = either([kind.document for kind in sorted(row.kinds)])
    return f"{kinds} {'takes' if len(row.kinds) == 1 else 'take'} it"


_BESIDE: Final = {"annotations": annotations_check, "ports": external_ports_check}


def _items(row: Row, *, whole: bool) -> Check:
    check, beside = items_check(row, whole=whole), _BESIDE.get(row.name)
    if beside is None:
        return check

    def both(items: Any, naming: Naming, found: Found) -> None:
        check(items, naming, found)
        beside(row, items, naming, found)

    return both


def _object(row: Row, message: Any, naming: Naming, found: Found) -> None:
    for member, check in _object_checks(row):
        if message.HasField(member.name):
            refused = check(getattr(message, member.name))
            if refused is not None:
                here = naming.inside(row, member)
                found.append(Violation(here, refused.message, allowed=refused.allowed))


@cache
def _object_checks(row: Row) -> tuple[tuple[Row, Callable[[Any], Any]], ...]:
    return tuple((member, shaped(member)) for member in members_of(row))
