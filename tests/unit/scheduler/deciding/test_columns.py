"""Columns say what the books say, and taking on a scratch copy does to a row what charging does to the node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Shape
from muster_scheduler.domain.books.inventory import Inventory
from muster_scheduler.domain.fleet.columns import (
    CLOSED,
    IDLE,
    SLICED,
    TAKEN,
    columns_of,
    differences,
    media_bit,
    row_of,
)
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Device, Mig, Node, NodeState
from muster_scheduler.domain.fleet.taking import Run, give_back, grants_of, take
from muster_scheduler.domain.journal import Journal

GIB = 1 << 30
A100 = "A100-40GB"


def _node(name: str = "a", *, mig: bool = False, devices: int = 4, slots: int = 0) -> Node:
    cards = [Device(f"{name}-{i}", A100, 40 * GIB, i, mig=mig) for i in range(devices)]
    for card in cards:
        card.tally()
    return Node("c", name, "default", cpu=32_000, memory=256 * GIB, devices=cards, slots=slots)


CASES: dict[str, Callable[[], tuple[Node, Shape, Run]]] = {
    "cpu": lambda: (_node(), Shape(1_000, GIB), Run(0, 0, 1)),
    "whole": lambda: (_node(), Shape(1_000, GIB, Kind.WHOLE, 2), Run(0, 0, 1, 0b11)),
    "portion": lambda: (_node(), Shape(1_000, GIB, Kind.PORTION, 1, milli=250), Run(0, 0, 1, 0b1)),
    "memory": lambda: (_node(), Shape(1_000, GIB, Kind.MEMORY, 2, bytes=5 * GIB), Run(0, 0, 1, 0b11)),
    "slice": lambda: (_node(mig=True), Shape(1_000, GIB, Kind.SLICE, 1, profile="3g.20gb"), Run(0, 0, 1, 0b1, 4)),
    "media": lambda: (_node(mig=True), Shape(1_000, GIB, Kind.SLICE, 1, profile="1g.5gb+me"), Run(0, 0, 1, 0b1, 6)),
    "anonymous": lambda: (_node(devices=0, slots=4), Shape(1_000, GIB, Kind.WHOLE, 2), Run(0, 0, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_taking_a_run_does_to_the_row_what_charging_its_grant_does_to_the_node(case: str) -> None:
    node, shape, run = CASES[case]()
    inventory = Inventory(Journal())
    inventory.put_nodes([node])
    scratch = columns_of([node]).scratch()
    grant = fit(node, shape, Mig.DYNAMIC)
    assert isinstance(grant, Grant)
    assert list(grants_of(node, shape, run)) == [grant]
    take(scratch, shape, run)
    inventory.charge(Holder("w", 1, 1, "", 0, 0), node.key, grant)
    assert list(differences(scratch, [node])) == []


def test_what_was_taken_is_given_back_exactly_newest_first() -> None:
    node, shape, run = CASES["portion"]()
    columns = columns_of([node])
    scratch = columns.scratch()
    log = [take(scratch, shape, run), take(scratch, shape, run._replace(first=1, replicas=3))]
    assert scratch.milli[0, 0] == 0
    while log:
        give_back(scratch, log.pop())
    for name in TAKEN:
        assert np.array_equal(getattr(scratch, name), getattr(columns, name)), name


def test_replicas_of_a_run_take_the_next_set_bits_of_its_mask() -> None:
    node = _node()
    grants = list(grants_of(node, Shape(0, 0, Kind.WHOLE, 1), Run(0, 3, 2, 0b1010)))
    assert [grant.shares[0].device for grant in grants] == ["a-1", "a-3"]


def test_a_scratch_copy_leaves_the_columns_alone() -> None:
    node, shape, run = CASES["whole"]()
    columns = columns_of([node])
    take(columns.scratch(), shape, run)
    assert list(differences(columns, [node])) == []


def test_differences_name_the_node_whose_row_is_stale() -> None:
    nodes = [_node("a"), _node("b")]
    columns = columns_of(nodes)
    nodes[1].used_cpu = 5
    (said,) = differences(columns, nodes)
    assert "('c', 'b')" in said
    assert list(differences(columns, nodes[:1])) == ["columns of 2 nodes stand for 1 others"]


def test_modes_say_what_a_card_may_serve() -> None:
    broken, foreign, mig, idle = (Device(u, A100, GIB, i) for i, u in enumerate("abcd"))
    broken.healthy, foreign.foreign, mig.mig = False, True, True
    for device in (broken, foreign, mig, idle):
        device.tally()
    row = row_of(Node("c", "n", "p", devices=[broken, foreign, mig, idle]))
    assert row.mode == (CLOSED, CLOSED, SLICED, IDLE)
    assert (row.idle, row.idle_total) == (1, 1)
    assert row.milli == (MILLI,) * 4


def test_node_types_leave_the_host_name_out_and_a_cordoned_node_is_not_open() -> None:
    nodes = [_node(name) for name in "abc"]
    for node in nodes:
        node.labels = (("kubernetes.io/hostname", node.name), ("zone", "z" if node.name == "c" else "y"))
    nodes[1].state = NodeState.CORDONED
    columns = columns_of(nodes)
    assert columns.kind.tolist() == [0, 0, 1]
    assert columns.open.tolist() == [True, False, True]
    nodes[2].labels = ()
    assert len(list(differences(columns, nodes))) == 1


def test_only_media_profiles_have_a_bit() -> None:
    assert media_bit(A100, "1g.5gb+me") == 1
    assert media_bit("A30-24GB", "2g.12gb+me") == 2
    assert [media_bit(A100, "1g.5gb"), media_bit(A100, "9g+me"), media_bit("unknown", "1g.5gb+me")] == [0, 0, 0]
