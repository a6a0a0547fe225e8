"""What bounds a search for room never denies one that would find it, and counts cards as every set of victims does."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.compiling import python_of
from muster_scheduler.domain.fleet.columns import SLOTS
from muster_scheduler.domain.fleet.holdings import NOBODY
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.room.bounds import Pool, count_cards, may_take
from muster_scheduler.domain.room.giving import ask_of, from_others
from muster_scheduler.domain.room.listing import tree_of
from muster_scheduler.domain.room.sites import sites_of
from muster_scheduler.domain.room.values import NoRoom
from tests.support.fleets import Fleet, node, portion, request, role, whole

_QUEUES = {"a": "d", "b": "d", "c": "e", "f": "e", "g": "h"}
_SHAPES = st.sampled_from((whole(1), whole(2), whole(3), whole(4), portion(500)))
_RUNNING = st.lists(st.tuples(st.sampled_from(sorted(_QUEUES)), _SHAPES), min_size=3, max_size=12)
_QUOTAS = st.fixed_dictionaries({name: st.integers(0, 6) for name in _QUEUES})
_DEPARTMENTS = st.fixed_dictionaries({name: st.integers(0, 10) for name in ("d", "e", "h")})
_CUT = _QUOTAS, _DEPARTMENTS


def full(running: list[tuple[str, object]], quotas: dict[str, int], departments: dict[str, int]) -> Fleet:
    """Everybody takes what there is; then quotas are cut."""
    fleet = Fleet(node("n1", 8), node("n2", 4), node("n3", 4))
    fleet.state.world.limits = fleet.state.world.limits._replace(reserves=False)
    for name, department in _QUEUES.items():
        fleet.project(name, {"default": 16}, department=department)
    for number, (name, shape) in enumerate(running, 1):
        fleet.submit(number, request(role(shape)), project=name)  # type: ignore[arg-type]
    for number in range(50, 66):
        fleet.submit(number, project="g")  # nothing is left idle
    for number in (*range(1, len(running) + 1), *range(50, 66)):
        if fleet.workload(number).active:
            fleet.run(number)
    for name, gpus in departments.items():
        fleet.department(name, {"default": gpus})
    for name, department in _QUEUES.items():
        fleet.project(name, {"default": quotas[name]}, department=department)
    return fleet


@settings(max_examples=120, deadline=None)
@given(_RUNNING, *_CUT, st.sampled_from(sorted(_QUEUES)), st.integers(1, 4), st.integers(1, 2))
def test_whoever_would_find_room_is_not_denied_it(
    running: list[tuple[str, object]],
    quotas: dict[str, int],
    departments: dict[str, int],
    taker: str,
    devices: int,
    size: int,
) -> None:
    fleet = full(running, {**quotas, taker: 6}, departments)
    fleet.state.begin(fleet.now)
    fleet.state.apply(fleet.admitted(90, request(role(whole(devices), size)), project=taker))
    standing = standing_of(fleet.world, "default")
    tree, row = tree_of(fleet.world, standing), standing.projects[taker]
    for site in sites_of(fleet.world, fleet.workload(90)):
        ask = ask_of(site, (fleet.workload(90),), Budget())
        assert ask is not None
        pool = Pool(fleet.world, site.capacity, standing, tree)
        said = may_take(pool, row, site.roles[0], ask.units.gpu)
        made = from_others(ask._replace(taker=ask.taker._replace(queue=row)), standing, tree)
        assert said or isinstance(made, NoRoom)
    fleet.state.abort()


_HELD = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=5)
_CARDS = st.lists(st.integers(0, 5), min_size=3, max_size=3)


@given(_HELD, _CARDS, _CARDS, st.integers(0, 2))
def test_the_cards_of_a_node_are_those_of_the_best_set_of_victims(
    held: list[tuple[int, int]], room: list[int], last: list[int], free: int
) -> None:
    found = np.zeros(1, np.int64)
    holder, cards = np.full((1, SLOTS), NOBODY, np.int32), np.zeros((1, SLOTS), np.int32)
    holder[0, : len(held)] = [project for project, _ in held]
    cards[0, : len(held)] = [count for _, count in held]
    given_room, given_last = np.array(room, np.int64), np.array(last, np.int64)
    given_free = np.array([free], np.int32)
    count_cards(given_free, holder, cards, given_room, given_last, found)
    best = free + max(freed(victims, room, last) for victims in sets_of(held))
    assert found[0] >= best
    if all(count == 1 for _, count in held):
        assert found[0] == best
    plain = np.zeros(1, np.int64)
    python_of(count_cards)(given_free, holder, cards, given_room, given_last, plain)
    assert plain[0] == found[0]


def sets_of(held: list[tuple[int, int]]) -> list[tuple[tuple[int, int], ...]]:
    """All sets of victims."""
    return list(chain.from_iterable(combinations(held, count) for count in range(len(held) + 1)))


def freed(victims: tuple[tuple[int, int], ...], room: list[int], last: list[int]) -> int:
    """What these free, where every queue may lose them, one of them being excused if it may be; else 0."""
    for excused in (None, *victims):
        if excused is not None and excused[1] > last[excused[0]]:
            continue
        others = list(victims)
        if excused is not None:
            others.remove(excused)
        if all(sum(count for name, count in others if name == project) <= room[project] for project in range(3)):
            return sum(count for _, count in victims)
    return 0
