"""How each node pool is filled, which nodes are in it and which of them are close: what people have said of the pools.

Changed by life/tenancy.py through the journal, asked by placement and by whoever takes nodes into the books. Part of
the truth: kept in the database, in the digest.
Holds: a pool of which nothing was said packs; a name stands for one pool of a cluster.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.asked.terms import HOST_LABEL, Wish
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.gangs.choosing import NodeOrder
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.strategies.mix import Mix


class Strategy(StrEnum):
    """Which node comes first.

    BINPACK: the fullest that has room. SPREAD: the emptiest. FGD and FORESIGHT look ahead to what usually arrives: the
    node that loses least by it (strategies/); their gangs are packed.
    """

    BINPACK = "binpack"
    SPREAD = "spread"
    FGD = "fgd"
    FORESIGHT = "foresight"

    @property
    def gang_order(self) -> NodeOrder:
        """The same for the replicas of a gang."""
        return NodeOrder.EVENLY if self is Strategy.SPREAD else NodeOrder.TIGHTEST


class NodePool(NamedTuple):
    """A node pool of a cluster, by the number that is never given to another. gpu, cpu: with devices and without.

    memory_as_slices: whether a request for GPU memory gets the smallest MIG slice that holds it.

    levels: the keys of labels that say which nodes are close to each other, the widest first. mix: what usually
    arrives, as of `mixed` (microseconds), for strategies that look ahead. label_key, label_value: the label of its
    nodes; empty where only their agent says that they are in it.
    """

    id: int
    cluster: str
    name: str
    version: int
    gpu: Strategy = Strategy.BINPACK
    cpu: Strategy = Strategy.BINPACK
    levels: tuple[str, ...] = ()
    mix: Mix = ()
    mixed: int = 0
    label_key: str = ""
    label_value: str = ""
    memory_as_slices: bool = False

    def levels_for(self, wish: Wish) -> tuple[str, ...]:
        """The levels by which a gang of that wish is placed: the pool's, where they have all that it names.

        Else its own, as it names them; a node is the narrowest level of all, whether a pool lists it or not.
        """
        asked = wish.keys
        known = (*self.levels, HOST_LABEL) if HOST_LABEL in asked and HOST_LABEL not in self.levels else self.levels
        return known if asked and set(asked) <= set(known) else asked

    def levels_apart(self, wish: Wish) -> tuple[str, ...]:
        """The levels whose innermost is the one on which its replicas stand apart; empty where they need not.

        A level of the pool counts with those around it: rack 1 of one block is another than rack 1 of the next.
        """
        if wish.apart is None:
            return ()
        key = wish.apart.key
        return self.levels[: self.levels.index(key) + 1] if key in self.levels else (key,)

    def strategy(self, shape: Shape) -> Strategy:
        """How a replica of this shape is placed."""
        return self.cpu if shape.kind is Kind.NONE else self.gpu


Labels = tuple[tuple[str, str, str], ...]
"""The pools of a cluster whose nodes have a label: name, key and value, by name."""


def pool_of(node: Node, labels: Labels) -> str:
    """The pool in which a node is: the first whose label it has, else the one that its agent names."""
    return next((name for name, key, value in labels if node.label(key) == value), node.said)


class NodePools:
    """The pools of which something was said, by number; undone with the journal."""

    __slots__ = ("_journal", "_numbers", "known")

    def __init__(self, journal: Journal) -> None:
        """Begins with none."""
        self._journal = journal
        self._numbers: dict[tuple[str, str], int] = {}
        self.known: dict[int, NodePool] = {}

    def named(self, cluster: str, name: str) -> NodePool:
        """What was said of a pool of a cluster; number and version 0 where that is nothing."""
        number = self._numbers.get((cluster, name))
        return NodePool(0, cluster, name, 0) if number is None else self.known[number]

    def labels(self, cluster: str) -> Labels:
        """The labels by which nodes of a cluster are in its pools."""
        named = (self.known[number] for (at, _), number in self._numbers.items() if at == cluster)
        return tuple(sorted((pool.name, pool.label_key, pool.label_value) for pool in named if pool.label_key))

    def put(self, pool: NodePool) -> None:
        """A pool as it stands now."""
        self._journal.put(self.known, pool.id, pool)
        self._name(pool.cluster, pool.name)

    def remove(self, number: int) -> None:
        """A pool is no more. Another of its name stays."""
        gone = self._journal.drop(self.known, number)
        if gone is not None:
            self._name(gone.cluster, gone.name)

    def _name(self, cluster: str, name: str) -> None:
        """The name stands for the pool of that name that was made last, in whatever order they are told or read."""
        numbers = [pool.id for pool in self.known.values() if (pool.cluster, pool.name) == (cluster, name)]
        if numbers:
            self._journal.put(self._numbers, (cluster, name), max(numbers))
        else:
            self._journal.drop(self._numbers, (cluster, name))
