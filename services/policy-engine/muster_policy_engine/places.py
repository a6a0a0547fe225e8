"""The places that a policy can speak about: fields, members of objects and items, and which items there may be.

Derived from the catalogue once; read by the document's reader and by the rules. A distributed workload has each place
up to three times: for its workers (`worker.image`), its master (`master.image`), and for both (`image`).
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

GANG: Final = frozenset({Kind.DISTRIBUTED})
_FIRST_PORT: Final = "servingPort."


class Side(StrEnum):
    """Whose fields a path means in a gang; the words are those of the path."""

    BOTH = ""
    WORKER = "worker."
    MASTER = "master."


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One path. member: of an object or of every item; None: the field itself, or which items it may have."""

    path: str
    row: Row
    member: Row | None
    rules: frozenset[str]
    kinds: frozenset[Kind]
    defaultable: bool
    side: Side = Side.BOTH

    @property
    def value(self) -> Row:
        """The row whose values rules and defaults have."""
        return self.member or self.row

    @property
    def itemized(self) -> bool:
        """Whether it speaks about items."""
        return self.row.type == of.ITEMIZED

    @property
    def first_only(self) -> bool:
        """Whether it means the first item alone: REST calls the first port of a service its servingPort."""
        return self.path.startswith(_FIRST_PORT)

    def target(self, spec: WorkloadSpec) -> Any:
        """Where a default for the place is written: the spec, or its master's."""
        return spec.master_spec if self.side is Side.MASTER else spec


@cache
def places() -> Mapping[str, Place]:
    """Every path that a policy can say."""
    return MappingProxyType({place.path: place for place in _all()})


def _all() -> Iterator[Place]:
    every = catalogue()
    for row, where in every.by_policy.values():
        yield from _sides(row, None, where)
    for row, member, where in every.by_attribute.values():
        yield from _sides(row, member, where)


def _sides(row: Row, member: Row | None, where: PolicyPath) -> Iterator[Place]:
    # A default for the first port alone would have to know whether another layer gives one.
    defaultable = where.defaultable and not where.path.startswith(_FIRST_PORT)
    yield Place(where.path, row, member, where.rules, where.kinds, defaultable)
    if Kind.DISTRIBUTED not in where.kinds:
        return
    for side in (Side.WORKER, Side.MASTER) if row.for_roles else (Side.WORKER,):
        yield Place(f"{side}{where.path}", row, member, where.rules, GANG, defaultable, side)
