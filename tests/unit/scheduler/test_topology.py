"""Domains from labels: paths name them, gaps are no domain, the order of reports means nothing."""

from __future__ import annotations

from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.fleet.topology import NOWHERE, flat, topology_of

_LABELS = [
    (("rack", "r1"), ("block", "b2")),
    (("rack", "r1"), ("block", "b1")),
    (("block", "b1"),),
    (("rack", "r2"), ("block", "b1")),
    (("rack", "r9"),),
    (("block", "b1"), ("rack", "r1")),
]


def test_a_rack_of_one_block_is_not_the_rack_of_that_name_in_another() -> None:
    topology = topology_of(("block", "rack"), _LABELS)
    assert topology.names == (("b1", "b2"), ("b1/r1", "b1/r2", "b2/r1", "-/r9"))
    assert topology.domain.tolist() == [[1, 0, 0, 0, NOWHERE, 0], [2, 0, NOWHERE, 1, 3, 0]]


def test_nodes_of_a_domain_stand_together_and_those_without_a_label_behind_them() -> None:
    topology = topology_of(("block", "rack"), _LABELS)
    assert topology.order.tolist() == [1, 5, 3, 2, 0, 4]


def test_levels_are_found_by_their_key() -> None:
    topology = topology_of(("block", "rack", "block"), _LABELS)
    assert topology.keys == ("block", "rack")
    assert (topology.level("block"), topology.level("rack"), topology.level("zone")) == (0, 1, None)
    assert (topology.size(0), topology.size(1)) == (2, 4)


def test_a_label_that_no_node_has_makes_a_level_without_domains() -> None:
    topology = topology_of(("zone",), _LABELS)
    assert topology.size(0) == 0
    assert set(topology.domain[0].tolist()) == {NOWHERE}


def test_a_pool_of_equal_nodes_has_no_level() -> None:
    topology = flat(3)
    assert topology.keys == ()
    assert topology.order.tolist() == [0, 1, 2]


def test_a_wish_names_its_levels_once_and_outermost_first() -> None:
    assert Wish("block", "rack", "block", 2).keys == ("block", "rack")
    assert Wish().keys == ()
