"""Who could not be given room is not searched for; what bounds the search follows the books."""

from __future__ import annotations

from functools import partial

from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.decisions import Preempted
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.domain.room.bounds import Pool, giver, may_take
from muster_scheduler.domain.room.listing import tree_of
from tests.support.fleets import Fleet, host, node, portion, request, role, whole


def told(fleet: Fleet, project: str, devices: int, size: int = 1) -> bool:
    """Whether others may have to give way for a gang of that project."""
    world = fleet.world
    standing, capacity = standing_of(world, "default"), world.inventory.capacity("c1", "default")
    pool = Pool(world, capacity, standing, tree_of(world, standing))
    row, one = standing.projects[project], role(whole(devices), size)
    return may_take(pool, row, one, one.size * one.charge)


def held(fleet: Fleet) -> dict[int, tuple[int, list[int]]]:
    """By node, what is free and what is held of whole cards."""
    capacity = fleet.world.inventory.capacity("c1", "default")
    whole_cards = capacity.holdings.read(lambda name: fleet.workload(int(name[-12:], 16)).project)
    cards = whole_cards.cards.tolist()
    return {n: (free, [each for each in cards[n] if each]) for n, free in enumerate(whole_cards.free.tolist())}


def test_an_indivisible_last_victim_counts_while_the_taker_is_not_fuller() -> None:
    fleet = Fleet(node("n1", 8), quota=10)
    fleet.project("q", {"default": 6})
    for number in (1, 2):
        fleet.submit(number, request(role(whole(4))), project="q")
    assert told(fleet, "p", 2)
    fleet.submit(3, request(role(whole(2))))
    assert sum(isinstance(each, Preempted) for each in fleet.decisions) == 1


def test_who_holds_no_more_than_its_share_gives_nothing() -> None:
    fleet = Fleet(node("n1", 8), quota=4)
    fleet.project("q", {"default": 4}, department="e")
    for number in range(1, 5):
        fleet.submit(number)
        fleet.submit(10 + number, project="q")
    assert not told(fleet, "p", 1)
    fleet.project("q", {"default": 2}, department="e")
    fleet.project("p", {"default": 6})
    assert told(fleet, "p", 2)
    assert not told(fleet, "p", 3)
    assert not told(fleet, "p", 2, size=2)


def test_where_cards_are_idle_something_else_lacks_and_nothing_bounds_it() -> None:
    fleet = Fleet(node("n1", 2), quota=1)
    fleet.project("q", {"default": 1}, department="e")
    fleet.submit(1, request(role(whole(1))), project="q")
    assert told(fleet, "p", 1)
    assert not told(fleet, "p", 2)


def test_holdings_follow_charges_ends_and_aborts() -> None:
    fleet = Fleet(node("n1", 4), node("n2", slots=4), node("n3", 4, state=NodeState.CORDONED))
    assert held(fleet) == {0: (4, []), 1: (4, []), 2: (0, [])}
    fleet.submit(1, request(role(whole(2))))
    fleet.submit(2, request(role(portion(500))))
    fleet.submit(3, request(role(host())))
    before = held(fleet)
    assert sorted(before[0][1] + before[1][1]) == [2]
    fleet.state.begin(fleet.now)
    fleet.state.apply(fleet.admitted(4, request(role(whole(2), 2))))
    fleet.state.propose()
    assert sum(sum(cards) for _, cards in held(fleet).values()) == 2 + 4
    fleet.state.abort()
    assert held(fleet) == before
    fleet.run(1)
    fleet.finish(1)
    assert held(fleet) == {0: (4, []), 1: (4, []), 2: (0, [])}


def test_what_is_promised_and_who_leaves_is_not_given_again() -> None:
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.project("q", {"default": 0}, department="e")
    for number in (1, 2):
        fleet.submit(number, project="q")
        fleet.run(number)
    assert cards_of(fleet) == {"q": 2}
    fleet.submit(3, request(role(whole(2))))
    assert cards_of(fleet) == {}
    fleet.gone(1)
    assert cards_of(fleet) == {}
    fleet.gone(2)
    assert fleet.workload(3).active
    assert cards_of(fleet) == {"p": 2}


def cards_of(fleet: Fleet) -> dict[str, int]:
    """By project, the cards of those who might be asked to leave."""
    holdings = fleet.world.inventory.capacity("c1", "default").holdings
    read = holdings.read(partial(giver, fleet.world))
    found = {name: int(read.cards[read.holder == number].sum()) for name, number in holdings.projects.items()}
    return {name: cards for name, cards in found.items() if cards}
