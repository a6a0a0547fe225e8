"""What the policies of a branch have against a merged spec, all of it at once.

Called by judging. Rules look at values of the effective spec from any layer, for workers and master alike; only
`canEdit`, `canAdd`, `canRemove`, `locked` and `blocked` ask who: what a template or the user gave where the policy
prohibits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from muster_language import LayerName, Merged
from muster_policy_engine.combined import Combined
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.bounds import (
    Found,
    blocked,
    bounded,
    changed,
    is_nothing,
    is_same,
    text_of,
    unsaid,
    within,
)
from muster_policy_engine.judging.items import instances, members
from muster_policy_engine.judging.leaving_out import LeftOut
from muster_policy_engine.judging.values import said, value_of
from muster_policy_engine.judging.views import View, views
from muster_policy_engine.places import Place
from muster_policy_engine.policy import Policy, Ruled

_SCALING: Final = frozenset({"min_scale", "max_scale", "metric"})
"""Derived for every service; what else is derived follows from something that was said."""


@dataclass(frozen=True, slots=True)
class Objection:
    """One issue: what is wrong at a path, by which rule. policy: None where the language says so itself."""

    path: str
    rule: str
    given: str
    allowed: str
    details: str
    item: str = ""
    policy: Policy | None = None


def objections(merged: Merged, composed: Composed, left_out: LeftOut) -> list[Objection]:
    """Everything that the policies have against the spec."""
    if not composed.rules:
        return []
    sides = views(merged, composed, left_out)
    return [
        Objection(*found, policy=applied.policy)
        for applied in composed.rules
        for view in sides.of(applied.ruled.place)
        for found in _ruled(view, applied.ruled)
    ]


def _ruled(view: View, ruled: Ruled) -> Found:
    if not ruled.place.itemized:
        return _value(view, ruled)
    return instances(view, ruled) if ruled.place.instances else members(view, ruled)


def _value(view: View, ruled: Ruled) -> Found:
    """A field, or a member of an object."""
    place, rules = ruled.place, ruled.rules
    if place.combined is not None:
        yield from _combined(view, ruled, place.combined)
        return
    path = place.row.path if place.member is None else f"{place.row.path}.{place.member.path}"
    here = f"{view.prefix}{path}"
    value = view.value(place)
    if rules.blocked:
        if value is not None and _is_edited(view, place, path):
            yield blocked(place.value, here, value)
        return
    # What a master leaves unsaid it has from the workers, of whom it is required already.
    if rules.required and (not view.master or place.side) and (is_nothing(value) or _of_itself(view, place, path)):
        yield unsaid(here)
    if rules.can_edit is False:
        yield from _edited(view, place, path)
    if value is not None:
        yield from within(place.value, value, rules, here)


def _of_itself(view: View, place: Place, path: str) -> bool:
    """Whether the language gives the value to every workload: `required` asks for one that is given."""
    source = view.source(path)
    return source is LayerName.LANGUAGE or (source is LayerName.DERIVED and place.row.name in _SCALING)


def _edited(view: View, place: Place, path: str) -> Found:
    """A value that users changed, or took away by giving another field that excludes it."""
    if _is_edited(view, place, path):
        yield changed(place.value, f"{view.prefix}{path}", view.value(place), _expected(view, place))


def _is_edited(view: View, place: Place, path: str) -> bool:
    """Whether the users' value is neither the policies' default nor what would be there without it."""
    value = view.value(place)
    if is_same(place.value, value, said(view.baseline, place)):
        return False
    by_users = view.by_users(path) or view.taken_away(path)
    return by_users and not is_same(place.value, value, _expected(view, place))


def _expected(view: View, place: Place) -> Any:
    """The policies' default, else what would be there if the users said nothing."""
    default = said(view.baseline, place)
    return default if default is not None else view.unedited(place)


def _combined(view: View, ruled: Ruled, combined: Combined) -> Found:
    """A value that several fields give together; the giver of one of them is its giver."""
    rules, row, here = ruled.rules, ruled.place.row, f"{view.prefix}{combined.path}"
    value = combined.of(view.spec)
    if value is None and rules.required and (not view.master or ruled.place.side):
        yield unsaid(here)
    if rules.can_edit is False and _is_combined_edited(view, combined):
        yield changed(row, here, value, _combined_expected(view, combined))
    if isinstance(value, Decimal):
        yield from bounded(text_of(row, value), value, rules, here)


def _is_combined_edited(view: View, combined: Combined) -> bool:
    """Whether the users' fields together are neither the policies' default nor what would be there without them."""
    if _is_same_combined(combined, view.spec, view.baseline):
        return False
    if not any(view.by_users(path) or view.taken_away(path) for path in combined.paths):
        return False
    return not _is_same_combined(combined, view.spec, view.left_out.fields(combined.names, master=view.master))


def _is_same_combined(combined: Combined, role: Any, other: Any) -> bool:
    """Whether both have the value, and ask for it in the same way."""
    alternatives = ((each, value_of(each, role), value_of(each, other)) for each in combined.alternatives)
    return combined.of(role) == combined.of(other) and all(is_same(*each) for each in alternatives)


def _combined_expected(view: View, combined: Combined) -> Any:
    default = combined.of(view.baseline)
    return default if default is not None else combined.of(view.left_out.fields(combined.names, master=view.master))
