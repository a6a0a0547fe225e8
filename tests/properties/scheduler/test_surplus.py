"""A law of what elastic gangs give up beside those who are evicted, by brute force over small pools."""

from __future__ import annotations

from collections import Counter

from hypothesis import event, given, settings
from hypothesis import strategies as st

from muster_scheduler.domain import events
from muster_scheduler.domain.answers.prospects import what_if
from muster_scheduler.domain.asked.workloads import Stretch
from muster_scheduler.domain.room.shrinking import give_up
from tests.support.fleets import Fleet, node, request, role, whole, workload_id

TAKER = 9
GANGS = st.lists(st.tuples(st.integers(1, 2), st.integers(2, 4)), min_size=1, max_size=3)
VICTIMS = st.lists(st.integers(1, 3), min_size=2, max_size=4)
CARDS = st.lists(st.sampled_from([1, 2, 3, 4, 4]), min_size=3, max_size=6)


def crowded(cards: list[int], gangs: list[tuple[int, int]], victims: list[int]) -> Fleet:
    """Gangs that have grown beside work of a project that deserves nothing; the taker's project deserves it all."""
    fleet = Fleet(*(node(f"n{at}", number) for at, number in enumerate(cards)))
    fleet.project("r", {"default": 0})
    fleet.project("q", {"default": 100})
    for number, (least, more) in enumerate(gangs, 1):
        gang = request(role(whole(), least), preemptible=False)
        fleet.submit(number, gang._replace(stretch=Stretch("worker", least, least + more)))
    for number, devices in enumerate(victims, 5):
        fleet.submit(number, request(role(whole(devices))), project="r")
    late = [each.id for each in fleet.world.workloads.values() if not each.active]
    fleet.send(*(events.DeletionRequested("e", each) for each in late))
    for _ in range(3):
        for each in list(fleet.world.workloads.values()):
            if each.active:
                fleet.run(int(each.id[-2:]))
        fleet.wait(31)
    return fleet


def held(fleet: Fleet) -> Counter[str]:
    """How many cards are held on each node, by whom it stays with or moves to once the taker has its claim."""
    found: Counter[str] = Counter()
    for each in fleet.world.workloads.values():
        if each.active:
            found.update(replica.node[1] for replica in each.replicas.values() for _ in replica.grant.shares)
        if each.claim is not None and each.id != workload_id(TAKER):
            found.update(planned.node[1] for planned in each.claim.planned for _ in planned.grant.shares)
    return found


def fits(cards: list[int], taken: Counter[str], devices: int, size: int) -> bool:
    free = [number - taken[f"n{at}"] for at, number in enumerate(cards)]
    return min(free) >= 0 and sum(each // devices for each in free) >= size


def displaced(fleet: Fleet) -> dict[str, bool]:
    """Who is taken down for the taker, and whether it has a place to move to."""
    found = (each for each in fleet.world.workloads.values() if each.preempted_by == workload_id(TAKER))
    return {each.id: each.claim is not None for each in found}


@settings(max_examples=100, deadline=None)
@given(CARDS, GANGS, VICTIMS, st.integers(2, 4), st.integers(1, 3))
def test_nobody_gives_up_what_could_have_stayed(
    cards: list[int], gangs: list[tuple[int, int]], victims: list[int], devices: int, size: int
) -> None:
    fleet = crowded(cards, gangs, victims)
    asked = request(role(whole(devices), size), preemptible=False)
    told = what_if(fleet.state, [fleet.admitted(TAKER, asked, project="q")], fleet.now).displaced
    fleet.submit(TAKER, asked, project="q")
    left = [each for each in fleet.world.workloads.values() if each.active and each.leaving]
    evicted = [each for each in fleet.world.workloads.values() if each.preempted_by == workload_id(TAKER)]
    expected = {(each.id, 0) for each in evicted} | {(each.id, len(each.leaving)) for each in left}
    assert {(each.workload, each.given_up) for each in told} == expected
    event(f"given up: {bool(left)}, evicted: {bool(evicted)}")
    if fleet.workload(TAKER).claim is None:
        assert not left, "nothing is given up for who gets no room by it"
        return
    stays = held(fleet)
    assert fits(cards, stays, devices, size)
    for gang in left:
        spared = min(gang.leaving.values(), key=lambda replica: replica.holder.rank)
        with_it = stays + Counter({spared.node[1]: len(spared.grant.shares)})
        assert not fits(cards, with_it, devices, size), f"{gang.id} gives up {spared.holder} for nothing"


@settings(max_examples=100, deadline=None)
@given(CARDS, GANGS, VICTIMS, st.integers(2, 4), st.integers(1, 3))
def test_nobody_is_evicted_who_would_stay_or_move_with_all_surplus_gone(
    cards: list[int], gangs: list[tuple[int, int]], victims: list[int], devices: int, size: int
) -> None:
    fleet, bare = crowded(cards, gangs, victims), crowded(cards, gangs, victims)
    give_up(bare.world, {each.id: len(each.surplus()) for each in bare.world.workloads.values() if each.surplus()})
    for each in (fleet, bare):
        each.submit(TAKER, request(role(whole(devices), size), preemptible=False), project="q")
    found, wanted = displaced(fleet), displaced(bare)
    event(f"evicted: {bool(wanted)}, moves: {any(wanted.values())}")
    assert set(found) <= set(wanted)
    assert not [each for each, moves in found.items() if wanted[each] and not moves]
