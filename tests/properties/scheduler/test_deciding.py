"""The index places replicas where brute force over the books does: same devices, same charges, compiled or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.asked.requests import Kind, Shape, charge_of
from muster_scheduler.domain.deciding import batch, seeking
from muster_scheduler.domain.deciding.accounts import LEAST_SHARE, ratio
from muster_scheduler.domain.deciding.batch import RETIRES, Heads
from muster_scheduler.domain.deciding.seeking import Seeker
from muster_scheduler.domain.deciding.shapes import Terms, row_of
from muster_scheduler.domain.fleet.columns import columns_of, differences
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Device, Node, NodeState
from tests.support.deciding_oracle import Expected, Oracle, plain
from tests.support.trees import one_queue

GIB = 1 << 30
CARD = "A100-40GB"
PLAIN: Any = plain("deciding.batch", "deciding.searching")


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
        most = draw(st.sampled_from([UNBOUNDED, UNBOUNDED, UNBOUNDED, 0, 1, 2]))
        name = f"n{number:03}"
        made.append(Node("c", name, "p", cpu=cpu, memory=memory, devices=cards, state=state, most_replicas=most))
    return made


ALONE = [
    Shape(1_000, GIB),
    Shape(1_020, 2 * GIB),
    Shape(300, GIB, Kind.WHOLE, 1),
    Shape(300, GIB, Kind.WHOLE, 2),
    Shape(100, 0, Kind.SLICE, 1, profile="3g.20gb"),
    Shape(100, 0, Kind.SLICE, 1, profile="1g.5gb"),
    Shape(100, 0, Kind.SLICE, 2, profile="1g.5gb+me"),
    Shape(100, 0, Kind.SLICE, 1, profile="9g.99gb"),
]
SHARED = [
    Shape(100, 0, Kind.PORTION, 1, milli=330),
    Shape(100, 0, Kind.PORTION, 2, milli=500),
    Shape(100, 0, Kind.MEMORY, 1, bytes=9 * GIB + 1),
]


def decided(pool: list[Node], shapes: list[Shape], *, spread: bool) -> list[Expected]:
    """The batch kernel's placements of these shapes in their order, until one fits nowhere."""
    columns = columns_of(pool)
    seeker = Seeker(columns)
    rows = [row_of(s, Terms(_units(s), 1, eligible=0, spread=spread)) for s in shapes]
    ends = np.array([0, 0]), np.array([0, len(shapes)]), np.array([RETIRES, RETIRES])
    found = seeker.decide(one_queue(), np.array(rows, np.int64), Heads(*ends), 1 << 30)
    seeker.check()
    return [Expected(*each[1:]) for each in found.placed.tolist()]


def _units(shape: Shape) -> int:
    return 7_000 if shape.profile == "9g.99gb" else charge_of(shape, 40 * GIB)


@pytest.mark.parametrize("kernel", [batch.decide, PLAIN[0].decide], ids=["compiled", "plain"])
@pytest.mark.parametrize("spread", [False, True])
@given(nodes(), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_it_decides_what_brute_force_over_the_books_decides(
    kernel: Any, spread: bool, pool: list[Node], data: st.DataObject
) -> None:
    shapes = data.draw(st.lists(st.sampled_from(ALONE if spread else ALONE + SHARED), min_size=1, max_size=25))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeking, "decide", kernel)
        found = decided(pool, shapes, spread=spread)
    oracle = Oracle(pool, spread=spread)
    expected = [oracle.place(f"w{at:02}", shape) for at, shape in enumerate(shapes)]
    until = expected.index(None) if None in expected else len(expected)
    assert found == expected[:until]


@given(nodes(), st.lists(st.sampled_from(ALONE + SHARED), max_size=25))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rows_that_the_kernel_has_changed_say_what_the_books_say(pool: list[Node], shapes: list[Shape]) -> None:
    columns, oracle = columns_of(pool), Oracle(pool)
    seeker = Seeker(columns)
    everyone = np.ones(len(pool), np.bool_)
    for at, shape in enumerate(shapes):
        run, _ = seeker.find(shape, everyone)
        expected = oracle.place(f"w{at:02}", shape)
        assert (run is None) == (expected is None)
        if run is not None and expected is not None:
            assert (run.node, run.mask, run.start) == expected[:3]
            row = np.array([row_of(shape, Terms(_units(shape), 1))], np.int64)
            ends = np.array([0, 0]), np.array([0, 1]), np.array([RETIRES, RETIRES])
            seeker.decide(one_queue(), row, Heads(*ends), 1)
    assert list(differences(columns, pool)) == []


@given(st.integers(0, 1 << 55), st.integers(LEAST_SHARE, 1 << 62))
def test_a_ratio_of_large_amounts_is_exact(held: int, share: int) -> None:
    assert ratio(held, share) == (held << 20) // share
