"""The engine's rules on small pools: quotas up the tree, turns, refusals in numbers, waking, undo, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from muster_kernel.mig import CARDS, best_start, room
from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.deciding.accounts import empty_tree
from muster_scheduler.domain.deciding.engine import Engine
from muster_scheduler.domain.deciding.fitting import start_of
from muster_scheduler.domain.deciding.index import SPREAD
from muster_scheduler.domain.deciding.tables import GEOMETRY, PROFILE_NUMBERS, PROFILES, rows_of
from muster_scheduler.domain.deciding.values import Amounts, Ask, Code, Decision, QueueSpec, Refusal
from muster_scheduler.domain.fleet.columns import CARD_NAMES, SLICED, columns_of, empty, read_row
from muster_scheduler.domain.fleet.nodes import Device, Node

GIB = 1 << 30
CPU = Shape(1_000, GIB)
CARD = Shape(0, 0, Kind.WHOLE, 1)
HALF = Shape(0, 0, Kind.PORTION, 1, milli=500)


def _node(name: str, cpu: int = 4_000, cards: int = 2) -> Node:
    devices = [Device(f"{name}-{slot}", "A100-40GB", 40 * GIB, slot) for slot in range(cards)]
    for device in devices:
        device.tally()
    return Node("c", name, "p", cpu=cpu, memory=64 * GIB, devices=devices)


def _engine(*nodes: Node, strategy: int = 0, specs: tuple[QueueSpec, ...] = (QueueSpec("p"), QueueSpec("q"))) -> Engine:
    engine = Engine(columns_of(nodes), strategy=strategy)
    engine.put_queues(specs)
    return engine


def _ask(name: str, shape: Shape = CARD, queue: str = "p", units: int = GPU, **more: int) -> Ask:
    return Ask(name, queue, shape, units, more.get("queued", 0), more.get("priority", 0), bool(more.get("soft", 1)))


def test_the_higher_priority_then_the_older_then_the_lower_id_goes_first() -> None:
    engine = _engine(_node("a", cards=8))
    for ask in (_ask("d", queued=2), _ask("c", queued=2), _ask("b", queued=1), _ask("a", queued=3, priority=1)):
        engine.add(ask)
    assert [decision.id for decision in engine.propose()] == ["a", "b", "c", "d"]


def test_queues_of_equal_weight_alternate() -> None:
    engine = _engine(_node("a", cards=6))
    for number in range(6):
        engine.add(_ask(f"w{number}", queue="p" if number < 3 else "q", queued=number))
    assert [decision.id for decision in engine.propose()] == ["w0", "w3", "w1", "w4", "w2", "w5"]


def test_a_limit_holds_at_every_ancestor_and_the_refusal_names_it() -> None:
    specs = (QueueSpec("d", limit=Amounts(GPU)), QueueSpec("p", "d"), QueueSpec("q", "d"))
    engine = _engine(_node("a"), specs=specs)
    engine.add(_ask("first"))
    engine.add(_ask("second", queue="q"))
    assert [decision.id for decision in engine.propose()] == ["first"]
    assert engine.why("second") == Refusal(Code.OVER_LIMIT, "d", 0, GPU, GPU, GPU, engine.position)
    assert engine.why("first") is None


def test_work_that_must_not_be_preempted_stays_within_what_every_ancestor_deserves() -> None:
    specs = (QueueSpec("d", deserved=Amounts(GPU)), QueueSpec("p", "d", deserved=Amounts(2 * GPU)))
    engine = _engine(_node("a"), specs=specs)
    for name in ("first", "second"):
        engine.add(_ask(name, soft=0))
    engine.add(_ask("soft"))
    assert [decision.id for decision in engine.propose()] == ["first", "soft"]
    refusal = engine.why("second")
    assert refusal is not None
    assert (refusal.code, refusal.queue, refusal.held, refusal.allowed) == (Code.OVER_QUOTA, "d", GPU, GPU)


def test_a_refused_class_is_tried_again_only_after_something_it_could_use_has_changed() -> None:
    engine = _engine(_node("a", cards=1))
    engine.add(_ask("first"))
    assert len(engine.propose()) == 1
    engine.add(_ask("second", queued=1))
    assert engine.propose() == []
    refusal = engine.why("second")
    assert refusal is not None
    assert refusal.code is Code.NO_ROOM
    assert engine.quiet
    assert engine.propose() == []
    engine.release("first")
    assert not engine.quiet
    assert [decision.id for decision in engine.propose()] == ["second"]
    engine.release("nobody")
    assert engine.quiet


def test_a_raised_limit_wakes_what_it_stopped() -> None:
    engine = _engine(_node("a"), specs=(QueueSpec("p", limit=Amounts(0)),))
    engine.add(_ask("w"))
    assert engine.propose() == []
    engine.put_queues([QueueSpec("p", limit=Amounts(GPU))])
    assert [decision.id for decision in engine.propose()] == ["w"]


def test_a_node_reported_anew_wakes_what_found_no_room_and_can_be_undone() -> None:
    small, large = _node("a", cards=0), _node("a", cards=1)
    engine = _engine(large)
    full = read_row(engine.columns, 0)
    engine.put_row(0, read_row(columns_of([small]), 0))
    engine.add(_ask("w"))
    engine.propose()
    before, mark = engine.digest(), engine.mark()
    engine.put_row(0, full)
    engine.check()
    assert [decision.id for decision in engine.propose()] == ["w"]
    engine.rollback(mark)
    assert engine.digest() == before
    engine.check()


def test_a_node_that_comes_back_with_more_cards_takes_what_needs_them_all() -> None:
    engine = _engine(_node("a", cards=1))
    engine.add(_ask("w", Shape(0, 0, Kind.WHOLE, 3), units=3 * GPU))
    assert engine.propose() == []
    engine.put_row(0, read_row(columns_of([_node("a", cards=4)]), 0))
    engine.check()
    assert [decision.mask for decision in engine.propose()] == [0b111]


def test_anonymous_devices_may_be_more_than_slots() -> None:
    engine = _engine(Node("c", "a", "p", slots=40))
    engine.add(_ask("w", Shape(0, 0, Kind.WHOLE, 30), units=30 * GPU))
    engine.add(_ask("x", Shape(0, 0, Kind.WHOLE, 11), units=11 * GPU))
    assert [(d.id, d.mask) for d in engine.propose()] == [("w", 0)]


def test_an_ask_that_is_taken_back_is_not_placed_and_the_undo_brings_it_back() -> None:
    engine = _engine(_node("a"))
    engine.add(_ask("w"))
    mark = engine.mark()
    engine.remove("w")
    engine.remove("w")
    assert engine.propose() == []
    engine.rollback(mark)
    assert [decision.id for decision in engine.propose()] == ["w"]


def test_spreading_gives_a_share_an_idle_card_of_the_emptiest_node() -> None:
    engine = _engine(_node("a", cards=1), _node("b", cards=2), strategy=SPREAD)
    for number in range(4):
        engine.add(_ask(f"w{number}", HALF, units=GPU // 2, queued=number))
    assert [(d.node, d.mask) for d in engine.propose()] == [(1, 1), (0, 1), (1, 2), (0, 1)]


def test_packing_fills_a_shared_card_before_it_breaks_an_idle_one() -> None:
    engine = _engine(_node("a", cards=1), _node("b", cards=2))
    for number in range(3):
        engine.add(_ask(f"w{number}", HALF, units=GPU // 2, queued=number))
    assert [(d.node, d.mask) for d in engine.propose()] == [(0, 1), (0, 1), (1, 1)]


def test_a_class_goes_only_where_it_is_eligible() -> None:
    pool = columns_of([_node("a"), _node("b")])
    engine = Engine(pool, np.array([[True, True], [False, True]]))
    engine.put_queues([QueueSpec("p")])
    engine.add(_ask("w")._replace(eligible=1))
    assert [decision.node for decision in engine.propose()] == [1]


def test_classes_that_nobody_needs_are_forgotten_and_their_numbers_used_again() -> None:
    engine = _engine(_node("a", cpu=64_000))
    for number in range(20):
        engine.add(_ask(f"w{number}", Shape(100 + number, GIB), units=0))
    assert len(engine.propose()) == 20
    for number in range(20):
        engine.release(f"w{number}")
    engine.line.sweep()
    engine.add(_ask("again", CPU, units=0))
    assert engine.propose() == [Decision("again", 0, 0, 0, 0, 0)]
    engine.forget()
    assert engine.mark() == 0


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (_ask("w", queue="nowhere"), "no queue that workloads stand in"),
        (_ask("w", queue="d"), "no queue that workloads stand in"),
        (_ask("twice"), "waits already"),
        (_ask("placed"), "has its place already"),
    ],
)
def test_an_ask_that_cannot_be_is_refused_by_name(ask: Ask, said: str) -> None:
    engine = _engine(_node("a"), specs=(QueueSpec("d"), QueueSpec("p", "d")))
    engine.add(_ask("placed"))
    engine.propose()
    engine.add(_ask("twice"))
    with pytest.raises(ValueError, match=said):
        engine.add(ask)


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ([QueueSpec("")], "needs a name"),
        ([QueueSpec("p", "nowhere")], "parents that are unknown"),
        ([QueueSpec("p", "q"), QueueSpec("q", "p")], "below themselves"),
    ],
)
def test_a_tree_of_queues_that_is_none_is_refused(specs: list[QueueSpec], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _engine().put_queues(specs)


@pytest.mark.parametrize("parents", [[-1, 2, 0], [-1, -1], [0], [-1, 0, 0, 1, 0]])
def test_accounts_stand_on_a_tree_in_order(parents: list[int]) -> None:
    with pytest.raises(ValueError, match="does not stand be"):
        empty_tree(parents)


def test_check_says_what_is_wrong() -> None:
    engine = _engine(_node("a"))
    engine.columns.cpu[0] -= 1_000
    with pytest.raises(AssertionError, match="index of idle"):
        engine.check()
    engine = _engine(_node("a"))
    engine.standing.tree.allocated[0, 0] += 1
    with pytest.raises(AssertionError, match="queues hold"):
        engine.check()


@pytest.mark.parametrize("model", CARD_NAMES)
def test_the_geometry_of_kernels_is_that_of_the_tables(model: str) -> None:
    card, number = CARDS[model], CARD_NAMES.index(model)
    columns = empty(("n",))
    columns.mode[0, 0], columns.card[0, 0] = SLICED, number
    rows = rows_of(columns)
    for mask in range(1 << card.slices):
        columns.mask[0, 0] = mask
        assert GEOMETRY.room[number, mask] == room(card, mask)
        for name in PROFILES:
            profile = card.profile(name)
            expected = None if profile is None else best_start(card, profile, mask)
            found = start_of(rows, GEOMETRY, PROFILE_NUMBERS[name], 0, 0)
            assert found == (-1 if expected is None else expected), (name, mask)
