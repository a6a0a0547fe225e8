"""Policy documents of both dialects as hypothesis draws them, from entries of which each is legal by itself.

What is legal is asked of the readers once a kind, so that a new field of the catalogue is drawn without a change here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from muster_language import Kind, Row, read
from muster_language.catalogue import value_types as of
from muster_language.labels import members_of
from muster_policy_engine.documents.defaults import label_word
from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.documents.v1_fields import Field, fields
from muster_policy_engine.places import Place, places

_ID: Final = "01234567-89ab-cdef-0123-456789abcdef"
_TEXTS: Final = (
    "x",
    "/data//x",
    "https://a.example/b",
    "null",
    "1",
    "Hello: #'\" \\ é\u2028",
    "1e3",
    "1g.5gb",
    "on",
    "build",
    _ID,
)
_AMOUNTS: Final = ("2", "0.5", "1", "80")
_SEVERAL: Final = 4  # entries of a document

Entry = tuple[str, Any]


def _texts(row: Row) -> list[Any]:
    """Values worth a try for a row."""
    if row.words is not None:
        return list(row.words.spelled)
    match row.type:
        case of.BOOLEAN:
            return [True, False]
        case of.ARRAY:
            return [list(row.one_of.values())[:2] or ["a", "b"], ["p"]]
        case of.INTEGER | of.NUMBER | of.QUANTITY:
            return list(_AMOUNTS)
        case _:
            return [*_TEXTS, *row.one_of.values()]


def _v2(kind: Kind, block: str, entries: list[Entry]) -> str:
    body = {block: dict(entries)}
    return json.dumps({"kind": "Policy", "workload": kind.word, "scope": "tenant", "policy": body}, ensure_ascii=False)


def v2_document(kind: Kind, defaults: list[Entry], rules: list[Entry], reserved: list[str], name: str) -> str:
    """The text of a v2 policy, its paths in one word."""
    body = {"defaults": dict(defaults), "rules": dict(rules), "reserved": {"rules": reserved, "defaults": reserved}}
    document = {"kind": "Policy", "name": name, "workload": kind.word, "scope": {"department": name}, "policy": body}
    return json.dumps(document, ensure_ascii=False)


def _is_legal(text: str) -> bool:
    return all(each.violations == [] for each in read_policies(text))


@cache
def v2_defaults(kind: Kind) -> tuple[Entry, ...]:
    """Defaults of a kind that are legal by themselves."""
    tried = [entry for place in places(kind).values() if place.defaultable for entry in _tried_defaults(place)]
    return tuple(entry for entry in tried if _is_legal(_v2(kind, "defaults", [entry])))


def _tried_defaults(place: Place) -> Iterator[Entry]:
    if not place.instances:
        yield from ((place.path, value) for value in _texts(place.value))
        return
    word = label_word(place.row)
    yield place.path, [{word: "gone", "exclude": True}]
    for index in range(3):
        members = {each.rest: (_texts(each) * 3)[index] for each in members_of(place.row) if each.rest}
        for said in (members, dict(list(members.items())[:2]), {}):
            yield place.path, [{word: "a b", **said}, {word: "null", **said}]


@cache
def v2_rules(kind: Kind) -> tuple[Entry, ...]:
    """Rules of a kind that are legal by themselves."""
    tried = [entry for place in places(kind).values() for entry in _tried_rules(kind, place)]
    return tuple(entry for entry in tried if _is_legal(_v2(kind, "rules", [entry])))


def _tried_rules(kind: Kind, place: Place) -> Iterator[Entry]:
    flags = {
        word: index % 2 == 0 for index, word in enumerate(("required", "canEdit", "canAdd")) if word in place.rules
    }
    yield place.path, {"blocked": True}
    for rules in _bounds(place):
        yield place.path, {**flags, **rules}
    if "defaultFrom" in place.rules:
        for other in list(places(kind).values())[:40]:
            source = other.value.path if place.itemized else other.path.removeprefix(place.side)
            yield place.path, {"defaultFrom": {"field": source, "factor": "0.5"}, **flags}


def _bounds(place: Place) -> Iterator[dict[str, Any]]:
    yield {}
    if "locked" in place.rules:
        yield {"locked": ["a", "null", "é: x"]}
    if "min" in place.rules:
        yield {"min": "1", "max": "1.50"}
        yield {"max": "2"}
    if "step" in place.rules:
        yield {"min": "0.50", "step": "1"}
    if "options" in place.rules:
        for text in _texts(place.value):
            yield {"options": [text, {"value": text, "displayed": "shown: as"}]}


@st.composite
def v2_documents(draw: st.DrawFn) -> str:
    """Documents of v2 that are legal, but for what two of their entries say together."""
    kind = draw(st.sampled_from(Kind))
    given = draw(st.lists(st.sampled_from(v2_defaults(kind)), max_size=6, unique_by=lambda each: each[0]))
    ruled = draw(st.lists(st.sampled_from(v2_rules(kind)), max_size=6, unique_by=lambda each: each[0]))
    reserved = draw(st.lists(st.sampled_from(sorted(places(kind))), max_size=2, unique=True))
    return v2_document(kind, given, ruled, reserved, draw(st.sampled_from(["x", "null", "a: b", "é\u2028", "1"])))


def _words(kind: Kind) -> str:
    return kind.document.removesuffix("Workload")


def v1_document(kind: Kind, spec: dict[str, Any], master: dict[str, Any] | None = None) -> str:
    """The text of a v1 policy for all projects."""
    head = {
        "apiVersion": "run.ai/v2alpha1",
        "kind": f"{_words(kind)}Policy",
        "metadata": {"name": "p", "namespace": "runai"},
    }
    return json.dumps({**head, "spec": spec, **({"masterSpec": master} if master else {})}, ensure_ascii=False)


def v1_workload(kind: Kind, spec: dict[str, Any], master: dict[str, Any] | None = None) -> str:
    """The text of a workload with an image."""
    head = {"apiVersion": "run.ai/v2alpha1", "kind": kind.document, "metadata": {"name": "w"}}
    more: dict[str, Any] = {"image": {"value": "img"}}
    if kind is Kind.DISTRIBUTED:
        more |= {"jobType": "PyTorchJob", "workers": {"value": 2}}
    if kind is Kind.INFERENCE:
        more |= {"ports": {"items": {"http": {"value": {"container": 80}}}}}
    return json.dumps(
        {**head, "spec": {**more, **spec}, **({"masterSpec": master} if master else {})}, ensure_ascii=False
    )


@cache
def v1_values(kind: Kind) -> tuple[Entry, ...]:
    """Values that workloads and policies of a kind may give: YAML word, value or items."""
    tried = [(word, value) for word, field in fields(kind).items() for value in _tried_values(field)]
    return tuple(
        (word, value)
        for word, value in tried
        if _is_legal(v1_document(kind, {word: value})) and not read(v1_workload(kind, {word: value}))[0].violations
    )


def _tried_values(field: Field) -> Iterator[Any]:
    if not field.itemized:
        extra = ["2", "0"] if field.word == "gpu" else []
        yield from ({"value": value} for value in (*_texts(field.row), *extra))
        return
    if not field.members:
        yield {"items": {"A": {"value": "x"}, "B": {"value": "y"}}}
        return
    yaml = {each.yaml: each for each in members_of(field.row) if each.yaml}
    for index in range(3):
        every = {word: (_texts(each) * 3)[index] for word, each in yaml.items()}
        for leave in ((), ("nfsServer",), ("existingPvc", "ephemeral"), tuple(list(every)[2:])):
            yield {"items": {"a": {"value": {word: value for word, value in every.items() if word not in leave}}}}


@cache
def v1_rules(kind: Kind) -> tuple[Entry, ...]:
    """Rules that v1 policies of a kind may have."""
    tried = [(word, rules) for word, field in fields(kind).items() for rules in _tried_v1_rules(field)]
    return tuple((word, rules) for word, rules in tried if _is_legal(v1_document(kind, {word: rules})))


def _tried_v1_rules(field: Field) -> Iterator[dict[str, Any]]:
    for rules in _tried_v1(field.judged):
        yield {"rules": rules}
    if not field.itemized:
        return
    for word, place in field.members.items():
        for rules in _tried_v1(place):
            yield {"itemRules": {word: rules}}
    label = "a" if field.members else "A"
    yield {"items": {label: {"rules": {"canEdit": False, "canRemove": False}}}}
    yield {"items": {label: {"rules": {"canEdit": False}}}}


def _tried_v1(place: Place) -> Iterator[dict[str, Any]]:
    for word in ("required", "canEdit", "canAdd"):
        if word in place.rules:
            yield {word: word == "required"}
    if "min" in place.rules:
        yield from ({"min": "1"}, {"max": "1"}, {"min": "0.5", "max": "80"}, {"max": "3"})
    if "options" in place.rules:
        yield from ({"options": [text]} for text in _texts(place.value)[:3])


def _laid(entries: list[Entry]) -> dict[str, Any]:
    """The entries as one mapping, of one word together."""
    found: dict[str, Any] = {}
    for word, value in entries:
        known = found.setdefault(word, {})
        for part, inner in value.items():
            if part == "items" and part in known:
                for label, item in inner.items():
                    known[part] = {**known[part], label: {**known[part].get(label, {}), **item}}
            else:
                known[part] = inner
    return found


@st.composite
def v1_specs(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    """What is under `spec:` of a v1 policy."""
    given = draw(st.lists(st.sampled_from(v1_values(kind)), max_size=_SEVERAL))
    return _laid(given + draw(st.lists(st.sampled_from(v1_rules(kind)), min_size=1, max_size=_SEVERAL)))


@st.composite
def v1_workloads(draw: st.DrawFn, kind: Kind, words: list[str]) -> dict[str, Any]:
    """What is under `spec:` of a workload: mostly of the words that a policy names."""
    near = [each for each in v1_values(kind) if each[0] in words]
    every = st.sampled_from([*near * 20, *v1_values(kind)])
    return _laid(draw(st.lists(every, max_size=_SEVERAL)))
