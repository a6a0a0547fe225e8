"""The dominant reason says what is so: of closed nodes, of several pools and clusters, of what no node has."""

from __future__ import annotations

import pytest

from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.requests import STORAGE, Shape
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.asked.workloads import SECOND, Request
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig, Node, NodeState
from muster_scheduler.domain.placement.reasoning import why_not
from tests.support.fleets import GIB, START, Fleet, node, portion, request, role, whole

HOUR = 3600 * SECOND


def told(fleet: Fleet, number: int) -> str:
    """The sentence of why it waits; the cycle has kept the same."""
    workload = fleet.workload(number)
    reason = why_not(fleet.world, workload)
    assert fleet.world.waiting.reason(workload.id) == reason
    return reason.sentence()


def draining(name: str, number: int, deadline: int) -> Node:
    made = node(name, number, state=NodeState.DRAINING)
    made.drain_deadline = deadline
    return made


def windowed(name: str, number: int, start: int, end: int) -> Node:
    made = node(name, number)
    made.windows = ((start, end),)
    return made


def labelled(name: str, number: int, *, cluster: str = "c1", **labels: str) -> Node:
    made = node(name, number, cluster=cluster)
    made.labels = tuple(sorted(labels.items()))
    return made


def close_by(asked: Request, **wish: object) -> Request:
    return asked._replace(terms=asked.terms._replace(topology=Wish(**wish)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("closed", "text"),
    [
        (node("a", 4, state=NodeState.CORDONED), "is cordoned"),
        (node("a", 4, state=NodeState.NOT_READY), "is out of service"),
        (node("a", 4, state=NodeState.OUT_OF_SERVICE), "is out of service"),
        (draining("a", 4, START + HOUR), "has to be empty"),
        (node("a", 4, state=NodeState.DRAINING), "has to be empty"),
        (windowed("a", 4, START - HOUR, START + HOUR), "has to be empty"),
        (windowed("a", 4, START + HOUR, START + 2 * HOUR), "has to be empty"),
    ],
)
def test_that_a_node_is_closed_is_said_instead_of_that_it_is_full(closed: Node, text: str) -> None:
    fleet = Fleet(closed, node("b", 2))
    fleet.submit(1, request(role(whole(3))))
    assert told(fleet, 1) == f"1 node that could hold it {text}"
    fleet.submit(2, request(role(whole(2))))
    fleet.submit(3, request(role(whole(2), 2)))
    assert told(fleet, 3) == f"1 node that could hold it {text}"


def test_closed_nodes_are_not_to_blame_for_what_they_would_not_hold_either() -> None:
    fleet = Fleet(node("a", 4, state=NodeState.CORDONED), node("b", 4))
    fleet.submit(1, request(role(whole(4)), preemptible=False))
    fleet.submit(2, request(role(whole(3), 2)))
    assert told(fleet, 2) == "6 GPUs are asked for and 0 are free in the pool"


def test_several_causes_are_counted() -> None:
    closed = [node(name, 2, state=NodeState.CORDONED) for name in "ab"]
    fleet = Fleet(*closed, node("c", 2, state=NodeState.NOT_READY), draining("d", 2, START + HOUR))
    fleet.submit(1, request(role(whole(2), 4)))
    assert told(fleet, 1) == (
        "4 nodes that could hold it take no new work: 2 are cordoned, 1 has to be empty, 1 is out of service"
    )
    fleet.inventory("c1", [*closed, node("c", 2), node("d", 2)])
    fleet.submit(2, request(role(whole(2), 2), generation=1))
    assert fleet.workload(2).replicas


def test_where_one_pool_is_barred_the_other_is_spoken_of() -> None:
    fleet = Fleet(node("a", 3, pool="lab"), node("b", 2, pool="old"))
    fleet.project("p", {"lab": 1, "old": 9}, limit=2)
    both = ("lab", "old")
    fleet.submit(1, request(role(whole(3)), pools=both))
    assert told(fleet, 1) == "the project uses 0 of the 2 GPUs that it may hold at most (1 short)"
    fleet.project("p", {"lab": 1, "old": 9})
    assert fleet.workload(1).replicas
    fleet.project("q", {"lab": 0, "old": 2}, limit=2)
    fleet.submit(2, request(role(whole(2)), pools=("old",), preemptible=False))
    fleet.finish(1)
    fleet.submit(3, request(role(whole(1), 2), pools=both, preemptible=False), project="q")
    assert told(fleet, 3) == "2 GPUs are asked for and 0 are free in the pool"


def test_what_one_cluster_lacks_is_not_said_of_another() -> None:
    here = [labelled(f"n{n}", 4, rack=f"r{n}") for n in range(4)]
    fleet = Fleet(*here, node("t", 2, cluster="c2"))
    fleet.submit(1, close_by(request(role(whole(4), 6)), required="rack"))
    assert told(fleet, 1) == (
        "needs 6 replicas with 24 GPUs at once, more than idle nodes hold together; the largest node pool has 16 GPUs"
    )
    fleet.submit(2, close_by(request(role(whole(2), 3)), required="rack"))
    assert told(fleet, 2).startswith("its 3 replicas have to run close together"), "two of a rack hold two"
    fleet.submit(3, close_by(request(role(whole(2)), clusters=("c2",)), required="rack"))
    assert told(fleet, 3).endswith("no node has the label of that level")
    fleet.inventory("c2", [node(f"t{n}", 4, cluster="c2") for n in range(8)])
    fleet.submit(4, close_by(request(role(whole(4), 6)), required="rack"))
    assert told(fleet, 4) == "needs 6 replicas at once; the idle nodes of its node pool hold 4"


def test_what_no_node_has_is_said_with_its_number() -> None:
    cards, hosts = node("a", 8, cpu=8_000), node("b", 2, cpu=64_000)
    hosts.extra = {"vendor.example/nic": 2}
    fleet = Fleet(cards, hosts)
    asked = (
        whole(1)._replace(extra=(("vendor.example/nic", 5),)),
        whole(1)._replace(extra=((STORAGE, 60 * GIB),)),
        whole(4, cpu=32_000),
        whole(4)._replace(extra=(("vendor.example/nic", 1),)),
    )
    for number, shape in enumerate(asked, 1):
        fleet.submit(number, request(role(shape)))
    assert [told(fleet, number) for number in (1, 2, 3, 4)] == [
        "needs 5 of a named resource on one node; the largest node has 2",
        "needs 60Gi of ephemeral storage on one node; the largest node has 0",
        "needs 4 GPUs, 32 CPU and 1Gi of memory on one node; the most beside so many GPUs is 8 CPU and 512Gi",
        "no node could hold one replica of it, even if idle",
    ]


@pytest.mark.parametrize(("shape", "amount"), [(whole(1), "1 GPU"), (whole(2), "2 GPUs"), (portion(500), "0.5 GPU")])
def test_that_all_cards_are_in_mig_mode_is_said(shape: Shape, amount: str) -> None:
    fleet = Fleet(node("a", 2, mig=True), node("b", 1, mig=True), profile=Profile(mig=Mig.DYNAMIC))
    fleet.submit(1, request(role(shape)))
    assert told(fleet, 1) == f"needs {amount}, not a MIG slice; its node pools have 3 GPUs in MIG mode and no other"


@pytest.mark.parametrize(
    ("racks", "group", "text"),
    [
        (
            (3, 2, 1),
            3,
            "each 3 of its 6 replicas have to run in one domain of their level; idle nodes have room for 3 of them so",
        ),
        (
            (2, 1, 1, 1, 1),
            2,
            "each 2 of its 6 replicas have to run in one domain of their level; idle nodes have room for 2 of them so",
        ),
    ],
)
def test_of_groups_it_is_said_what_has_to_be_close_together(racks: tuple[int, ...], group: int, text: str) -> None:
    nodes = [labelled(f"n{r}-{n}", 1, rack=f"r{r}") for r, size in enumerate(racks) for n in range(size)]
    fleet = Fleet(*nodes)
    fleet.submit(1, close_by(request(role(whole(1), 6)), group="rack", group_size=group))
    assert told(fleet, 1) == text


def test_a_label_is_not_what_lacks_where_the_nodes_are_too_small() -> None:
    fleet = Fleet(node("a", 2), node("b", 2))
    fleet.submit(1, close_by(request(role(whole(4), 6)), required="rack"))
    assert told(fleet, 1) == "needs 4 GPUs on one node; the largest node has 2"
    helps = explain(fleet.world, fleet.workload(1)).unblockers
    assert [text.partition(" of memory, ")[2] for text in helps] == [
        "4 GPUs and the same value of the label rack, joined node pool default"
    ]
    joined = [labelled(f"n{n}", 4, rack="r") for n in range(6)]
    fleet.inventory("c1", [node("a", 2), node("b", 2), *joined])
    assert fleet.workload(1).replicas
