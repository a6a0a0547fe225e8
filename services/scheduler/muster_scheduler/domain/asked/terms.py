"""Where a workload agrees to run: node type, taints, how close or how far apart, and which clusters it would prefer.

Values only. Made by stream/intentions.py from the admitted spec, read by eligibility and placement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

Taint = tuple[str, str, str]  # key, value, effect
NO_EXECUTE: Final = "NoExecute"
REPELLING: Final = frozenset({"NoSchedule", NO_EXECUTE})
RELUCTANT: Final = "PreferNoSchedule"
HOST_LABEL: Final = "kubernetes.io/hostname"  # what stands together without saying where stands on one node


class Apart(NamedTuple):
    """No two replicas of a workload, of whatever role, stand where the label `key` has one value: a must, or a wish.

    A node without the label is no place for a must. By the host every node counts, with the label or without.
    """

    key: str
    required: bool


class Wish(NamedTuple):
    """How close together a gang is to run. All keys are node labels; empty: not asked for.

    required: all of it inside one domain of that level, or nowhere. preferred: inside one domain of that level if it
    fits there, else of the next level outward. group: each `group_size` replicas of a role, counted from index 0,
    inside one domain of that level; roles smaller than a group are left out of this. apart: which replicas may not
    stand beside each other.
    """

    required: str = ""
    preferred: str = ""
    group: str = ""
    group_size: int = 0
    apart: Apart | None = None

    @property
    def anywhere(self) -> bool:
        """Whether replicas may stand wherever they fit."""
        return not self.keys and self.apart is None

    @property
    def strictly_apart(self) -> bool:
        """Whether it waits rather than have two replicas in one domain."""
        return self.apart is not None and self.apart.required

    @property
    def keys(self) -> tuple[str, ...]:
        """The levels in which it is to be close together, outermost first, each once.

        What a pool without levels of its own is split by.
        """
        return tuple(dict.fromkeys(key for key in (self.required, self.preferred, self.group) if key))

    def among(self, sizes: Iterable[int]) -> Wish:
        """What of it concerns roles of these sizes: without groups where all are smaller than one.

        Else a pool that lacks the groups' level would refuse a gang that has none.
        """
        return self if any(size >= self.group_size for size in sizes) else self._replace(group="", group_size=0)


class Toleration(NamedTuple):
    """A taint that is put up with, as Kubernetes reads it.

    key: empty with `exists` stands for every key; value: compared unless `exists`; effect: empty stands for every one;
    seconds: how long a replica stays once a NoExecute taint has come up, None: for ever.
    """

    key: str
    value: str = ""
    exists: bool = False
    effect: str = ""
    seconds: int | None = None

    def covers(self, taint: Taint) -> bool:
        """Whether it is about this taint."""
        key, value, effect = taint
        if self.effect and self.effect != effect:
            return False
        if not self.key:
            return self.exists
        return self.key == key and (self.exists or self.value == value)


class Together(NamedTuple):
    """The replicas of a workload stand where the node label `key` has one value: a must, or a wish."""

    key: str
    required: bool


class Label(NamedTuple):
    """A label that nodes have. value: None stands for any."""

    key: str
    value: str | None = None

    @classmethod
    def said(cls, text: str) -> Label | None:
        """The label of `key` or `key=value`; None where there is no key."""
        key, equals, value = text.partition("=")
        return cls(key, value if equals else None) if key else None


class Terms(NamedTuple):
    """What a workload says of nodes and clusters. node_type: empty stands for any.

    preferred_clusters: tried before all others, in this order. data: clusters that have nodes with this label come
    before those that have none.
    """

    node_type: str = ""
    tolerations: tuple[Toleration, ...] = ()
    together: Together | None = None
    topology: Wish = Wish()
    preferred_clusters: tuple[str, ...] = ()
    data: Label | None = None


ANYWHERE: Final = Terms()


def stays(tolerations: tuple[Toleration, ...], taint: Taint) -> int | None:
    """For how many seconds a NoExecute taint is put up with: the shortest of those that cover it; None: for ever.

    0 where nothing covers it.
    """
    covering = [each for each in tolerations if each.covers(taint)]
    if not covering:
        return 0
    limits = [each.seconds for each in covering if each.seconds is not None]
    return min(limits) if limits else None
