"""A node that refused a workload is left out for as long as it said, and not for longer."""

from __future__ import annotations

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain import events
from tests.support.fleets import Fleet, node


def test_a_node_is_tried_again_when_its_time_is_over_though_nothing_else_happens() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1)
    fleet.send(events.AssignmentRefused("c1", fleet.order(), fleet.workload(1).id, 1, 1, "Full", "", "n1", 60))
    fleet.gone(1)
    for _ in range(5):
        fleet.wait(11)
        assert fleet.workload(1).phase is Phase.PENDING, "the node is still left out"
    fleet.wait(11)
    assert fleet.workload(1).phase is Phase.INITIALIZING
    assert not fleet.workload(1).avoid
