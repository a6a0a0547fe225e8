"""What a policy's rules have against a merged spec, all of it at once.

Called by judging. Rules look at values of the effective spec, whoever gave them, for workers and master alike; only
`canEdit` asks who: a value that a template or the user changed where the policy lets nobody edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from muster_language import Merged, Row, WorkloadSpec
from muster_language import value_types as of
from muster_language.layers import POLICIES, USERS
from muster_policy.domain.document import comparable
from muster_policy.domain.policy import Policy, Ruled, Rules, Section

_MASK: Final = "***"


@dataclass(frozen=True, slots=True)
class Objection:
    """One issue: what is wrong at a path, by which rule; `policy` and `scope` are empty for the language's own."""

    path: str
    rule: str
    given: str
    allowed: str
    details: str
    policy: str = ""
    scope: str = ""


Found = Iterator[tuple[str, str, str, str, str]]  # path, rule, given, allowed, details


def objections(merged: Merged, section: Section, policy: Policy) -> list[Objection]:
    """Everything that the section has against the spec."""
    return [
        Objection(*found, policy=policy.name, scope=policy.scope)
        for ruled in section.rules
        for found in _ruled(merged, ruled, section.defaults)
    ]


def _ruled(merged: Merged, ruled: Ruled, defaults: WorkloadSpec) -> Found:
    rules, row = ruled.rules, ruled.row
    spec = merged.spec
    if rules.required and not _present(spec, row):
        yield ruled.path, "required", "", "a value", f"the policy requires {ruled.path}"
    if rules.can_edit is False:
        yield from _edited(merged, ruled, defaults)
    yield from _values(spec, ruled.path, row, rules)
    if row.for_roles and spec.HasField("master_spec"):
        yield from _values(spec.master_spec, f"masterSpec.{ruled.path}", row, rules)


def _present(spec: Any, row: Row) -> bool:
    if row.type == of.ITEMIZED:
        return len(getattr(spec, row.name)) > 0
    return bool(spec.HasField(row.name))


def _edited(merged: Merged, ruled: Ruled, defaults: WorkloadSpec) -> Found:
    path, row = ruled.path, ruled.row
    allowed = f"{text_of(row, _raw(defaults, row))}, as the policy sets it" if _present(defaults, row) else "nothing"
    said = f"the policy does not let {path} be changed"
    if merged.provenance.get(row.path) in USERS and _raw(merged.spec, row) != _raw(defaults, row):
        yield path, "canEdit", text_of(row, _raw(merged.spec, row)), allowed, said
    elif any(each.path == row.path and each.layer in POLICIES for each in merged.cleared):
        yield path, "canEdit", "", allowed, f"{said}, and another field of the workload excludes it"
    elif f"masterSpec.{row.path}" in merged.provenance and _raw(merged.spec.master_spec, row) != _raw(defaults, row):
        yield f"masterSpec.{path}", "canEdit", text_of(row, _raw(merged.spec.master_spec, row)), allowed, said


def _values(spec: Any, path: str, row: Row, rules: Rules) -> Found:
    if row.type in {of.ITEMIZED, of.OBJECT} or not _present(spec, row):
        return
    value = _raw(spec, row)
    given = text_of(row, value)
    if rules.options is not None:
        values = value if isinstance(value, list) else [value]
        if any(each not in rules.options for each in values):
            allowed = ", ".join(rules.options_text)
            yield path, "options", given, allowed, f"{path} is {given}; the policy allows {allowed}"
    if rules.minimum is None and rules.maximum is None and rules.step is None:
        return
    amount = comparable(row, _plain(value))
    if rules.minimum is not None and amount < rules.minimum.amount:
        yield _outside(path, "min", given, f"at least {rules.minimum.text}")
    if rules.maximum is not None and amount > rules.maximum.amount:
        yield _outside(path, "max", given, f"at most {rules.maximum.text}")
    if rules.step is not None:
        first = rules.minimum.amount if rules.minimum is not None else 0
        if (Decimal(amount) - Decimal(first)) % Decimal(rules.step.amount):
            start = f" from {rules.minimum.text}" if rules.minimum is not None else ""
            yield _outside(path, "step", given, f"steps of {rules.step.text}{start}")


def _outside(path: str, rule: str, given: str, allowed: str) -> tuple[str, str, str, str, str]:
    return path, rule, given, allowed, f"{path} is {given}; the policy allows {allowed}"


def _raw(spec: Any, row: Row) -> Any:
    value = getattr(spec, row.name)
    if row.type == of.ARRAY:
        return list(value.values)
    if row.type == of.ITEMIZED:
        return [each.SerializeToString(deterministic=True) for each in value]
    return value


def _plain(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    float: lambda value: f"{value:.15g}",
    list: lambda value: ", ".join(str(each) for each in value),
}


def text_of(row: Row, value: Any) -> str:
    """A value as its user would write it; masked where it is a secret."""
    if row.sensitive:
        return _MASK
    if row.words is not None:
        return row.words.by_number.get(value, str(value))
    if row.type == of.ITEMIZED:
        return f"{len(value)} items"
    return _TEXTS.get(type(value), str)(value)
