"""What the policies of a branch have against a merged spec, all of it at once.

Called by judging. Rules look at values of the effective spec from any layer, for workers and master alike; only
`canEdit`, `canAdd`, `canRemove`, `locked` and `blocked` ask who: what a template or the user gave where the policy
prohibits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from muster_language import LayerName, Merged
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.bounds import Found, blocked, changed, is_nothing, is_same, unsaid, within
from muster_policy_engine.judging.items import instances, members
from muster_policy_engine.judging.leaving_out import LeftOut
from muster_policy_engine.judging.values import said
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
