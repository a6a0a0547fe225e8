"""One value against the rules of its place: bounds, steps and options; and values as people read them.

Called by the rules for fields, members of objects and members of items alike.
Holds: a secret is never written out; amounts compare in base units, so that 1Gi and 1024Mi are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

from muster_language import Row
from muster_language.catalogue import value_types as of
from muster_language.checks.bounds import refusal
from muster_policy_engine.policy import Rules
from muster_policy_engine.documents.reading import comparable

_MASK: Final = "***"


class Against(NamedTuple):
    """What one rule has against one value."""

    path: str
    rule: str
    given: str
    allowed: str
    details: str


Found = Iterator[Against]


def within(row: Row, value: Any, rules: Rules, path: str) -> Found:
    """What bounds and options have against a value that is said."""
    given = text_of(row, value)
    if rules.options is not None:
        values = value if isinstance(value, list) else [value]
        if any(each not in rules.options.values for each in values):
            allowed = ", ".join(rules.options.texts)
            yield Against(path, "options", given, allowed, f"{path} is {given}; the policy allows {allowed}")
    if rules.minimum is None and rules.maximum is None and rules.step is None:
        return
    if refusal(row, value) is not None:
        return  # no amount at all, as the language says by itself: it compares with nothing
    amount = comparable(row, _plain(value))
    if rules.minimum is not None and amount < rules.minimum.amount:
        yield _outside(path, "min", given, f"at least {rules.minimum.text}")
    if rules.maximum is not None and amount > rules.maximum.amount:
        yield _outside(path, "max", given, f"at most {rules.maximum.text}")
    if rules.step is not None:
        first = rules.minimum.amount if rules.minimum is not None else 0
        if (Fraction(amount) - Fraction(first)) % Fraction(rules.step.amount):
            start = f" from {rules.minimum.text}" if rules.minimum is not None else ""
            yield _outside(path, "step", given, f"steps of {rules.step.text}{start}")


def unsaid(path: str) -> Against:
    """A value that the policy requires and nobody gives."""
    return Against(path, "required", "", "a value", f"the policy requires {path}")


def changed(row: Row, path: str, value: Any, expected: Any, why: str = "") -> Against:
    """A value that somebody changed where the policy lets nobody change it. None: there is none."""
    allowed = f"{text_of(row, expected)}, as the policy sets it" if expected is not None else "nothing"
    given = text_of(row, value) if value is not None else ""
    return Against(path, "canEdit", given, allowed, f"the policy does not let {path} be changed{why}")


def _outside(path: str, rule: str, given: str, allowed: str) -> Against:
    return Against(path, rule, given, allowed, f"{path} is {given}; the policy allows {allowed}")


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
