"""A workload that comes into a node pool in which it was not counted as waiting counts there from that moment on."""

from __future__ import annotations

import pytest

from muster_scheduler.domain.decisions import Preempted
from muster_scheduler.domain.fleet.nodes import NodeState
from tests.support.asking import where
from tests.support.fleets import Fleet, node, portion, request, role, whole


@pytest.mark.parametrize("asked_before", [False, True])
def test_who_comes_into_its_second_pool_is_not_evicted_by_shares_that_do_not_know_it(*, asked_before: bool) -> None:
    """Shares may be asked for before it is placed: that depends on what was looked at lately, not on the truth."""
    cards = node("y", 1, pool="b")
    fleet = Fleet(node("x", 2), cards, quota=0)
    fleet.project("q", {"default": 0, "b": 1}, department="d")
    fleet.project("s", {"default": 2}, department="e")
    fleet.department("d", {"default": 3})
    fleet.inventory("c1", [node("x", 2, state=NodeState.CORDONED), cards])
    fleet.submit(4, request(role(whole(2)), pools=("b", "default"), priority=60), project="q")
    fleet.submit(3, request(role(portion(300, 2), 2), pools=("default", "b"), priority=75), project="s")
    if asked_before:
        fleet.world.relented["default"] = None
    decided = fleet.inventory("c1", [node("x", 2), node("y", 1, pool="b")])
    assert where(fleet, 4) == ["x"]
    assert not [each for each in decided if isinstance(each, Preempted)]
    assert fleet.workload(3).claim is None
