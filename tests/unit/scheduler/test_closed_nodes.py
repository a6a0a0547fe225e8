"""What an answer says of nodes that take no new work for now, and that what it says would help does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_kernel.reasons import Constraint
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.fleet.nodes import Node, NodeState
from tests.support.asking import why
from tests.support.fleets import START, Fleet, node, request, role, whole

MINUTE = 60 * SECOND


def closed(
    name: str,
    number: int,
    state: NodeState = NodeState.READY,
    *,
    deadline: int = 0,
    window: tuple[int, int] | None = None,
) -> Node:
    """A node; times in minutes from the start."""
    made = node(name, number, state=state)
    made.drain_deadline = START + deadline * MINUTE if deadline else 0
    made.windows = ((START + window[0] * MINUTE, START + window[1] * MINUTE),) if window else ()
    return made


def limit_trainings(fleet: Fleet, seconds: int) -> None:
    project = fleet.world.queues.projects["p"]
    fleet.send(events.ProjectChanged(replace(project, rules=Rules(training_time=seconds))))


@pytest.mark.parametrize(
    ("there", "text", "helps"),
    [
        (closed("n", 4, NodeState.CORDONED), "is cordoned", ["n were uncordoned"]),
        (closed("n", 4, NodeState.NOT_READY), "is not ready", ["n were ready"]),
        (closed("n", 4, NodeState.OUT_OF_SERVICE), "is out of service", ["n were back in service"]),
        (closed("n", 4, NodeState.DRAINING), "drains", ["n were not drained"]),
        (
            closed("n", 4, NodeState.DRAINING, deadline=180),
            "drains, and has to be empty within 3 h 0 min",
            ["n were not drained", "p limited the run time of trainings to 2 h 58 min"],
        ),
        (
            closed("n", 4, window=(-10, 50)),
            "is in a maintenance window for 50 min more",
            ["n were without that maintenance window"],
        ),
        (
            closed("n", 4, window=(60, 180)),
            "has a maintenance window in 60 min, for 2 h 0 min",
            ["n were without that maintenance window", "p limited the run time of trainings to 58 min"],
        ),
    ],
)
def test_why_and_until_when_a_node_is_closed_and_what_helps(there: Node, text: str, helps: list[str]) -> None:
    fleet = Fleet(there)
    fleet.submit(1, request(role(whole(4))))
    answer = why(fleet, 1)
    assert answer.excluded == ((Constraint.NODE_UNAVAILABLE, 1, text),)
    assert list(answer.unblockers) == helps
    fleet.inventory("c1", [node("n", 4)])
    assert fleet.workload(1).replicas


def test_the_run_time_limit_that_is_told_is_short_enough() -> None:
    fleet = Fleet(closed("n", 4, window=(60, 180)))
    fleet.submit(1, request(role(whole(4))))
    limit_trainings(fleet, 59 * 60 + 40)
    assert not fleet.workload(1).replicas
    assert why(fleet, 1).excluded[0][0] is Constraint.CLOSES_TOO_SOON
    limit_trainings(fleet, 58 * 60)
    assert fleet.workload(1).replicas


def test_a_gang_is_told_the_fewest_nodes_that_would_do() -> None:
    nodes = [closed(name, 2, NodeState.CORDONED) for name in "abcd"]
    fleet = Fleet(*nodes, node("z", 2))
    fleet.submit(1, request(role(whole(2), 3)))
    assert why(fleet, 1).unblockers == ("a and b were uncordoned",)
    fleet.inventory("c1", [node("a", 2), *nodes[1:], node("z", 2)])
    assert not fleet.workload(1).replicas
    fleet.inventory("c1", [node("a", 2), node("b", 2), *nodes[2:], node("z", 2)])
    assert fleet.workload(1).replicas


def test_who_would_take_an_opened_node_first_is_said() -> None:
    fleet = Fleet(closed("n", 2, NodeState.CORDONED))
    fleet.submit(1, request(role(whole(2)), priority=60))
    fleet.submit(2, request(role(whole(2))))
    assert why(fleet, 1).unblockers == ("n were uncordoned",)
    assert why(fleet, 2).unblockers == ("n were uncordoned, and w1 did not take the place first",)


def test_when_closed_nodes_take_new_work_again_is_known_of_windows() -> None:
    fleet = Fleet(closed("n", 4, window=(-10, 50)))
    fleet.submit(1, request(role(whole(4))))
    told = why(fleet, 1).estimate
    assert told is not None
    assert told.latest == START + 50 * MINUTE
    assert told.basis.startswith("nodes take new work again, or enough of what runs there has to end, by then")
    other = Fleet(closed("n", 4, NodeState.CORDONED))
    other.submit(1, request(role(whole(4))))
    unknown = why(other, 1).estimate
    assert unknown is not None
    assert unknown.basis == "it is not known when the nodes that could hold it accept new work again"


def test_nothing_is_said_to_help_that_does_not() -> None:
    fleet = Fleet(closed("a", 2, NodeState.CORDONED), closed("b", 4, NodeState.CORDONED), node("c", 2))
    fleet.submit(1, request(role(whole(2), 2), preemptible=False))
    assert why(fleet, 1).unblockers == ("b were uncordoned",)
    fleet.submit(2, request(role(whole(4), 2)))
    assert not any("uncordoned" in text for text in why(fleet, 2).unblockers), "both nodes together do not hold it"
