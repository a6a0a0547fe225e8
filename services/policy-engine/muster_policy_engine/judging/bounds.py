"""One value against the rules of its place: bounds, steps and options; and values as people read them.

Called by the rules for fields, members of objects and members of items alike. The sentences are those of the vendor's
API, where one is known (the reference of policies says which).
Holds: a secret is never written out; amounts compare in base units, so that 1Gi and 1024Mi are one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from muster_language import Row
from muster_language.catalogue import value_types as of
from muster_language.checks.bounds import refusal
from muster_policy_engine.amounts import amount_of, unit_of
from muster_policy_engine.policy import Comparable, Options, Rules

_MASK: Final = "***"
_LISTED: Final = 20  # options that a sentence names
_PATHS: Final = frozenset({"path", "mount_path", "working_dir"})


class Against(NamedTuple):
    """What one rule has against one value. item: the label of the item that is meant; empty: none."""

    path: str
    rule: str
    given: str
    allowed: str
    details: str
    item: str = ""


Found = Iterator[Against]


def within(row: Row, value: Any, rules: Rules, path: str, item: str = "") -> Found:
    """What bounds and options have against a value that is said."""
    given = text_of(row, value)
    if rules.options is not None and not _is_among(row, value, rules.options):
        allowed = _listed(rules.options.texts)
        yield Against(path, "options", given, allowed, f"value must be one of: {allowed}", item)
    if rules.minimum is None and rules.maximum is None and rules.step is None:
        return
    if refusal(row, value) is not None:
        return  # it is no amount, which the language says by itself: there is nothing to compare
    yield from bounded(given, amount_of(row, value), rules, path, item)


def bounded(given: str, amount: Comparable, rules: Rules, path: str, item: str = "") -> Found:
    """What minimum, maximum and step have against an amount. given: as its user wrote it."""
    if rules.minimum is not None and amount < rules.minimum.amount:
        low = rules.minimum.text
        yield Against(path, "min", given, f"at least {low}", f"value must be no less than {low}", item)
    if rules.maximum is not None and amount > rules.maximum.amount:
        high = rules.maximum.text
        yield Against(path, "max", given, f"at most {high}", f"value must be no greater than {high}", item)
    if rules.step is not None:
        first = rules.minimum.amount if rules.minimum is not None else 0
        if (Fraction(amount) - Fraction(first)) % Fraction(rules.step.amount):
            start = f"{rules.minimum.text} plus " if rules.minimum is not None else ""
            allowed = f"{start}a multiple of {rules.step.text}"
            yield Against(path, "step", given, allowed, f"value must be {allowed}", item)


def is_same(row: Row, value: Any, other: Any) -> bool:
    """Whether two values of a row are one: amounts in base units, all else as it is written."""
    if value == other or value is None or other is None:
        return bool(value == other)
    if unit_of(row) is None or refusal(row, value) is not None or refusal(row, other) is not None:
        return False
    return amount_of(row, value) == amount_of(row, other)


def is_nothing(value: Any) -> bool:
    """Whether a value says nothing: none at all, an empty text, an empty list."""
    return value is None or value in ("", [])


def unsaid(path: str, item: str = "") -> Against:
    """A value that the policy requires and that is not given."""
    return Against(path, "required", "", "a value", "a value is required", item)


def changed(row: Row, path: str, value: Any, expected: Any, item: str = "") -> Against:
    """A value that users changed where the policy prohibits it. None: there is none."""
    allowed = text_of(row, expected) if expected is not None else "nothing"
    given = text_of(row, value) if value is not None else ""
    details = "the administrator prohibited changing the value of this field"
    return Against(path, "canEdit", given, allowed, details, item)


def blocked(row: Row, path: str, value: Any, item: str = "") -> Against:
    """A value where the policy prohibits any."""
    details = "the administrator prohibited the use of this field"
    return Against(path, "blocked", text_of(row, value), "nothing", details, item)


def _is_among(row: Row, value: Any, options: Options) -> bool:
    values = value if isinstance(value, list) else [value]
    if row.name in _PATHS:
        allowed = {_folder(str(each)) for each in options.values}
        return all(_folder(str(each)) in allowed for each in values)
    return all(each in options.values for each in values)


def _folder(path: str) -> str:
    """The path without doubled slashes, dots and a slash at its end. POSIX lets two slashes in front mean another."""
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def _listed(texts: tuple[str, ...]) -> str:
    more = f", and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    float: lambda value: f"{value:.15g}",
    Decimal: lambda value: f"{value.normalize():f}",
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
