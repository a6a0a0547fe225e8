"""The engine decides what brute force over the books decides, byte for byte, compiled or not, and undoes it exactly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.asked.requests import Kind, Shape, charge_of
from muster_scheduler.domain.deciding.engine import Engine
from muster_scheduler.domain.deciding.index import BINPACK, SPREAD
from muster_scheduler.domain.deciding.values import Amounts, Ask, QueueSpec
from muster_scheduler.domain.fleet.columns import columns_of, differences
from muster_scheduler.domain.fleet.nodes import Device, Node, NodeState
from tests.support.deciding_oracle import Oracle, plain

GIB = 1 << 30
CARD = "A100-40GB"
PLAIN: Any = plain("deciding.engine")[0].Engine


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    made = []
    for number in range(draw(st.integers(1, 40))):
        mig = draw(st.booleans())
        cards = [Device(f"{number}-{i}", CARD, 40 * GIB, i, mig=mig) for i in range(draw(st.integers(0, 3)))]
        for card in cards:
            card.healthy = draw(st.integers(0, 9)) > 0
            card.tally()
        state = NodeState.READY if draw(st.integers(0, 9)) else NodeState.CORDONED
        cpu, memory = draw(st.sampled_from([0, 1_000, 1_040, 4_000])), draw(st.sampled_from([2, 16])) * GIB
        made.append(Node("c", f"n{number:03}", "p", cpu=cpu, memory=memory, devices=cards, state=state))
    return made


SHAPES = st.sampled_from(
    [
        Shape(1_000, GIB),
        Shape(1_020, 2 * GIB),
        Shape(300, GIB, Kind.WHOLE, 1),
        Shape(300, GIB, Kind.WHOLE, 2),
        Shape(100, 0, Kind.PORTION, 1, milli=330),
        Shape(100, 0, Kind.PORTION, 2, milli=500),
        Shape(100, 0, Kind.MEMORY, 1, bytes=9 * GIB + 1),
        Shape(100, 0, Kind.SLICE, 1, profile="3g.20gb"),
        Shape(100, 0, Kind.SLICE, 1, profile="1g.5gb"),
        Shape(100, 0, Kind.SLICE, 2, profile="1g.5gb+me"),
        Shape(100, 0, Kind.SLICE, 1, profile="9g.99gb"),
    ]
)
AMOUNTS = st.builds(
    Amounts,
    st.integers(0, 8).map(lambda n: n * 7_000),
    st.one_of(st.none(), st.integers(0, 8).map(lambda n: n * 1_000)),
    st.none(),
)
LIMITS = st.builds(Amounts, st.one_of(st.none(), st.integers(0, 60_000)), st.none(), st.none())


@st.composite
def queues(draw: st.DrawFn) -> list[QueueSpec]:
    made = [QueueSpec(name, "", draw(AMOUNTS), draw(LIMITS)) for name in ("d", "e")]
    above, weights = st.sampled_from(["d", "e"]), st.integers(0, 2)
    made += [QueueSpec(name, draw(above), draw(AMOUNTS), draw(LIMITS), draw(weights)) for name in ("p", "q", "r")]
    return made


@st.composite
def asks(draw: st.DrawFn) -> list[Ask]:
    made = []
    for number in range(draw(st.integers(1, 25))):
        shape = draw(SHAPES)
        units = 7_000 if shape.profile == "9g.99gb" else charge_of(shape, 40 * GIB)
        age, priority = draw(st.integers(0, 3)), draw(st.integers(0, 1))
        queue, preemptible = draw(st.sampled_from("pqr")), draw(st.booleans())
        made.append(Ask(f"w{number:02}", queue, shape, units, age, priority, preemptible))
    return made


def _engine(kind: Any, pool: list[Node], tree: list[QueueSpec], waiting: list[Ask], strategy: int) -> Any:
    engine = kind(columns_of(pool), strategy=strategy)
    engine.put_queues(tree)
    for ask in waiting:
        engine.add(ask)
    return engine


QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("kind", [Engine, PLAIN], ids=["compiled", "plain"])
@given(nodes(), queues(), asks())
@QUIET
def test_it_decides_what_brute_force_over_the_books_decides(
    kind: Any, pool: list[Node], tree: list[QueueSpec], waiting: list[Ask]
) -> None:
    engine = _engine(kind, pool, tree, waiting, BINPACK)
    mark, before = engine.mark(), engine.digest()
    found = [(d.id, *d[2:]) for d in engine.propose()]
    shares = {name: engine.standing.tree.share[row].tolist() for name, row in engine.standing.rows.items()}
    oracle = Oracle(pool, tree)
    expected, waits = oracle.decide(waiting, shares)
    assert found == [tuple(decision) for decision in expected]
    assert waits == set(engine.line.spots)
    assert list(differences(engine.columns, pool)) == []
    engine.check()
    assert all(engine.why(name) is not None for name in waits)
    assert engine.propose() == []
    engine.rollback(mark)
    assert engine.digest() == before
    engine.check()


@pytest.mark.parametrize("kind", [Engine, PLAIN], ids=["compiled", "plain"])
@given(nodes(), asks())
@QUIET
def test_spreading_takes_the_emptiest_node(kind: Any, pool: list[Node], waiting: list[Ask]) -> None:
    alone = [ask for ask in waiting if ask.shape.kind in {Kind.NONE, Kind.WHOLE, Kind.SLICE}]
    tree = [QueueSpec(name) for name in "pqr"]
    engine = _engine(kind, pool, tree, alone, SPREAD)
    found = [(d.id, *d[2:]) for d in engine.propose()]
    shares = {name: engine.standing.tree.share[row].tolist() for name, row in engine.standing.rows.items()}
    expected, _ = Oracle(pool, tree, spread=True).decide(alone, shares)
    assert found == [tuple(decision) for decision in expected]


@given(nodes(), queues(), asks(), st.integers(1, 4), st.sets(st.integers(0, 24)))
@QUIET
def test_budgets_releases_and_undone_tries_change_nothing_of_what_is_decided(
    pool: list[Node], tree: list[QueueSpec], waiting: list[Ask], visits: int, released: set[int]
) -> None:
    engine, twin = (_engine(kind, pool, tree, waiting, BINPACK) for kind in (Engine, PLAIN))
    found, pieces = engine.propose(), []
    while not twin.quiet:
        pieces += twin.propose(visits=visits)
        twin.check()
    assert list(map(tuple, found)) == list(map(tuple, pieces))
    for number in sorted(released):
        mark = engine.mark()
        engine.release(f"w{number:02}")
        after = engine.digest()
        engine.rollback(mark)
        engine.release(f"w{number:02}")
        twin.release(f"w{number:02}")
        assert engine.digest() == after
    assert list(map(tuple, engine.propose())) == list(map(tuple, twin.propose()))
    assert engine.digest() == twin.digest()
    engine.check()
