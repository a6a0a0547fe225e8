"""The mix of a node pool: what usually arrives there, remembered as part of the truth, and the board made of it.

The mix is a value of the pool (books/pools.py), renewed from time to time by placement/ahead.py: were it worked out
anew for every decision, no score could be kept, and were it remembered beside the truth, a standby would decide
otherwise.
Holds: a mix is sorted and bounded; the same workloads give the same mix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.columns import NodeType
from muster_scheduler.domain.strategies.popularity import Asked, Popularity, popularity_of

MOST: Final = 128  # classes of a mix, the commonest
_TYPE_LABEL: Final = "run.ai/type"


class Member(NamedTuple):
    """A class of a mix. types: the node types that it may use, None: any; number: of replicas that asked."""

    asked: Asked
    types: tuple[str, ...] | None
    number: int


Mix = tuple[Member, ...]


def asked_of(shape: Shape) -> Asked | None:
    """The request as strategies know it; None for slices, device memory and named resources, which they do not."""
    if shape.extra or shape.kind in {Kind.SLICE, Kind.MEMORY}:
        return None
    milli = {Kind.NONE: 0, Kind.WHOLE: MILLI}.get(shape.kind, shape.milli)
    return Asked(shape.cpu, shape.memory, shape.devices, milli)


def mix_of(replicas: Iterable[tuple[Shape, frozenset[str] | None, int]]) -> Mix:
    """The mix of these shapes, with the node types that each may use and how many replicas have it."""
    counts: Counter[tuple[Asked, tuple[str, ...] | None]] = Counter()
    for shape, types, number in replicas:
        asked = asked_of(shape)
        if asked is not None and number > 0:
            counts[asked, None if types is None else tuple(sorted(types))] += number
    commonest = sorted(counts.items(), key=lambda one: (-one[1], one[0][0], one[0][1] or ()))[:MOST]
    return tuple(sorted((Member(*key, number) for key, number in commonest), key=_by_class))


def _by_class(member: Member) -> tuple[Asked, bool, tuple[str, ...]]:
    return member.asked, member.types is not None, member.types or ()


def popularity_in(mix: Mix, types: tuple[NodeType, ...]) -> Popularity:
    """The mix as tables over the node types of a pool. Raises ValueError for an empty one."""
    classes = [(member.asked, [_admits(member, kind) for kind in types]) for member in mix]
    return popularity_of(classes, [member.number for member in mix])


def _admits(member: Member, kind: NodeType) -> bool:
    label = next((value for key, value in kind.labels if key == _TYPE_LABEL), "")
    return member.types is None or (label or kind.model) in member.types
