"""The three ways to make room, on tables small enough to see."""

from __future__ import annotations

import numpy as np
import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.room import roles
from muster_scheduler.domain.room.consolidate import MOST, consolidate
from muster_scheduler.domain.room.exact import smallest
from muster_scheduler.domain.room.preempt import preempt
from muster_scheduler.domain.room.reclaim import reclaim
from muster_scheduler.domain.room.stock import lift, need_of, stock_of
from muster_scheduler.domain.room.values import Fits, NoRoom, Obstacle, Question, Running, Taker, Vacated
from tests.support.pools import GIB, Part, Work, occupy, pool, running, tree

WHOLE = Shape(1000, GIB, Kind.WHOLE, 1)


def question(
    works: Running, *, nodes: int = 2, cards: int = 2, devices: int = 1, size: int = 1, **more: object
) -> Question:
    columns = pool(nodes, cards)
    shape = WHOLE._replace(devices=devices)
    taker = Taker(0, shape, size, np.array([devices * size * GPU]), columns.open, **more)  # type: ignore[arg-type]
    return Question(occupy(columns, works), works, taker)


def singles(*owners: int, cards: int = 2) -> Running:
    works = [Work(q, (Part(at // cards, 1 << at % cards),), placed=at) for at, q in enumerate(owners)]
    return running(works)


def test_the_queue_with_the_larger_excess_gives_first_and_queues_take_turns() -> None:
    works = singles(1, 1, 1, 2)
    books = tree((-1, 0, 4, 4), (-1, 3, 1, 1), (-1, 1, 0, 0))
    made = reclaim(question(works, size=2), books)
    assert isinstance(made, Vacated)
    assert sorted(made.victims) == [2, 3]  # queue 1 has 2 too many, so its youngest; then both have 1: the younger


def test_an_interruption_less_beats_a_younger_victim() -> None:
    works = running(
        [Work(1, (Part(0, 0b11),), placed=1), Work(1, (Part(1, 0b01),), placed=8), Work(1, (Part(1, 0b10),), placed=9)]
    )
    made = reclaim(question(works, devices=2), tree((-1, 0, 4, 4), (-1, 4, 0, 0)))
    assert isinstance(made, Vacated)
    assert made.victims == (0,)


def test_of_equal_ways_the_one_whose_oldest_is_younger_wins() -> None:
    works = running([Work(1, (Part(0, 0b11),), placed=1), Work(1, (Part(1, 0b11),), placed=9)])
    asked = question(works, devices=2, domains=np.array([0, 1]))
    made = reclaim(asked, tree((-1, 0, 4, 4), (-1, 4, 0, 0)))
    assert isinstance(made, Vacated)
    assert made.victims == (1,)


@pytest.mark.parametrize(
    ("books", "obstacle", "numbers"),
    [
        (tree((-1, 3, 3, 3), (-1, 4, 0, 0)), Obstacle.SHARE, (5 * GPU, 3 * GPU)),
        (tree((-1, 0, 4, 4), (-1, 4, 4, 4)), Obstacle.NOTHING, (0, 2 * GPU)),
        (tree((-1, 0, 4, 4), (-1, 4, 1, 1)), Obstacle.VICTIMS, (2, 1)),
    ],
)
def test_a_refusal_says_what_was_lacking(books: object, obstacle: Obstacle, numbers: tuple[int, int]) -> None:
    works = running([Work(1, (Part(node, 0b11),)) for node in range(2)])
    if obstacle is Obstacle.VICTIMS:
        works = running([Work(1, (Part(0, 0b01), Part(1, 0b01))), Work(1, (Part(0, 0b10), Part(1, 0b10)))])
    made = reclaim(question(works, devices=2), books)  # type: ignore[arg-type]
    assert isinstance(made, NoRoom)
    assert (made.obstacle, made.numbers) == (obstacle, numbers) or obstacle is Obstacle.NOTHING
    assert made.exact


def test_nothing_counts_where_nothing_that_is_asked_for_has_a_quota() -> None:
    books = tree((-1, 0, 4, 4), (-1, 4, 0, 0))._replace(counted=np.array([False]))
    assert reclaim(question(singles(1, 1, 1, 1)), books) == NoRoom(Obstacle.NOTHING, (0, 0))


def test_nowhere_to_stand_is_told_with_what_would_fit() -> None:
    works = singles(1, 1, 1, 1)
    books = tree((-1, 0, 4, 4), (-1, 4, 0, 0))
    asked = question(works, devices=2, size=1, domains=np.array([-1, -1]))
    assert reclaim(asked, books) == NoRoom(Obstacle.PLACES, (0, 1))
    first = question(works, devices=2, size=2, domains=np.array([0, 1]))
    assert reclaim(first, books) == NoRoom(Obstacle.PLACES, (1, 2))


def test_only_lower_priorities_of_the_own_project_give_way_unless_the_taker_cannot_be_preempted() -> None:
    works = running([Work(0, (Part(0, 0b01),), priority=90), Work(0, (Part(0, 0b10),), priority=10)])
    asked = question(works, nodes=1, priority=50)
    made = preempt(asked, preemptible=True)
    assert isinstance(made, Vacated)
    assert made.victims == (1,)
    both = asked._replace(taker=asked.taker._replace(size=2))
    assert preempt(both, preemptible=True) == NoRoom(Obstacle.PLACES, (1, 2))
    assert isinstance(preempt(both, preemptible=False), Vacated)
    alone = asked._replace(taker=asked.taker._replace(priority=5))
    assert preempt(alone, preemptible=True) == NoRoom(Obstacle.NOTHING, (0, GPU))


def in_one_place(devices: int) -> Fits:
    def fits(columns: Columns) -> bool:
        return bool((columns.idle >= devices).any())

    return fits


def test_what_is_judged_by_placing_is_put_back_by_halves() -> None:
    works = singles(1, 1, 1, 1, 1, 1, 1, 1)
    asked = question(works, nodes=4, devices=2)._replace(fits=in_one_place(2))
    books = tree((-1, 0, 8, 8), (-1, 8, 0, 0))
    made = reclaim(asked, books)
    assert isinstance(made, Vacated)
    assert sorted(made.victims) == [6, 7]
    impossible = asked._replace(fits=in_one_place(3))
    assert reclaim(impossible, books) == NoRoom(Obstacle.PLACES, (0, 1))


def test_a_queue_that_would_lose_too_much_has_its_own_put_back_first() -> None:
    works = singles(1, 1, 2, 2)
    asked = question(works, devices=2)._replace(fits=in_one_place(2))
    made = reclaim(asked, tree((-1, 0, 2, 2), (-1, 9, 8, 8), (-1, 2, 0, 0)))
    assert isinstance(made, Vacated)
    assert sorted(made.victims) == [2, 3]
    nobody = reclaim(asked, tree((-1, 0, 2, 2), (-1, 2, 1, 1), (-1, 2, 1, 1)))
    assert isinstance(nobody, NoRoom)
    assert (nobody.obstacle, nobody.exact) == (Obstacle.VICTIMS, False)


def test_questions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "_QUESTIONS", 2)
    asked = question(singles(1, 1, 1, 1), devices=2)._replace(fits=in_one_place(2))
    made = reclaim(asked, tree((-1, 0, 4, 4), (-1, 4, 0, 0)))
    assert isinstance(made, NoRoom)
    assert not made.exact


def test_every_set_is_tried_of_few_candidates_and_none_of_many() -> None:
    works = singles(1, 1, 1, 1)
    asked = question(works, devices=2)
    stock = stock_of(asked.columns.scratch())
    members = np.arange(4)
    lift(stock, works.held, members, 1)

    def not_the_first(victims: object) -> np.ndarray:
        return np.array([0 in victims])  # type: ignore[operator]

    need, everywhere = need_of(asked.taker.shape), asked.columns.open
    unlimited = np.zeros((4, 0), np.int64), np.zeros(0, np.int64)
    chosen, complete = smallest(stock, works, need, everywhere, members, 1, not_the_first, unlimited)
    assert (chosen is not None and chosen.tolist(), complete) == ([2, 3], True)
    lift(stock, works.held, np.array([2, 3]), -1)
    nothing, complete = smallest(stock, works, need, everywhere, members[:2], 1, not_the_first, unlimited)
    assert (nothing, complete) == (None, True)
    many = np.zeros(15, np.int64)
    assert smallest(stock, works, need, everywhere, many, 1, not_the_first, unlimited) == (None, False)


def test_a_mover_without_a_home_stays_and_others_move() -> None:
    works = running([Work(0, (Part(0, 0b01),)), Work(1, (Part(1, 0b01),), placed=5)])
    asked = question(works, devices=2)

    def settle(columns: Columns, row: int) -> bool:
        return row != 1  # the younger one has nowhere to go

    made = consolidate(asked, settle)
    assert isinstance(made, Vacated)
    assert made.victims == (0,)
    nowhere = consolidate(asked, lambda _, row: row < 0)
    assert isinstance(nowhere, NoRoom)
    assert consolidate(asked, lambda _, row: row >= 0) != made


def test_more_than_so_many_do_not_move_for_one() -> None:
    cards = MOST + 1
    works = running([Work(0, (Part(0, 1 << 0, milli=50, bytes=GIB),)) for _ in range(cards)])
    made = consolidate(question(works, nodes=1, cards=1), lambda _, row: True)
    assert isinstance(made, NoRoom)
    assert made.obstacle in {Obstacle.HOMES, Obstacle.PLACES}
