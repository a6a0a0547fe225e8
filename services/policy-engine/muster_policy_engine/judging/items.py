"""The rules about items: which there may be, which stay as they are, and what the members of each may be.

Called by the rules for every place that speaks about items, once a side of the workload.
Holds: an item that the policy itself gives keeps its own rules; what a user's item says is judged like any value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster_policy_engine.judging.bounds import Against, Found, blocked, changed, is_nothing, is_same, unsaid, within
from muster_policy_engine.judging.values import value_of
from muster_policy_engine.judging.views import View
from muster_policy_engine.places import Place
from muster_policy_engine.policy import Ruled


def instances(view: View, ruled: Ruled) -> Found:
    """`canAdd`, `blocked`, `required` and the items that stay as they are: which items there may be.

    The path of what they say is the list; `item` names what is meant in it.
    """
    row, rules = ruled.place.row, ruled.rules
    here = f"{view.prefix}{row.path}"
    items = {item.label: item for item in view.items(row)}
    if rules.required and not items:
        yield unsaid(here)
    if rules.blocked or rules.can_add is False:
        defaults = [item.label for item in getattr(view.baseline, row.name)]
        for label in _added(view, ruled.place, items, defaults):
            yield _not_used(here, label) if rules.blocked else _not_added(here, label, defaults)
    for label in rules.locked or ():
        if _is_gone(view, ruled.place, label, items) or _is_changed(view, ruled.place, label, items):
            yield _touched(here, "locked", "modifying", label, items)
    for label in rules.kept or ():
        if _is_gone(view, ruled.place, label, items):
            yield _touched(here, "canRemove", "removing", label, items)
    for label in rules.fixed or ():
        if _is_changed(view, ruled.place, label, items):
            yield _touched(here, "canEdit", "modifying", label, items)


def _added(view: View, place: Place, items: Iterable[str], defaults: list[str]) -> list[str]:
    """The labels of the items that are there because users gave them."""
    row = place.row
    return [
        label
        for label in items
        if label not in defaults
        and view.by_users(f"{row.path}.{label}")
        and view.left_out.item(row, label, master=view.master) is None
    ]


def _not_added(here: str, label: str, defaults: list[str]) -> Against:
    allowed = f"only {', '.join(sorted(defaults))}" if defaults else "none"
    return Against(here, "canAdd", label, allowed, "the administrator prohibited adding new items", label)


def _not_used(here: str, label: str) -> Against:
    return Against(here, "blocked", label, "nothing", "the administrator prohibited the use of this field", label)


def _is_gone(view: View, place: Place, label: str, items: dict[str, Any]) -> bool:
    return label not in items and view.taken_away(f"{place.row.path}.{label}")


def _is_changed(view: View, place: Place, label: str, items: dict[str, Any]) -> bool:
    row, item = place.row, items.get(label)
    if item is None or not view.by_users(f"{row.path}.{label}"):
        return False
    if any(item == default for default in getattr(view.baseline, row.name)):
        return False
    return bool(item != view.left_out.item(row, label, master=view.master))


def _touched(here: str, rule: str, verb: str, label: str, items: dict[str, Any]) -> Against:
    given = label if label in items else ""
    details = f"the administrator prohibited {verb} item '{label}'"
    return Against(here, rule, given, "as the policy sets it", details, label)


def members(view: View, ruled: Ruled) -> Found:
    """What a member may be, in every item, or in the first where the place means that one alone."""
    place = ruled.place
    items = view.items(place.row)
    for item in items[:1] if place.first_only else items:
        yield from _member(view, ruled, item)


def _member(view: View, ruled: Ruled, item: Any) -> Found:
    place, rules, label = ruled.place, ruled.rules, item.label
    row = place.value
    inside = f"{place.row.path}.{label}"
    here = f"{view.prefix}{inside}.{row.path}"
    value = value_of(row, item)
    if rules.blocked:
        if value is not None and _is_edited(view, place, label, value):
            yield blocked(row, here, value, label)
        return
    if rules.required and is_nothing(value):
        yield unsaid(here, label)
    # An item is replaced whole, so a member that is left out is edited as well.
    if rules.can_edit is False and _is_edited(view, place, label, value):
        yield changed(row, here, value, _unedited(view, place, label), label)
    if value is not None:
        yield from within(row, value, rules, here, label)


def _is_edited(view: View, place: Place, label: str, value: Any) -> bool:
    """Whether the users' value is neither that of the policies' item nor what would be there without it."""
    row, inside = place.value, f"{place.row.path}.{label}"
    if not view.by_users(f"{inside}.{row.path}", inside) or is_same(row, value, _default(view, place, label)):
        return False
    return not is_same(row, value, _unedited(view, place, label))


def _default(view: View, place: Place, label: str) -> Any:
    """What the policies give for the member in an item of their own; None where they have no such item."""
    items = getattr(view.baseline, place.row.name)
    return next((value_of(place.value, each) for each in items if each.label == label), None)


def _unedited(view: View, place: Place, label: str) -> Any:
    """What the member would be if the users said nothing of it: that of the policy's own item, else of every item."""
    item = view.left_out.item(place.row, label, master=view.master)
    if item is None:
        item = view.left_out.member(place.row, place.value, label, master=view.master)
    return value_of(place.value, item) if item is not None else None
