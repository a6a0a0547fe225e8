"""Named resources beside CPU, memory and devices: taken, given back, carried over, and said where they lack."""

from __future__ import annotations

from muster.events.v1 import policy_pb2
from muster.fleet.v1 import fleet_pb2
from muster_kernel.reasons import WaitingReason
from muster_scheduler.adapters.rows import of_node, to_node
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.stream import values
from tests.support.fleets import GIB, Fleet, host, node, request, role, whole

NIC = "vendor.example/nic"
DISK = "ephemeral-storage"


def with_nics(name: str, nics: int, foreign: int = 0) -> Node:
    made = node(name, 4)
    made.extra = {NIC: nics, DISK: 100 * GIB}
    made.foreign_extra = {NIC: foreign} if foreign else {}
    return made


def asking(amount: int, shape: Shape = host(), name: str = NIC) -> Shape:  # noqa: B008 - a value
    return shape._replace(extra=((name, amount),))


def test_what_is_taken_is_not_given_twice() -> None:
    fleet = Fleet(with_nics("a", 2), node("b", 4))
    fleet.submit(1, request(role(asking(1), 2)))
    fleet.submit(2, request(role(asking(1))))
    assert {r.node[1] for r in fleet.workload(1).replicas.values()} == {"a"}
    assert not fleet.workload(2).replicas
    told = {text: number for _, number, text in explain(fleet.world, fleet.workload(2)).excluded}
    resource = f"has too little {NIC}"
    assert told == {f"{resource} free": 1, resource: 1}, "one is full, the other never had any"
    fleet.finish(1)
    assert fleet.workload(2).replicas
    assert fleet.world.inventory.nodes["c1", "a"].used_extra == {NIC: 1}


def test_what_others_hold_is_not_given() -> None:
    fleet = Fleet(with_nics("a", 2, foreign=1))
    fleet.submit(1, request(role(asking(2, whole()))))
    assert not fleet.workload(1).replicas
    fleet.inventory("c1", [with_nics("a", 2)])
    assert fleet.workload(1).replicas


def test_a_new_report_keeps_what_is_charged() -> None:
    fleet = Fleet(with_nics("a", 2))
    fleet.submit(1, request(role(asking(2))))
    fleet.inventory("c1", [with_nics("a", 2)])
    fleet.submit(2, request(role(asking(1))))
    assert not fleet.workload(2).replicas
    fleet.submit(3, request(role(asking(60 * GIB, name=DISK)), role(asking(60 * GIB, name=DISK), name="second")))
    assert not fleet.workload(3).replicas, "a gang counts what its own replicas take"


def test_more_than_any_node_has_never_starts() -> None:
    fleet = Fleet(with_nics("a", 2))
    fleet.submit(1, request(role(asking(3))))
    answer = explain(fleet.world, fleet.workload(1))
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.RESOURCE_TOO_LARGE
    assert [text for _, _, text in answer.excluded] == [f"has too little {NIC}"]
    assert answer.unblockers == (
        f"it asked for at most 2 {NIC} on one node",
        f"a node with 1 CPU, 1Gi of memory and 3 {NIC} joined node pool default",
    )
    larger = with_nics("b", 3)
    fleet.inventory("c1", [with_nics("a", 2), larger])
    assert fleet.workload(1).replicas, "the node that was said to help does"


def test_what_asks_for_nothing_else_is_said_in_whole_words() -> None:
    fleet = Fleet(node("a", 4))
    bare = Shape(extra=((NIC, 5),))
    fleet.submit(1, request(role(bare)))
    fleet.submit(2, request(role(bare, 4)))
    one, gang = (explain(fleet.world, fleet.workload(number)) for number in (1, 2))
    assert (one.asks, gang.asks) == (f"5 {NIC}", f"4 x 5 {NIC}")
    assert one.unblockers == (
        f"it asked for no {NIC}",
        f"a node with 5 {NIC} joined node pool default",
    )
    assert gang.unblockers[1] == f"4 nodes, each with 5 {NIC}, joined node pool default"


def test_rows_keep_them() -> None:
    made = with_nics("a", 2, foreign=1)
    read = to_node("c1", "a", of_node(made))
    assert (read.extra, read.foreign_extra) == (made.extra, made.foreign_extra)


def test_they_come_from_messages_by_name() -> None:
    said = fleet_pb2.Node(extended={NIC: 2, DISK: 5})
    assert values.amounts(said.extended) == {DISK: 5, NIC: 2}
    asked = policy_pb2.WorkloadAdmitted().requests.add(extended={f"r{n:03}": n + 1 for n in range(100)})
    assert len(values.amounts(asked.extended)) == 64
