"""What holds on a branch, as people and consoles look at it: each rule and each default with the policy it is from.

Called by the service and by the command. Pure.
Holds: a secret is never written out; what does not count is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from muster_policy_engine.composing import Composed
from muster_policy_engine.documents.rules import WORDS
from muster_policy_engine.judging.bounds import text_of
from muster_policy_engine.judging.values import said
from muster_policy_engine.policy import Bound, Default, DefaultFrom, Options, Policy

_FURTHER: Final[Mapping[str, str]] = MappingProxyType({"kept": "canRemove", "fixed": "canEdit"})
_BY_MEMBER: Final[Mapping[str, str]] = MappingProxyType({**{name: word for word, name in WORDS.items()}, **_FURTHER})


@dataclass(frozen=True, slots=True)
class EffectiveRule:
    """A rule that holds. value: as a document would write it."""

    path: str
    rule: str
    value: str
    policy: Policy


@dataclass(frozen=True, slots=True)
class EffectiveDefault:
    """A default that holds. item: its label; empty: it is no item."""

    path: str
    item: str
    value: str
    policy: Policy


def effective_rules(composed: Composed) -> list[EffectiveRule]:
    """The rules of all levels, by path."""
    found = [
        EffectiveRule(
            applied.ruled.place.path, _BY_MEMBER[name], _text(getattr(applied.ruled.rules, name)), applied.policy
        )
        for applied in composed.rules
        for name in applied.ruled.rules.said
    ]
    return sorted(found, key=lambda each: (each.path, each.rule, str(each.policy.scope)))


def effective_defaults(composed: Composed) -> list[EffectiveDefault]:
    """The defaults that count, by path: of two levels the lower one's."""
    ignored = {(each.path, each.label, each.policy.key) for each in composed.ignored}
    last: dict[tuple[str, str], EffectiveDefault] = {}
    for policy in composed.policies:
        for each in policy.body.defaults:
            if (each.place.path, each.label, policy.key) in ignored:
                continue
            where = (each.place.path, each.label)
            last.pop(where, None)
            if not each.excluded and _is_in(composed, each):
                last[where] = EffectiveDefault(each.place.path, each.label, _value(each), policy)
    return sorted(last.values(), key=lambda each: (each.path, each.item))


def _is_in(composed: Composed, default: Default) -> bool:
    """Whether the default is still there once all are laid together: one of an exclusive group clears the others."""
    place = default.place
    return place.itemized or said(place.target(composed.baseline), place) is not None


def _value(default: Default) -> str:
    if not default.place.instances:
        return text_of(default.place.value, default.value)
    return ", ".join(
        f"{each.rest or each.path}: {text_of(each, value)}" for each, value in default.members if each is not None
    )


_TEXTS: Final[Mapping[type, Callable[[Any], str]]] = MappingProxyType(
    {
        bool: lambda value: "true" if value else "false",
        Bound: lambda value: value.text,
        Options: lambda value: ", ".join(value.texts),
        DefaultFrom: lambda value: f"{value.source.path} x {value.text}",
        tuple: ", ".join,
    }
)


def _text(value: Any) -> str:
    return _TEXTS[type(value)](value)
