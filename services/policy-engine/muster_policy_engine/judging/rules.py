"""What the policies of a branch have against a merged spec, all of it at once.

Called by judging. Rules look at values of the effective spec, whoever gave them, for workers and master alike; only
`canEdit`, `canAdd`, `canRemove`, `locked` and `blocked` ask who: what a template or the user gave where the policy
lets nobody give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster_language import Cleared, Merged
from muster_language.merging.layers import POLICIES
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.bounds import Found, blocked, changed, is_same, unsaid, within
from muster_policy_engine.judging.items import instances, members
from muster_policy_engine.judging.views import View, value_of, views
from muster_policy_engine.policy import Policy, Ruled


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


def objections(merged: Merged, composed: Composed) -> list[Objection]:
    """Everything that the policies have against the spec."""
    if not composed.rules:
        return []
    sides = views(merged, composed)
    return [
        Objection(*found, policy=applied.policy)
        for applied in composed.rules
        for view in sides.of(applied.ruled.place)
        for found in _ruled(view, applied.ruled, merged.cleared)
    ]


def _ruled(view: View, ruled: Ruled, cleared: list[Cleared]) -> Found:
    if not ruled.place.itemized:
        return _value(view, ruled, cleared)
    return instances(view, ruled, cleared) if ruled.place.instances else members(view, ruled)


def _value(view: View, ruled: Ruled, cleared: list[Cleared]) -> Found:
    """A field, or a member of an object."""
    place, rules = ruled.place, ruled.rules
    path = place.row.path if place.member is None else f"{place.row.path}.{place.member.path}"
    here = f"{view.prefix}{path}"
    value = _said(view.spec, ruled)
    if rules.blocked:
        if value is not None and view.by_users(path):
            yield blocked(place.value, here, value)
        return
    # What a master leaves unsaid it has from the workers, of whom it is required already.
    if value is None and rules.required and (not view.prefix or place.side):
        yield unsaid(here)
    if rules.can_edit is False:
        expected = _said(view.baseline, ruled)
        if view.by_users(path) and not is_same(place.value, value, expected):
            yield changed(place.value, here, value, expected)
        elif any(each.path == here and each.layer in POLICIES for each in cleared):
            # Another field of the workload excludes it.
            yield changed(place.value, here, None, expected)
    if value is not None:
        yield from within(place.value, value, rules, here)


def _said(spec: Any, ruled: Ruled) -> Any:
    place = ruled.place
    if place.member is None:
        return value_of(place.row, spec)
    return value_of(place.member, getattr(spec, place.row.name)) if spec.HasField(place.row.name) else None
