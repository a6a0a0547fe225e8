"""Labelled items: their labels and their members, of one layer or of the effective spec.

Called by the checks of a spec. A check is made once per row; one of it looks at 12 items in some ten microseconds.
Holds: of a layer, a member that a policy's attributes can give is not missed; of the effective spec it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from muster_language.catalogue import Row
from muster_language.catalogue import value_types as of
from muster_language.checks.bounds import check_of
from muster_language.documents.document import Violation
from muster_language.labels import label_of, members_of
from muster_language.naming import Naming
from muster_language.rules.item import FAULTS
from muster_language.values import Refused, shown

MOST_ITEMS: Final = 1_000
_VARIABLE: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]{0,252}")
_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL: Final = re.compile(r"[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]{0,315}[^\s\x00-\x1f\x7f])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_SIGN: Final = "SECRET:"
_REFERENCE: Final = re.compile(r"SECRET:[^,\s]{1,253},\S{1,253}")

_ALLOWED: Final = {
    _VARIABLE: "letters, digits, _ - and ., not beginning with a digit",
    _KEY: "a name of at most 63 letters, digits, - _ and ., if need be after a domain and a slash",
    _LABEL: "a word of at most 317 characters",
}
_PATHS: Final = frozenset({"path", "mount_path"})
_LEGAL: Final = {"environment": _VARIABLE, "labels": _KEY, "annotations": _KEY}

Found = list[Violation]
Items = Callable[[Any, Naming, Found], None]
"""The items of a field, how to name places, and where to put what is wrong."""


@cache
def items_check(row: Row, *, whole: bool) -> Items:
    """The check of an itemized row; whole: of the effective spec, where nothing can come from a policy any more."""
    legal = _LEGAL.get(row.name, _LABEL)
    fullmatch = legal.fullmatch
    inside = _text(row) if row.plain_items else _members(row, whole=whole)

    def check(items: Any, naming: Naming, found: Found) -> None:
        if len(items) > MOST_ITEMS:
            allowed = f"at most {MOST_ITEMS}"
            found.append(Violation(naming.field(row), f"{len(items)} items are too many", allowed=allowed))
            return
        seen: set[str] = set()
        for item in items:
            label = item.label or label_of(item)
            if label in seen:
                said = f"two items have the label {shown(label)}"
                found.append(Violation(naming.item(row, label), said, allowed="each label once"))
            seen.add(label)
            if not fullmatch(label):
                said = f"{shown(label)} is not a label"
                found.append(Violation(naming.item(row, label), said, allowed=_ALLOWED[legal]))
            if not item.deleted:
                inside(item, label, naming, found)

    return check


Check = Callable[[Any], Refused | None]
Inside = Callable[[Any, str, Naming, Found], None]


def _text(row: Row) -> Inside:
    """The items of a map: each is one text, which no policy gives."""
    member = next(member for member in members_of(row) if member.name == "value")
    refusal = _member(row, member)

    def check(item: Any, label: str, naming: Naming, found: Found) -> None:
        value = item.value
        if not value and not item.HasField("value"):
            allowed = "value: text, or deleted: true to take an inherited item out"
            found.append(Violation(naming.item(row, label), "the item has no value", allowed=allowed))
            return
        refused = refusal(value)
        if refused is not None:
            found.append(Violation(naming.member(row, label, member), refused.message, allowed=refused.allowed))

    return check


def _members(row: Row, *, whole: bool) -> Inside:
    checks = {member.number: (member, _member(row, member)) for member in members_of(row)}
    needed = tuple(member for member in members_of(row) if member.mandatory and (whole or not member.policy))
    faults = FAULTS.get(row.name) if whole else None

    def check(item: Any, label: str, naming: Naming, found: Found) -> None:
        for descriptor, value in item.ListFields():
            known = checks.get(descriptor.number)
            if known is None:
                continue
            refused = known[1](value)
            if refused is not None:
                here = naming.member(row, label, known[0])
                found.append(Violation(here, refused.message, allowed=refused.allowed))
        for member in needed:
            if not item.HasField(member.name):
                name = member.yaml or member.path
                here = naming.member(row, label, member) if whole else naming.item(row, label)
                found.append(Violation(here, f"{name} is missing", allowed=f"{row.yaml or row.path} needs {name}"))
        if faults is not None:
            for fault in faults(item):
                member = next(each for each in members_of(row) if each.name == fault.member)
                found.append(Violation(naming.member(row, label, member), fault.message, allowed=fault.allowed))

    return check


def _member(row: Row, member: Row) -> Check:
    check = shaped(member)
    if member.name in _PATHS:
        return lambda value: check(value) or _climbs(value)
    if row.name == "labels":
        return lambda value: check(value) or _label_value(value)
    if row.name == "environment":
        return lambda value: check(value) or (_no_reference(value) if value.startswith(_SIGN) else None)
    return check


def shaped(row: Row) -> Check:
    """The row's check for a value in the shape that protobuf has it in."""
    check = check_of(row)
    if row.type != of.ARRAY:
        return check
    return lambda value: check(list(value.values))


def _climbs(path: str) -> Refused | None:
    """Kubernetes refuses such paths too, but only once somebody has waited for a place."""
    if not path.startswith("/"):
        return Refused(f"{shown(path)} is not an absolute path", "a path that begins with /")
    if ".." in path.split("/"):
        return Refused(f"{shown(path)} has a .. in it", "an absolute path without ..")
    if ":" in path:
        return Refused(f"{shown(path)} has a colon in it", "an absolute path without colons")
    return None


def _label_value(value: str) -> Refused | None:
    if _LABEL_VALUE.fullmatch(value):
        return None
    allowed = "at most 63 letters, digits, - _ and ., a letter or digit first and last"
    return Refused(f"{shown(value)} is not the value of a label", allowed)


def _no_reference(value: str) -> Refused | None:
    """`SECRET:name,key` names a secret; the plain word SECRET is a text like any other."""
    if _REFERENCE.fullmatch(value):
        return None
    allowed = "SECRET:name,key with the name of a secret and a key in it"
    return Refused("the text begins like the reference to a secret, but is none", allowed)
