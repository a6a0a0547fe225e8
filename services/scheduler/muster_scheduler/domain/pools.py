"""How each node pool is filled: what people have said of the pools of each cluster.

Changed by tenancy.py through the journal, asked by placement. Part of the truth: kept in the database, in the digest.
Holds: a pool of which nothing was said packs; a name stands for one pool of a cluster.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from muster_scheduler.domain.choosing import NodeOrder
from muster_scheduler.domain.journal import Journal
from muster_scheduler.domain.requests import Kind, Shape


class Strategy(StrEnum):
    """Which node comes first. BINPACK: the fullest that has room. SPREAD: the emptiest."""

    BINPACK = "binpack"
    SPREAD = "spread"

    @property
    def gang_order(self) -> NodeOrder:
        """The same for the replicas of a gang."""
        return NodeOrder.EVENLY if self is Strategy.SPREAD else NodeOrder.TIGHTEST


class NodePool(NamedTuple):
    """A node pool of a cluster, by the number that is never given to another. gpu, cpu: with devices and without."""

    id: int
    cluster: str
    name: str
    version: int
    gpu: Strategy = Strategy.BINPACK
    cpu: Strategy = Strategy.BINPACK

    def strategy(self, shape: Shape) -> Strategy:
        """How a replica of this shape is placed."""
        return self.cpu if shape.kind is Kind.NONE else self.gpu


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

    def put(self, pool: NodePool) -> None:
        """A pool as it stands now."""
        self._journal.put(self.known, pool.id, pool)
        self._journal.put(self._numbers, (pool.cluster, pool.name), pool.id)

    def remove(self, number: int) -> None:
        """A pool is no more. Another of its name, made since, stays."""
        gone = self._journal.drop(self.known, number)
        if gone is not None and self._numbers.get((gone.cluster, gone.name)) == number:
            self._journal.drop(self._numbers, (gone.cluster, gone.name))
