"""What bounds a search for movers never denies a node from which enough could move, tried one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.room.holes import Crowd, Holes
from tests.support.fleets import Fleet, node, request, role, whole

_GANGS = st.sampled_from((role(whole(1)), role(whole(2)), role(whole(3)), role(whole(4)), role(whole(1), 2)))
_RUNNING = st.lists(st.tuples(_GANGS, st.booleans()), min_size=4, max_size=12)


def crowds(running: Sequence[tuple[Role, bool]]) -> tuple[Fleet, list[Crowd]]:
    """A fleet from which some have gone again, and all who stand on each node."""
    fleet = Fleet(node("n1", 6), node("n2", 4), node("n3", 4), node("n4", 3), quota=64)
    for number, (each, _) in enumerate(running, 1):
        fleet.submit(number, request(each))
    for number, (_, stays) in enumerate(running, 1):
        if fleet.workload(number).active:
            fleet.run(number)
            if not stays:
                fleet.finish(number)
    return fleet, [crowd_of(fleet, each) for each in fleet.world.inventory.capacity("c1", "default").nodes]


def crowd_of(fleet: Fleet, on: Node) -> Crowd:
    """All who stand there."""
    names = sorted({holder.workload for holder in on.entries})
    return Crowd(on, tuple(fleet.world.workloads[name] for name in names))


def places_found(widths: Sequence[int], idle: Sequence[int]) -> bool:
    """Whether all of these find a node each that has as many idle cards, tried one after the other."""
    if not widths:
        return True
    first, rest = widths[0], widths[1:]
    return any(
        cards >= first and places_found(rest, [*idle[:at], cards - first, *idle[at + 1 :]])
        for at, cards in enumerate(idle)
    )


def could_clear(crowd: Crowd, idle: dict[str, int], cards: int) -> bool:
    """Whether some of those who stand there, each with one replica, could go elsewhere so that the cards are idle."""
    own, others = idle[crowd.node.name], [left for name, left in idle.items() if name != crowd.node.name]
    widths = [sum(len(each.grant.shares) for each in mover.everyone()) for mover in crowd.movers]
    movers = chain.from_iterable(combinations(widths, count) for count in range(len(widths) + 1))
    return any(own + sum(chosen) >= cards and places_found(chosen, others) for chosen in movers)


@settings(max_examples=80, deadline=None)
@given(_RUNNING, st.integers(1, 6))
def test_a_node_from_which_enough_could_move_is_looked_at(running: list[tuple[Role, bool]], cards: int) -> None:
    fleet, found = crowds(running)
    columns = fleet.world.inventory.capacity("c1", "default").columns
    idle = dict(zip(columns.names, columns.idle.tolist(), strict=True))
    holes = Holes(columns)
    for crowd in found:
        single = all(len(mover.everyone()) == 1 for mover in crowd.movers)
        possible = could_clear(crowd, idle, cards) if single else cards <= len(crowd.node.devices)
        assert holes.wide_enough(crowd, cards) or not possible


def test_who_has_no_hole_wide_enough_does_not_move() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 2), quota=64)
    for number, width in enumerate((3, 1, 1), 1):
        fleet.submit(number, request(role(whole(width))))
        fleet.run(number)
    idle = {each.name: each.idle for each in fleet.world.inventory.capacity("c1", "default").nodes}
    assert idle == {"n1": 0, "n2": 1}
    holes = Holes(fleet.world.inventory.capacity("c1", "default").columns)
    first, second = (crowd_of(fleet, each) for each in fleet.world.inventory.capacity("c1", "default").nodes)
    assert len(first.movers) == 2
    assert holes.wide_enough(first, 1)
    assert not holes.wide_enough(first, 2)  # the one that is three wide has nowhere to go
    assert not holes.wide_enough(second, 2)


def test_one_who_cannot_move_takes_none_of_the_few_who_may_move_at_once() -> None:
    """A node of 18 anonymous cards: one holds two, sixteen one each; elsewhere sixteen nodes have one card each."""
    fleet = Fleet(node("n0", slots=18), quota=64)
    for number, width in enumerate((2, *(1,) * 16), 1):
        fleet.submit(number, request(role(whole(width))))
        fleet.run(number)
    fleet.inventory("c1", (node("n0", slots=18), *(node(f"n{at}", slots=1) for at in range(1, 17))))
    capacity = fleet.world.inventory.capacity("c1", "default")
    crowd = crowd_of(fleet, capacity.nodes[0])
    assert len(crowd.movers) == 17
    assert Holes(capacity.columns).wide_enough(crowd, 16)
