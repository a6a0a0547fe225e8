"""The rules about items: which there may be, which nobody may touch, and what the members of each may be.

Called by the rules for every place that speaks about items, once a side of the workload.
Holds: an item that the policy itself gives keeps its own rules; what a user's item says is judged like any value.
"""

from __future__ import annotations

from typing import Any

from muster_language import Cleared, Row
from muster_language.merging.layers import POLICIES
from muster_policy_engine.judging.bounds import Against, Found, changed, unsaid, within
from muster_policy_engine.places import Place
from muster_policy_engine.policy import Ruled
from muster_policy_engine.judging.views import View, value_of


def instances(view: View, ruled: Ruled, cleared: list[Cleared]) -> Found:
    """`canAdd` and `locked`: which items there may be."""
    row, rules = ruled.place.row, ruled.rules
    defaults = {item.label: item for item in getattr(view.baseline, row.name)}
    if rules.can_add is False:
        for item in view.items(row):
            path = f"{row.path}.{item.label}"
            if item.label not in defaults and view.by_users(path):
                said = f"the policy does not let items be added to {row.path}"
                allowed = f"only {', '.join(defaults)}" if defaults else "none"
                yield Against(f"{view.prefix}{path}", "canAdd", item.label, allowed, said)
    for label in rules.locked or ():
        yield from _locked(view, row, label, defaults.get(label), cleared)


def _locked(view: View, row: Row, label: str, default: Any, cleared: list[Cleared]) -> Found:
    path = f"{row.path}.{label}"
    said = f"the policy does not let {path} be changed or taken out"
    item = next((each for each in view.items(row) if each.label == label), None)
    if item is None:
        if any(each.path == f"{view.prefix}{path}" and each.layer in POLICIES for each in cleared):
            yield Against(f"{view.prefix}{path}", "locked", "", "as the policy sets it", said)
    elif view.by_users(path) and not _same(item, default):
        yield Against(f"{view.prefix}{path}", "locked", label, "as the policy sets it", said)


def _same(item: Any, default: Any) -> bool:
    return default is not None and bool(item == default)


def members(view: View, ruled: Ruled) -> Found:
    """What a member may be, in every item, or in the first where the place means that one alone."""
    place = ruled.place
    items = view.items(place.row)
    for item in items[:1] if place.first_only else items:
        yield from _member(view, ruled, item)


def _member(view: View, ruled: Ruled, item: Any) -> Found:
    place, rules = ruled.place, ruled.rules
    row = place.value
    inside = f"{place.row.path}.{item.label}"
    path = f"{inside}.{row.path}"
    here = f"{view.prefix}{path}"
    value = value_of(row, item)
    if value is None:
        if rules.required:
            yield unsaid(here)
        return
    if rules.can_edit is False and view.by_users(path, inside):
        expected = _expected(view, place, item.label)
        if value != expected:
            yield changed(row, here, value, expected)
    yield from within(row, value, rules, here)


def _expected(view: View, place: Place, label: str) -> Any:
    """What the policy gives for the member: in its own item of that label, else in every item."""
    row = place.value
    own = next((each for each in getattr(view.baseline, place.row.name) if each.label == label), None)
    if own is not None:
        return value_of(row, own)
    every = getattr(view.attributes, place.row.name)
    return value_of(row, every[0]) if every else None
