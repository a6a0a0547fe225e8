"""What is wrong with one layer by itself, as a user, a template or a policy gives it: the LAYER stage.

Called at the edge (submission answers the call with these), by the client's `validate`, and by `effective` for the
merged spec. Per kind there is a table from field number to check, made once: protobuf lists what is set, and nothing
else is looked at.
Holds: every error at once, each with its path; nothing is written into the spec; what is missing is no error here,
since another layer may give it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from muster_language import value_types as of
from muster_language.catalogue import Row, catalogue, either
from muster_language.documents import Violation
from muster_language.items import Found, annotations_check, items_check, mounts_check, shaped
from muster_language.labels import members_of
from muster_language.naming import YAML, Naming
from muster_language.overlay import gpu_members
from muster_language.spec import Kind, WorkloadSpec, kind_of

__all__ = ["check_layer", "gpu_members"]

Check = Callable[[Any, Naming, Found], None]
"""The value of a field, how to name places, and where to put what is wrong."""


def check_layer(spec: WorkloadSpec, naming: Naming = YAML) -> list[Violation]:
    """Types, bounds, patterns, lengths, exclusive members, labels, folders, and whether the kind takes each field."""
    kind = kind_of(spec)
    found: list[Violation] = []
    if kind is None:
        allowed = either([each.document for each in Kind])
        found.append(Violation("kind", "the kind of workload is not said", allowed=allowed))
    _spec(spec, _plan(kind, master=False), naming, found)
    return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done about each field of a kind, and what may not stand together."""

    checks: dict[int, Check]
    exclusive: tuple[tuple[frozenset[int], tuple[Row, ...]], ...]
    volumes: dict[int, Row]


@cache
def _plan(kind: Kind | None, *, master: bool) -> _Plan:
    rows = catalogue().rows
    return _Plan(
        checks={row.number: _check(row, kind, master=master) for row in rows},
        exclusive=tuple((frozenset(row.number for row in group), group) for group in _groups()),
        volumes={row.number: row for row in rows if row.type == of.ITEMIZED and row.group == "storage"},
    )


@cache
def _groups() -> tuple[tuple[Row, ...], ...]:
    rows = catalogue().rows
    names = dict.fromkeys(row.exclusive for row in rows if row.exclusive)
    return tuple(tuple(row for row in rows if row.exclusive == name) for name in names)


def _spec(spec: WorkloadSpec, plan: _Plan, naming: Naming, found: Found) -> None:
    given = set()
    volumes: list[tuple[Row, Any]] = []
    for descriptor, value in spec.ListFields():
        number = descriptor.number
        check = plan.checks.get(number)
        if check is None:
            continue  # the kind itself, which has no row
        given.add(number)
        check(value, naming, found)
        if number in plan.volumes:
            volumes.append((plan.volumes[number], value))
    for numbers, rows in plan.exclusive:
        if len(numbers & given) > 1:
            found.append(_excluding([row for row in rows if row.number in given], rows, naming))
    if volumes:
        mounts_check(volumes, naming, found)


def _excluding(given: list[Row], rows: tuple[Row, ...], naming: Naming) -> Violation:
    names = [row.yaml or row.path for row in rows]
    said = f"{' and '.join(row.yaml or row.path for row in given)} exclude each other"
    return Violation(naming.value(given[1]), said, allowed=f"one {rows[0].exclusive} field: {either(names)}")


def _check(row: Row, kind: Kind | None, *, master: bool) -> Check:
    if row.refused:
        refused = f"{row.yaml or row.path} is not taken"
        return lambda _, naming, found: found.append(Violation(naming.field(row), refused, allowed=row.refused))
    if kind is not None and kind not in row.kinds:
        said = f"a {kind.document} does not take {row.yaml or row.path}"
        return lambda _, naming, found: found.append(Violation(naming.field(row), said, allowed=_takers(row)))
    if master and not (row.for_roles or row.own):
        whole = f"{row.yaml or row.path} speaks about the workload as a whole"
        return lambda _, naming, found: found.append(Violation(naming.field(row), whole, allowed="say it under spec"))
    if row.name == "master_spec":
        return lambda value, naming, found: _spec(value, _plan(kind, master=True), naming.master(), found)
    if row.type == of.ITEMIZED:
        return _items(row)
    if row.type == of.OBJECT:
        return lambda value, naming, found: _object(row, value, naming, found)
    return _value(row)


def _takers(row: Row) -> str:
    kinds = either([kind.document for kind in sorted(row.kinds)])
    return f"{kinds} {'takes' if len(row.kinds) == 1 else 'take'} it"


def _value(row: Row) -> Check:
    refusal = shaped(row)

    def check(value: Any, naming: Naming, found: Found) -> None:
        refused = refusal(value)
        if refused is not None:
            found.append(Violation(naming.value(row), refused.message, allowed=refused.allowed))

    return check


def _items(row: Row) -> Check:
    check = items_check(row)
    if row.name != "annotations":
        return check

    def both(items: Any, naming: Naming, found: Found) -> None:
        check(items, naming, found)
        annotations_check(row, items, naming, found)

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
