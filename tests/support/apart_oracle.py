"""What is the truth about a gang whose replicas have to stand apart, on a few nodes: every way to place it is tried.

No two replicas share a node, so that whether a node holds one of a role does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster_scheduler.domain.asked.terms import HOST_LABEL
from muster_scheduler.domain.fleet.nodes import Node
from tests.support.gang_scenes import Scene
from tests.support.placement_oracle import areas, domains, holds_one

Place = tuple[str | None, ...] | str | None


def place_of(node: Node, levels: tuple[str, ...]) -> Place:
    """In what a replica on that node is alone; None: nowhere."""
    if levels == (HOST_LABEL,):
        return node.name
    labels = dict(node.labels)
    return tuple(map(labels.get, levels)) if levels[-1] in labels else None


def possible(given_scene: Scene, levels: tuple[str, ...]) -> bool:
    """Whether there is any way to give every replica a place of its own, in one area and its group in one home."""
    wish = given_scene.wish
    homes = list(domains(given_scene.nodes, wish.group).values())
    parts = [
        (role.shape, bool(wish.group) and role.size >= wish.group_size, rank)
        for role in given_scene.roles
        for rank in range(role.size)
    ]
    able = {shape: [holds_one(node, shape) for node in given_scene.nodes] for shape, _, _ in parts}

    def fill(inside: list[int], at: int, used: frozenset[Place], home: list[int]) -> bool:
        if at == len(parts):
            return True
        shape, grouped, rank = parts[at]
        chosen: Iterator[list[int]] = iter((home,))
        if grouped and rank % wish.group_size == 0:
            chosen = iter(homes)
        elif not grouped:
            chosen = iter((inside,))
        return any(
            fill(inside, at + 1, used | {place}, area)
            for area in chosen
            for n in area
            if n in inside and able[shape][n]
            if (place := place_of(given_scene.nodes[n], levels)) is not None and place not in used
        )

    return any(fill(inside, 0, frozenset(), []) for inside in areas(given_scene))
