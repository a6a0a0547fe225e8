"""The fields of v1 policies: each word of YAML with the place that its rules judge and the places of its defaults.

A YAML field takes the rules of the REST field that it maps to. In a gang the fields of `spec` judge the workers and
what a master says itself; those of `masterSpec` judge the master. Derived from the catalogue once; read by the reader
of v1 documents and by the conversion to v2.
Holds: two places of one side never have one path; a place without rules takes a default alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from muster_language import Kind, Row, catalogue
from muster_language.catalogue import value_types as of
from muster_language.labels import members_of
from muster_policy_engine.combined import combined
from muster_policy_engine.places import Place, Side

_LIST_RULES: Final = frozenset({"canAdd", "required"})
_VALUE_RULES: Final = frozenset({"canEdit", "required"})
NFS_SERVER: Final = "nfs_server"
# Fields without a REST field of their own: what they become is judged. Word -> the field and its member.
_SPREAD: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"serviceType": ("ports", "service_type"), "mountPropagation": ("volumes", "mount_propagation")}
)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A word of v1. judged: where its rules go. given: where its default goes. members: of its items, by YAML name."""

    word: str
    row: Row
    judged: Place
    given: Place
    members: Mapping[str, Place]

    @property
    def itemized(self) -> bool:
        """Whether it has `itemRules` and `items`, each item with rules of its own."""
        return self.row.type == of.ITEMIZED


@cache
def fields(kind: Kind, side: Side = Side.ALL) -> Mapping[str, Field]:
    """The fields that a v1 policy of the kind may name under `spec`, or under `masterSpec`, by their YAML words."""
    rows = [row for row in catalogue().of_kind(kind) if _is_ruled(row) and (side is Side.ALL or row.for_roles)]
    found = {row.yaml: _field(row, kind, side) for row in rows}
    aliases = {word: found[row.yaml] for row in rows for word in row.aliases if "." not in word}
    return MappingProxyType({**aliases, **found})


@cache
def given_places(kind: Kind, side: Side) -> Mapping[str, tuple[Place, Mapping[str, Place]]]:
    """The places of defaults by the proto name of their field, with those of its members by their proto names."""
    return MappingProxyType(
        {
            field.row.name: (field.given, {place.value.name: place for place in field.members.values()})
            for field in fields(kind, side).values()
        }
    )


def _is_ruled(row: Row) -> bool:
    return bool(row.yaml) and not (row.own or row.refused or row.beside_spec)


def _field(row: Row, kind: Kind, side: Side) -> Field:
    members = {
        word: _member(row, member, kind, side)
        for member in (members_of(row) if row.type in {of.ITEMIZED, of.OBJECT} and row.members else ())
        for word in (member.yaml, *member.aliases)
        if word
    }
    given = _value(row, kind, side)
    judged = _judged(row, kind, side)
    return Field(row.yaml, row, given if judged is None else judged, given, MappingProxyType(members))


def _value(row: Row, kind: Kind, side: Side) -> Place:
    kinds = frozenset({kind})
    if row.type == of.ITEMIZED:
        return Place(f"{side}{row.path}.instances", row, None, _LIST_RULES, kinds, True, side)
    path = row.policy[0].path if row.policy else row.path
    return Place(f"{side}{path}", row, None, _rules(row), kinds, True, side)


def _judged(row: Row, kind: Kind, side: Side) -> Place | None:
    """Where the rules of a field go whose value several fields give, or whose value goes into items."""
    kinds, path, value = frozenset({kind}), f"{side}{row.yaml}", combined(row.yaml)
    if value is not None:
        rules = _rules(row) or _VALUE_RULES
        return Place(path, row, None, rules, kinds, False, side, combined=value)
    if row.yaml in _SPREAD:
        items, name = _SPREAD[row.yaml]
        field = catalogue().by_name[items]
        member = next(each for each in field.inside if each.name == name)
        rules = _rules(member) if member.name == row.name and row.words is not None else _VALUE_RULES
        return Place(path, field, member, rules, kinds, False, side)
    return None


def _member(row: Row, member: Row, kind: Kind, side: Side) -> Place:
    kinds = frozenset({kind})
    inside = "." if row.type == of.OBJECT else ".attributes."
    if member.name == NFS_SERVER:
        nfs = catalogue().by_name["nfs"]
        server = next(each for each in nfs.inside if each.name == "server")
        path = f"{side}{row.path}{inside}{member.path}"
        return Place(path, row, member, _rules(server), kinds, True, side, also=(nfs, server))
    path = member.policy[0].path if member.policy else f"{row.path}{inside}{member.path}"
    return Place(f"{side}{path}", row, member, _rules(member), kinds, True, side)


def _rules(row: Row) -> frozenset[str]:
    return row.policy[0].rules if row.policy else frozenset()
