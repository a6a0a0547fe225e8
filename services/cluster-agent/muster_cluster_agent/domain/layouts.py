"""MIG layouts of nodes: what the scheduler wants, and how a change ended (kubernetes.md 7.4)."""

from __future__ import annotations

from dataclasses import dataclass

from muster_cluster_agent.domain.fleet import Node


@dataclass(frozen=True, slots=True)
class NodeWish:
    """What a node is to become. layout: the name of a configuration of the cluster's mig-manager."""

    node: str
    epoch: int
    revision: int
    instance: str
    layout: str

    @property
    def rank(self) -> tuple[int, int]:
        """Of two records of a node the higher one counts."""
        return (self.epoch, self.revision)


@dataclass(frozen=True, slots=True)
class WishEnd:
    """The tombstone of a node's wishes up to this revision."""

    node: str
    epoch: int
    revision: int

    @property
    def rank(self) -> tuple[int, int]:
        """Of two records of a node the higher one counts."""
        return (self.epoch, self.revision)


@dataclass(frozen=True, slots=True)
class LayoutAnswer:
    """How a layout ended: with the node as it is now, or with why the node does not have it, for people."""

    node: Node | None
    failure: str = ""
