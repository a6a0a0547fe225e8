"""A policy as the YAML text of a v2 document.

Used by the conversion of v1, by a take-over and by the export of changed policies.
Holds: reading the text gives an equal policy. Paths are nested where that keeps their order, else they have dots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import yaml

from muster_language import Row
from muster_language.catalogue import value_types as of
from muster_policy_engine.documents.defaults import label_word
from muster_policy_engine.documents.rules import WORDS
from muster_policy_engine.places import Place
from muster_policy_engine.policy import Body, Bound, Default, DefaultFrom, Dialect, Options, Policy, Rules, Scope

_WIDEST: Final = 1 << 30  # characters of a line: a text that is folded is hard to compare
_POLICY: Final = "Policy"
_WORD_OF: Final[Mapping[str, str]] = MappingProxyType({name: word for word, name in WORDS.items()})


def write_policy(policy: Policy) -> str:
    """The document of a policy. Raises ValueError for a v1 policy: it has to be converted first."""
    if policy.dialect is not Dialect.V2:
        raise ValueError(f"the policy {policy.name!r} is of v1: convert it to v2 before it is written")
    document: dict[str, Any] = {"kind": _POLICY}
    if policy.name:
        document["name"] = policy.name
    document |= {"workload": policy.kind.word, "scope": _scope(policy.scope), "policy": body_of(policy.body)}
    return _dumped(document)


def body_of(body: Body) -> dict[str, Any]:
    """What is under `policy:`, as plain values."""
    found: dict[str, Any] = {}
    if body.defaults:
        found["defaults"] = _nested(_defaults(body.defaults))
    if body.rules:
        found["rules"] = _nested((path, _rules(each.place, each.rules)) for path, each in body.rules.items())
    reserved = {"rules": list(body.reserved.rules), "defaults": list(body.reserved.defaults)}
    if any(reserved.values()):
        found["reserved"] = {word: paths for word, paths in reserved.items() if paths}
    return found


def _dumped(document: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_WIDEST, default_flow_style=False)
    return text


def _scope(scope: Scope) -> Any:
    return {str(scope.level): scope.unit} if scope.unit else str(scope.level)


def _nested(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The entries as mappings within mappings. A mapping that another entry follows is closed: order counts."""
    found: dict[str, Any] = {}
    for path, value in entries:
        inner, left = found, path
        while "." in left:
            word, rest = left.split(".", 1)
            if word in inner and (next(reversed(inner)) != word or not isinstance(inner[word], dict)):
                break
            inner, left = inner.setdefault(word, {}), rest
        inner[left] = value
    return found


def _defaults(given: Iterable[Default]) -> Iterable[tuple[str, Any]]:
    """One entry a place; the items of a place together."""
    items: dict[str, list[Any]] = {}
    for each in given:
        if not each.place.instances:
            yield each.place.path, _value(each.place.value, each.value)
            continue
        known = each.place.path in items
        items.setdefault(each.place.path, []).append(_item(each))
        if not known:
            yield each.place.path, items[each.place.path]


def _item(default: Default) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for member, value in default.members:
        if member is None:
            said[label_word(default.place.row)] = value
        else:
            said[member.rest] = _value(member, value)
    return {**said, "exclude": True} if default.excluded else said


def _value(row: Row, value: Any) -> Any:
    if row.words is not None:
        return row.words.by_number[value]
    return list(value) if row.type == of.ARRAY else value


def _rules(place: Place, rules: Rules) -> dict[str, Any]:
    return {_WORD_OF[name]: _rule(place, getattr(rules, name)) for name in rules.said}


def _rule(place: Place, value: Any) -> Any:
    match value:
        case Bound():
            return _number(value.text)
        case Options():
            return [
                {"value": text, "displayed": displayed} if displayed else text
                for text, displayed in zip(value.texts, value.displayed, strict=True)
            ]
        case DefaultFrom():
            source = value.source
            name = source.value.path if place.itemized else source.path.removeprefix(place.side)
            return {"field": name, "factor": _number(value.text)}
        case tuple():
            return list(value)
        case _:
            return value


def _number(text: str) -> Any:
    """The text as a number where that is written in the same way, so that it needs no quotes."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if yaml.safe_dump(number).split("\n", 1)[0] == text:
            return number
    return text
