"""Defaults that are worked out from other fields (`defaultFrom`), once all layers and attributes are in.

Called by judging before the language derives its own. Chains are followed in order; a write refuses those that come
back to their start, and what the levels of a branch bring together without a write stops at the first field again.
Holds: a value that somebody gave is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from muster_language import Merged
from muster_language.checks.bounds import refusal
from muster_language.merging.roles import complete_master
from muster_policy_engine.amounts import amount_of, value_from
from muster_policy_engine.composing import LAYERS, Applied, Composed
from muster_policy_engine.judging.views import value_of
from muster_policy_engine.places import Place, Side

_MASTER: Final = "masterSpec."


def work_out(merged: Merged, composed: Composed) -> None:
    """Sets the fields that nothing sets and whose source has a value, and notes the policy's layer for them."""
    wanted = {
        applied.ruled.place.path: applied
        for applied in composed.rules
        if applied.ruled.rules.default_from is not None
    }
    for path in _in_order(wanted):
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
        master = complete_master(merged.spec)
        if master is None:
            return
        # What a master leaves unsaid it has from the workers; items are its own.
        role, whole, prefix = merged.spec.master_spec, merged.spec.master_spec if place.itemized else master, _MASTER
    for (target, path), (seen, _) in zip(_targets(role, place), _targets(whole, place), strict=True):
        source = value_of(rule.source.value, _holder(seen, whole, rule.source))
        # A source that is no amount is what the language refuses by itself.
        if value_of(place.value, seen) is None and source is not None and refusal(rule.source.value, source) is None:
            amount = Fraction(amount_of(rule.source.value, source)) * rule.factor
            setattr(target, place.value.name, value_from(place.value, amount))
            merged.provenance[f"{prefix}{path}"] = LAYERS[applied.policy.scope.level]


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
