"""The rules about items: which there may be, which stay as they are, and what the members of each may be.

Called by the rules for every place that speaks about items, once a side of the workload.
Holds: an item that the policy itself gives keeps its own rules; what a user's item says is judged like any value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster_language import Row, catalogue
from muster_policy_engine.judging.bounds import Against, Found, blocked, changed, is_nothing, is_same, unsaid, within
from muster_policy_engine.judging.rewritten import STANDS_FOR, labelled, member_of
from muster_policy_engine.judging.views import View
from muster_policy_engine.policy import Ruled, Rules

_Labelled = Mapping[str, tuple[str, Any]]


def instances(view: View, ruled: Ruled) -> Found:
    """`canAdd`, `blocked`, `required` and the items that stay as they are: which items there may be.

    The path of what they say is the list; `item` names what is meant in it.
    """
    row, rules = ruled.place.row, ruled.rules
    here = f"{view.prefix}{row.path}"
    items = view.items(row)
    # What a master leaves unsaid it has from the workers, of whom it is required already.
    if rules.required and not items and (not view.master or ruled.place.side):
        yield unsaid(here)
    if rules.blocked or rules.can_add is False:
        defaults = sorted(item.label for item in getattr(view.baseline, row.name))
        for label in _added(view, row, items, defaults):
            yield _not_used(here, label) if rules.blocked else _not_added(here, label, defaults)
    if rules.locked or rules.kept or rules.fixed:
        yield from _untouched(view, row, rules)


def _added(view: View, row: Row, items: list[Any], defaults: list[str]) -> list[str]:
    """The labels of the items that are there because users gave them."""
    return [
        item.label
        for item in items
        if item.label not in defaults
        and view.by_users(f"{row.path}.{item.label}")
        and view.left_out.item(row, item.label, master=view.master) is None
    ]


def _not_added(here: str, label: str, defaults: list[str]) -> Against:
    allowed = f"only {', '.join(sorted(defaults))}" if defaults else "none"
    return Against(here, "canAdd", label, allowed, "the administrator prohibited adding new items", label)


def _not_used(here: str, label: str) -> Against:
    return Against(here, "blocked", label, "nothing", "the administrator prohibited the use of this field", label)


def _untouched(view: View, row: Row, rules: Rules) -> Found:
    """The items that the policy itself gives and that users may not change, or not take out, or neither."""
    here = f"{view.prefix}{row.path}"
    items = labelled(view.spec, row, view.left_out.moving)
    for label in rules.locked or ():
        if _is_gone(view, row, label, items) or _is_changed(view, row, label, items):
            yield _touched(here, "locked", "modifying", label, items)
    for label in rules.kept or ():
        if _is_gone(view, row, label, items):
            yield _touched(here, "canRemove", "removing", label, items)
    for label in rules.fixed or ():
        if _is_changed(view, row, label, items):
            yield _touched(here, "canEdit", "modifying", label, items)


def _is_gone(view: View, row: Row, label: str, items: _Labelled) -> bool:
    return label not in items and view.taken_away(f"{row.path}.{label}")


def _is_changed(view: View, row: Row, label: str, items: _Labelled) -> bool:
    path, item = items.get(label, ("", None))
    if item is None or not view.by_users(f"{path}.{label}"):
        return False
    if item == _default_item(view, row, label):
        return False
    return bool(item != view.left_out.item(row, label, master=view.master))


def _touched(here: str, rule: str, verb: str, label: str, items: _Labelled) -> Against:
    given = label if label in items else ""
    details = f"the administrator prohibited {verb} item '{label}'"
    return Against(here, rule, given, "as the policy sets it", details, label)


def members(view: View, ruled: Ruled) -> Found:
    """What a member may be, in every item, or in the first where the place means that one alone."""
    place = ruled.place
    items = view.items(place.row)
    for item in items[:1] if place.first_only else items:
        yield from _member(view, ruled.rules, place.row, place.value, item)
    if place.also is not None:
        for item in view.items(place.also[0]):
            yield from _member(view, ruled.rules, *place.also, item)


def _member(view: View, rules: Rules, field: Row, row: Row, item: Any) -> Found:
    label = item.label
    here = f"{view.prefix}{field.path}.{label}.{row.path}"
    value = member_of(row, item)
    if rules.blocked:
        if value is not None and _is_edited(view, field, row, label, value):
            yield blocked(row, here, value, label)
        return
    if rules.required and is_nothing(value):
        yield unsaid(here, label)
    # An item is replaced whole, so a member that is left out is edited as well.
    if rules.can_edit is False and _is_edited(view, field, row, label, value):
        yield changed(row, here, value, _unedited(view, field, row, label), label)
    if value is not None:
        yield from within(row, value, rules, here, label)


def _is_edited(view: View, field: Row, row: Row, label: str, value: Any) -> bool:
    """Whether the users' value is neither that of the policies' item nor what would be there without it."""
    inside = f"{field.path}.{label}"
    if not (view.by_users(f"{inside}.{row.path}", inside) or _is_said_for_all(view, field, row)):
        return False
    default = _default_item(view, field, label)
    if is_same(row, value, member_of(row, default) if default is not None else None):
        return False
    return not is_same(row, value, _unedited(view, field, row, label))


def _is_said_for_all(view: View, field: Row, row: Row) -> bool:
    """Whether users said the member for all items at once."""
    names = STANDS_FOR.get(f"{field.name}.{row.name}", ())
    return any(view.by_users(catalogue().by_name[name].path) for name in names)


def _default_item(view: View, field: Row, label: str) -> Any:
    """The item of that label that the policies give themselves; None: they give none."""
    _, item = labelled(view.baseline, field, view.left_out.moving).get(label, ("", None))
    return item


def _unedited(view: View, field: Row, row: Row, label: str) -> Any:
    """What the member would be if the users said nothing of it: that of the policy's own item, else of every item."""
    item = view.left_out.item(field, label, row, master=view.master)
    if item is None:
        item = view.left_out.member(field, row, label, master=view.master)
    return member_of(row, item) if item is not None else None
