"""The index over live columns: it follows every row that is written, whoever is eligible."""

from __future__ import annotations

import numpy as np
import pytest

from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.deciding import seeking
from muster_scheduler.domain.deciding.seeking import Seeker
from muster_scheduler.domain.fleet.columns import Columns, empty
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.taking import Run
from tests.support.fleets import GIB, Fleet, node, portion, request, role, whole

CPU = Shape(1_000, GIB)


def _columns(*cpu: int) -> Columns:
    columns = empty(tuple(f"n{number}" for number in range(len(cpu))))
    columns.open[:], columns.memory[:], columns.cpu[:] = True, 64 * GIB, cpu
    return columns


def test_it_finds_the_fullest_or_the_emptiest_eligible_node() -> None:
    seeker = Seeker(_columns(4_000, 2_000, 8_000, 500))
    everyone, others = np.ones(4, np.bool_), np.array([True, False, False, True])
    assert seeker.find(CPU, everyone)[0] == Run(1, 0, 1)
    assert seeker.find(CPU, everyone, spread=True)[0] == Run(2, 0, 1)
    assert seeker.find(CPU, others)[0] == Run(0, 0, 1)
    assert seeker.find(CPU, np.zeros(4, np.bool_)) == (None, 0)


def test_more_sets_of_nodes_than_it_remembers_are_told_apart() -> None:
    seeker = Seeker(_columns(*[4_000] * 530))
    for _ in range(2):
        for number in range(530):
            only = np.zeros(530, np.bool_)
            only[number] = True
            assert seeker.find(CPU, only)[0] == Run(number, 0, 1)


def test_more_shapes_than_it_remembers_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeking, "_SHAPES", 2)
    seeker = Seeker(_columns(1_000, 2_000, 3_000))
    everyone = np.ones(3, np.bool_)
    found = [seeker.find(Shape(cpu, GIB), everyone)[0] for cpu in (1_000, 2_000, 3_000, 1_000)]
    assert found == [Run(0, 0, 1), Run(1, 0, 1), Run(2, 0, 1), Run(0, 0, 1)]


def test_it_follows_what_is_written_and_says_what_was_written_behind_its_back() -> None:
    columns = _columns(4_000, 2_000)
    seeker = Seeker(columns)
    seeker.renew([Node("c", "n1", "p", cpu=500, memory=64 * GIB, ordinal=1)])
    seeker.check()
    assert seeker.find(CPU, np.ones(2, np.bool_))[0] == Run(0, 0, 1)
    columns.cpu[0] = 0
    with pytest.raises(AssertionError, match="index of idle"):
        seeker.check()


def test_single_replicas_of_the_service_go_by_it() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 2))
    fleet.submit(1, request(role(portion(500))))
    fleet.submit(2, request(role(whole(1))))
    fleet.submit(3, request(role(portion(500))))
    fleet.submit(4, request(role(whole(4))))
    nodes = [next(iter(fleet.workload(number).replicas.values())).node[1] for number in (1, 2, 3, 4)]
    assert nodes == ["n2", "n2", "n2", "n1"]
    fleet.submit(5, request(role(whole(1))))
    assert not fleet.workload(5).replicas
    fleet.state.check()
