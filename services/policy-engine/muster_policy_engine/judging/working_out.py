"""Defaults that are worked out from other fields (`defaultFrom`), once all layers and attributes are in.

Called by judging before the language derives its own values, and after it. Chains are followed in order; a write
refuses those that come back to their start, and what the levels of a branch bring together without a write stops at the
first field again.
Holds: a value that is given is never changed, nor is one given that excludes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from muster.workload.v1 import workload_pb2
from muster_language import LayerName, Merged
from muster_language.checks.bounds import refusal
from muster_language.merging.overlay import groups
from muster_language.merging.roles import complete_master
from muster_policy_engine.amounts import amount_of, value_from
from muster_policy_engine.composing import LAYERS, Applied, Composed
from muster_policy_engine.judging.values import value_of
from muster_policy_engine.places import Place, Side

_MASTER: Final = "masterSpec."
_REQUEST_OF: Final[Mapping[str, str]] = {
    "gpu_portion_limit": "gpu_portion_request",
    "gpu_memory_limit": "gpu_memory_request",
}
"""Limits that mean nothing without their request."""
_DROPPED: Final = frozenset({"run_as_uid", "run_as_gid"})
"""Fields that the language takes out again where they have no effect."""


def work_out(merged: Merged, composed: Composed, *, derived: bool = False) -> None:
    """Sets the fields that no layer but the language sets and whose source has a value; notes the policy's layer.

    derived: once more, now that the language has derived its own: the bounds of a service may be a source.
    """
    wanted = {
        applied.ruled.place.path: applied for applied in composed.rules if applied.ruled.rules.default_from is not None
    }
    for path in _in_order(wanted):
        if not (derived and wanted[path].ruled.place.value.name in _DROPPED):
            _set(merged, wanted[path])


def _in_order(wanted: Mapping[str, Applied]) -> Iterator[str]:
    """The targets, each behind the targets that it is worked out from."""
    done: set[str] = set()
    for start in wanted:
        chain: list[str] = []
        path = start
        while path in wanted and path not in done and path not in chain:
            chain.append(path)
            rule = wanted[path].ruled.rules.default_from
            path = rule.source.path if rule is not None else ""
        done.update(chain)
        yield from reversed(chain)


def _set(merged: Merged, applied: Applied) -> None:
    place, rule = applied.ruled.place, applied.ruled.rules.default_from
    if rule is None:
        return
    role, whole, prefix = merged.spec, merged.spec, ""
    if place.side is Side.MASTER:
        # What a master leaves unsaid it has from the workers; items are its own by now.
        master = complete_master(merged.spec)
        if master is None:
            return
        role, whole, prefix = merged.spec.master_spec, master, _MASTER
    if _is_excluded(place, rule.source, whole) or _is_idle(rule.source, whole):
        return
    seen_in = role if place.itemized else whole
    for (target, path), (seen, _) in zip(_targets(role, place), _targets(seen_in, place), strict=True):
        source = value_of(rule.source.value, _holder(seen, whole, rule.source))
        if value_of(place.value, seen) is not None and not _of_language(merged, path, prefix):
            continue
        # A source that is not an amount is refused by the language itself.
        if source is not None and refusal(rule.source.value, source) is None:
            amount = Fraction(amount_of(rule.source.value, source)) * rule.factor
            setattr(target, place.value.name, value_from(place.value, amount))
            merged.provenance[f"{prefix}{path}"] = LAYERS[applied.policy.scope.level]


def _of_language(merged: Merged, path: str, prefix: str) -> bool:
    """Whether the value is the language's default, which any policy comes before."""
    return (merged.provenance.get(f"{prefix}{path}") or merged.provenance.get(path)) is LayerName.LANGUAGE


def _is_excluded(place: Place, source: Place, role: Any) -> bool:
    """Whether the role has another member of the target's exclusive group: a plain default would give way to it too.

    A limit needs its own request.
    """
    name = place.row.name
    request = _REQUEST_OF.get(name)
    if request is not None:
        return not role.HasField(request)
    others = {member for group in groups() if name in group.members for member in group.members}
    return any(role.HasField(other) for other in others - {name, source.row.name})


def _is_idle(source: Place, role: Any) -> bool:
    """Whether the source is an id that has no effect: the language takes it out, and the effective spec has none."""
    own = role.run_as_user or role.uid_gid_source == workload_pb2.UID_GID_SOURCE_CUSTOM
    return source.row.name in _DROPPED and not own


def _targets(role: Any, place: Place) -> Iterator[tuple[Any, str]]:
    """Each message that has the target as a member, with the path of the target there."""
    if place.member is None:
        yield role, place.row.path
    elif not place.itemized:
        yield getattr(role, place.row.name), f"{place.row.path}.{place.member.path}"
    else:
        items = getattr(role, place.row.name)
        for item in items[:1] if place.first_only else items:
            yield item, f"{place.row.path}.{item.label}.{place.member.path}"


def _holder(target: Any, role: Any, source: Place) -> Any:
    """The message that has the source as a member: the same item, an object of the role, or the role itself."""
    if source.itemized:
        return target
    return role if source.member is None else getattr(role, source.row.name)
