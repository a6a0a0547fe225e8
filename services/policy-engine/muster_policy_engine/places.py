"""The places that a policy can speak about: fields, members of objects and items, and which items there may be.

Derived from the catalogue once; read by the documents' reader and by the rules. A distributed workload has each place
twice: for its workers (`worker.image`) and, where the field is one of a role, for its master (`master.image`).
Holds: two places of one kind of workload never have one path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from muster_language import Kind, Row, WorkloadSpec, catalogue
from muster_language.catalogue import PolicyPath
from muster_language.catalogue import value_types as of
from muster_policy_engine.combined import Combined

_FIRST_PORT: Final = "servingPort."


class Side(StrEnum):
    """Whose fields a path means in a gang; the words are those of the path."""

    ALL = ""
    WORKER = "worker."
    MASTER = "master."


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One path. member: of an object or of every item; None: the field itself, or which items it may have.

    combined: the value is one that several fields give together. also: another field and its member to which the
    language moves items of this one. Both are of v1 alone.
    """

    path: str
    row: Row
    member: Row | None
    rules: frozenset[str]
    kinds: frozenset[Kind]
    defaultable: bool
    side: Side = Side.ALL
    combined: Combined | None = None
    also: tuple[Row, Row] | None = None

    @property
    def value(self) -> Row:
        """The row whose values rules and defaults have."""
        return self.member or self.row

    @property
    def itemized(self) -> bool:
        """Whether it speaks about items."""
        return self.row.type == of.ITEMIZED

    @property
    def instances(self) -> bool:
        """Whether it says which items there may be."""
        return self.itemized and self.member is None

    @property
    def first_only(self) -> bool:
        """Whether it means the first item alone: REST calls the first port of a service its servingPort."""
        return self.path.removeprefix(self.side).startswith(_FIRST_PORT)

    def target(self, spec: WorkloadSpec) -> Any:
        """Where a default for the place is written: the spec, or its master's."""
        return spec.master_spec if self.side is Side.MASTER else spec


@cache
def places(kind: Kind) -> Mapping[str, Place]:
    """Every path that a policy of the kind can say."""
    return MappingProxyType({place.path: place for place in _all() if kind in place.kinds})


def _all() -> Iterator[Place]:
    every = catalogue()
    for row, where in every.by_policy.values():
        yield from _sides(row, None, where)
    for row, member, where in every.by_attribute.values():
        yield from _sides(row, member, where)


def _sides(row: Row, member: Row | None, where: PolicyPath) -> Iterator[Place]:
    # A default for the first port alone would have to know whether another layer gives one.
    defaultable = where.defaultable and not where.path.startswith(_FIRST_PORT)
    alone = where.kinds - {Kind.DISTRIBUTED}
    if alone:
        yield Place(where.path, row, member, where.all_rules, alone, defaultable)
    if Kind.DISTRIBUTED not in where.kinds:
        return
    for side in (Side.WORKER, Side.MASTER) if row.for_roles else (Side.WORKER,):
        kinds = frozenset({Kind.DISTRIBUTED})
        yield Place(f"{side}{where.path}", row, member, where.all_rules, kinds, defaultable, side)
