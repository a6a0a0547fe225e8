"""A hall of two blocks of two racks of two nodes, for tests of how close together and how far apart replicas stand."""

from __future__ import annotations

from muster_scheduler.domain.fleet.nodes import Node
from tests.support.fleets import Fleet, node


def at(name: str, block: str, rack: str, number: int = 8) -> Node:
    """A node of some cards in a rack of a block."""
    made = node(name, number)
    made.labels = (("block", block), ("rack", rack))
    return made


def hall() -> Fleet:
    """Nodes of eight cards; `n011` is the second node of the second rack of the first block."""
    return Fleet(*(at(f"n{b}{r}{n}", f"b{b}", f"r{b}{r}") for b in range(2) for r in range(2) for n in range(2)))
