"""What a policy's rules have against a merged spec, all of it at once.

Called by judging. Rules look at values of the effective spec, whoever gave them, for workers and master alike; only
`canEdit`, `canAdd` and `locked` ask who: what a template or the user changed where the policy lets nobody change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster_language import Cleared, Merged
from muster_language.merging.layers import POLICIES
from muster_policy_engine.judging.bounds import Found, changed, unsaid, within
from muster_policy_engine.judging.items import instances, members
from muster_policy_engine.policy import Policy, Ruled, Section
from muster_policy_engine.judging.views import View, value_of, views


@dataclass(frozen=True, slots=True)
class Objection:
    """One issue: what is wrong at a path, by which rule; `policy` and `scope` are empty for the language's own."""

    path: str
    rule: str
    given: str
    allowed: str
    details: str
    policy: str = ""
    scope: str = ""


def objections(merged: Merged, section: Section, policy: Policy) -> list[Objection]:
    """Everything that the section has against the spec."""
    if not section.rules:
        return []
    sides = views(merged, section)
    return [
        Objection(*found, policy=policy.name, scope=policy.scope)
        for ruled in section.rules
        for view in sides.of(ruled.place)
        for found in _ruled(view, ruled, merged.cleared)
    ]


def _ruled(view: View, ruled: Ruled, cleared: list[Cleared]) -> Found:
    if not ruled.place.itemized:
        return _value(view, ruled, cleared)
    return instances(view, ruled, cleared) if ruled.place.member is None else members(view, ruled)


def _value(view: View, ruled: Ruled, cleared: list[Cleared]) -> Found:
    """A field, or a member of an object."""
    place, rules = ruled.place, ruled.rules
    path = place.row.path if place.member is None else f"{place.row.path}.{place.member.path}"
    here = f"{view.prefix}{path}"
    value, expected = _said(view.spec, ruled), _said(view.baseline, ruled)
    # What a master leaves unsaid it has from the workers, of whom it is required already.
    if value is None and rules.required and (not view.prefix or place.side):
        yield unsaid(here)
    if rules.can_edit is False:
        if view.by_users(path) and value != expected:
            yield changed(place.value, here, value, expected)
        elif any(each.path == here and each.layer in POLICIES for each in cleared):
            yield changed(place.value, here, None, expected, ", and another field of the workload excludes it")
    if value is not None:
        yield from within(place.value, value, rules, here)


def _said(spec: Any, ruled: Ruled) -> Any:
    place = ruled.place
    if place.member is None:
        return value_of(place.row, spec)
    return value_of(place.member, getattr(spec, place.row.name)) if spec.HasField(place.row.name) else None
