"""The rules about items: which there may be, which nobody may touch, and what the members of each may be.

Called by the rules for every place that speaks about items, once a side of the workload.
Holds: an item that the policy itself gives keeps its own rules; what a user's item says is judged like any value.
"""

from __future__ import annotations

from typing import Any

from muster_language import Cleared, Row
from muster_language.merging.layers import POLICIES
from muster_policy_engine.judging.bounds import Against, Found, blocked, changed, is_same, unsaid, within
from muster_policy_engine.judging.views import View, value_of
from muster_policy_engine.places import Place
from muster_policy_engine.policy import Ruled


def instances(view: View, ruled: Ruled, cleared: list[Cleared]) -> Found:
    """`canAdd`, `blocked`, `required` and the items that nobody may touch: which items there may be.

    The path of what they say is the list; `item` names what is meant in it.
    """
    row, rules = ruled.place.row, ruled.rules
    here = f"{view.prefix}{row.path}"
    items = view.items(row)
    if rules.required and not items:
        yield unsaid(here)
    defaults = {item.label: item for item in getattr(view.baseline, row.name)}
    for item in items:
        if not view.by_users(f"{row.path}.{item.label}"):
            continue
        if rules.blocked:
            details = "the administrator prohibited the use of this field"
            yield Against(here, "blocked", item.label, "nothing", details, item.label)
        elif rules.can_add is False and item.label not in defaults:
            allowed = f"only {', '.join(defaults)}" if defaults else "none"
            yield Against(here, "canAdd", item.label, allowed, "the administrator prohibited adding new items", item.label)
    there = {item.label: item for item in items}
    gone = {each.path for each in cleared if each.layer in POLICIES}
    for label in rules.locked or ():
        if _is_gone(here, label, there, gone) or _is_changed(view, row, label, there, defaults):
            yield _touched(here, "locked", "modifying", label, there)
    for label in rules.kept or ():
        if _is_gone(here, label, there, gone):
            yield _touched(here, "canRemove", "removing", label, there)
    for label in rules.fixed or ():
        if _is_changed(view, row, label, there, defaults):
            yield _touched(here, "canEdit", "modifying", label, there)


def _is_gone(here: str, label: str, there: dict[str, Any], gone: set[str]) -> bool:
    return label not in there and f"{here}.{label}" in gone


def _is_changed(view: View, row: Row, label: str, there: dict[str, Any], defaults: dict[str, Any]) -> bool:
    item = there.get(label)
    return item is not None and view.by_users(f"{row.path}.{label}") and item != defaults.get(label)


def _touched(here: str, rule: str, verb: str, label: str, there: dict[str, Any]) -> Against:
    given = label if label in there else ""
    return Against(here, rule, given, "as the policy sets it", f"the administrator prohibited {verb} item '{label}'", label)


def members(view: View, ruled: Ruled) -> Found:
    """What a member may be, in every item, or in the first where the place means that one alone."""
    place = ruled.place
    items = view.items(place.row)
    for item in items[:1] if place.first_only else items:
        yield from _member(view, ruled, item)


def _member(view: View, ruled: Ruled, item: Any) -> Found:
    place, rules = ruled.place, ruled.rules
    row, label = place.value, item.label
    inside = f"{place.row.path}.{label}"
    path = f"{inside}.{row.path}"
    here = f"{view.prefix}{path}"
    value = value_of(row, item)
    if value is None:
        if rules.required:
            yield unsaid(here, label)
        return
    by_users = view.by_users(path, inside)
    if rules.blocked:
        if by_users:
            yield blocked(row, here, value, label)
        return
    if rules.can_edit is False and by_users:
        expected = _expected(view, place, label)
        if not is_same(row, value, expected):
            yield changed(row, here, value, expected, label)
    yield from within(row, value, rules, here, label)


def _expected(view: View, place: Place, label: str) -> Any:
    """What the policy gives for the member: in its own item of that label, else in every item."""
    row = place.value
    own = next((each for each in getattr(view.baseline, place.row.name) if each.label == label), None)
    if own is not None:
        return value_of(row, own)
    every = getattr(view.attributes, place.row.name)
    return value_of(row, every[0]) if every else None
