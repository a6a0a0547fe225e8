"""The policies of one branch laid together: what holds for a kind of workload in a project.

Called by the service for each branch that is judged, and by the command. Pure.
Rules: the lowest default wins, member by member and item by item, but not below a level that keeps users from changing
it; rules of all levels hold; a project's v1 document replaces the tenant's whole.
Holds: the order in which policies are given does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from muster_language import Kind, Layer, LayerName, WorkloadSpec, combine
from muster_language.catalogue import catalogue
from muster_language.labels import members_of
from muster_language.merging.overlay import given, groups, itemized, put
from muster_policy_engine.documents.defaults import lay
from muster_policy_engine.places import Place
from muster_policy_engine.policy import LEVELS, Default, Dialect, Level, Policy, Ruled

LAYERS: Final[Mapping[Level, LayerName]] = MappingProxyType(
    {
        Level.TENANT: LayerName.TENANT,
        Level.CLUSTER: LayerName.CLUSTER,
        Level.DEPARTMENT: LayerName.DEPARTMENT,
        Level.PROJECT: LayerName.PROJECT,
    }
)


@dataclass(frozen=True, slots=True)
class Applied:
    """The rules of a place, with the policy that they stand in."""

    ruled: Ruled
    policy: Policy


@dataclass(frozen=True, slots=True)
class Ignored:
    """A default that does not count, since a policy above prohibits changing the field. path: in the document."""

    path: str
    label: str
    policy: Policy
    by: Policy


@dataclass(frozen=True, slots=True)
class Composed:
    """What holds for one kind on one branch.

    policies: the highest first. layers: their defaults, one a policy. baseline: what a workload that says nothing has
    of them, against which changes are seen. attributes: one item a field, whose members every item gets.
    """

    kind: Kind
    policies: tuple[Policy, ...]
    layers: tuple[Layer, ...]
    baseline: WorkloadSpec
    attributes: WorkloadSpec
    rules: tuple[Applied, ...]
    ignored: tuple[Ignored, ...]

    def of_layer(self, name: LayerName) -> Policy | None:
        """The policy whose defaults a layer has; None for any other layer."""
        return next((each for each in self.policies if LAYERS[each.scope.level] is name), None)


def compose(kind: Kind, policies: Iterable[Policy]) -> Composed:
    """The policies of a branch, at most one a level, as they hold together."""
    standing = _standing(policies)
    layers: list[Layer] = []
    ignored: list[Ignored] = []
    for index, policy in enumerate(standing):
        open_ones: list[Default] = []
        for each in policy.body.defaults:
            by = closed_by(each, standing[:index])
            if by is None:
                open_ones.append(each)
            else:
                ignored.append(Ignored(each.place.path, each.label, policy, by))
        spec, attributes = lay(open_ones)
        layers.append(Layer(LAYERS[policy.scope.level], spec, attributes))
    rules = tuple(Applied(ruled, policy) for policy in standing for ruled in policy.body.rules.values())
    return Composed(kind, standing, tuple(layers), combine(layers), _attributes(layers), rules, tuple(ignored))


def without_rules_of(composed: Composed, level: Level) -> Composed:
    """The same with the defaults of a level and without its rules."""
    return replace(composed, rules=tuple(each for each in composed.rules if each.policy.scope.level is not level))


def _standing(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Those that count, the highest first. A v1 document of a project switches the tenant's off, whole."""
    found = sorted(policies, key=lambda each: LEVELS.index(each.scope.level))
    if any(each.dialect is Dialect.V1 and each.scope.level is Level.PROJECT for each in found):
        found = [each for each in found if each.dialect is not Dialect.V1 or each.scope.level is Level.PROJECT]
    return tuple(found)


def closed_by(default: Default, above: Iterable[Policy]) -> Policy | None:
    """The policy above that prohibits changing what the default gives; None where the default counts.

    A default also gives way where it would take out a closed field that a policy above gives, being a member of the
    same exclusive group.
    """
    policies = tuple(above)
    return next((each for each in policies if any(_closes(ruled, default, policies) for ruled in _ruled(each))), None)


def _ruled(policy: Policy) -> Iterable[Ruled]:
    return policy.body.rules.values()


def _closes(ruled: Ruled, default: Default, policies: tuple[Policy, ...]) -> bool:
    """Whether a rule of a policy above keeps the default out."""
    place, rules = ruled.place, ruled.rules
    if place.path == default.place.path:
        return rules.closed or default.label in rules.closed_labels
    if place.side is not default.place.side:
        return False
    if rules.blocked and _says(default, place):
        return True
    return rules.closed and place.row.name in _beside(default) and _gives(policies, place)


def _says(default: Default, place: Place) -> bool:
    """Whether a default item says the member that the place is about."""
    inside = default.place.row is place.row and place.member is not None
    return inside and any(member is place.member for member, _ in default.members)


def _gives(policies: tuple[Policy, ...], place: Place) -> bool:
    """Whether one of the policies has a default for the place."""
    return any(each.place.path == place.path for policy in policies for each in policy.body.defaults)


def _beside(default: Default) -> frozenset[str]:
    """The rows of the exclusive groups that the default clears."""
    name = default.place.row.name
    return frozenset(other for group in groups() if name in group.members for other in group.all) - {name}


def _attributes(layers: list[Layer]) -> WorkloadSpec:
    """The attributes of all layers; of two that give a member, the lower level's."""
    together = WorkloadSpec()
    for layer in layers:
        if layer.attributes is not None:
            _members(together, layer.attributes)
            if layer.attributes.HasField("master_spec"):
                _members(together.master_spec, layer.attributes.master_spec)
    return together


def _members(target: Any, source: Any) -> None:
    for name in itemized():
        for item in getattr(source, name):
            items = getattr(target, name)
            own = items[0] if len(items) else items.add()
            for member in members_of(catalogue().by_name[name]):
                if given(member, item):
                    put(member, own, item)
