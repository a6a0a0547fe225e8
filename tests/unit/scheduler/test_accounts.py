"""What projects hold and ask for: sums that agree with the books, each replica and class counted in one pool."""

from __future__ import annotations

from muster.fleet.v1 import fleet_pb2
from muster_kernel.quantities import GPU
from muster_scheduler.adapters.accounts import accounts
from muster_scheduler.domain.answers.shares import all_shares
from muster_scheduler.domain.answers.viewing import EVERYONE
from tests.support.fleets import GIB, Fleet, node, request, role, whole


def amounts(one: fleet_pb2.Amount) -> tuple[float, int, int]:
    return one.gpu / GPU, one.cpu_milli, one.memory_bytes // GIB


def test_held_and_asked_for() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 8, pool="big"), quota=100)
    fleet.project("q", {"default": 100})
    fleet.submit(1, request(role(whole(2), 2), preemptible=False))
    fleet.submit(2, request(role(whole(3)), pools=("default", "other")))
    fleet.submit(3, request(role(whole(1)), pools=("big",)), project="q")
    found = accounts(fleet.world, None, EVERYONE)
    assert [(one.project, one.node_pool, one.pending_workloads) for one in found] == [
        ("p", "default", 1),
        ("q", "big", 0),
    ]
    first, second = found
    assert amounts(first.allocated) == amounts(first.allocated_non_preemptible) == (4, 2000, 2)
    assert amounts(first.requested) == (7, 3000, 3)
    assert amounts(second.allocated) == amounts(second.requested) == (1, 1000, 1)
    assert amounts(second.allocated_non_preemptible) == (0, 0, 0)
    assert first.allocated.gpu == fleet.world.queues.account("p", "default").allocated


def test_fair_shares_are_told_where_they_are_asked_for() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4), quota=4)
    fleet.project("q", {"default": 2})
    fleet.submit(1, request(role(whole(3)), preemptible=False))
    fleet.submit(2, request(role(whole(8))), project="q")
    fleet.submit(3, request(role(whole(4))), project="q")
    assert not any(one.HasField("gpu_fair") for one in accounts(fleet.world, None, EVERYONE))
    found = accounts(fleet.world, None, EVERYONE, shares=True)
    told = {one.project: (one.gpu_deserved / GPU, one.gpu_fair / GPU) for one in found}
    assert told == {"p": (4, 3), "q": (2, 4)}


def test_what_could_never_run_there_waits_and_is_not_asked_for() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.submit(1, request(role(whole(9))))
    fleet.submit(2, request(role(whole(3))))
    (found,) = accounts(fleet.world, None, EVERYONE, shares=True)
    assert (found.pending_workloads, amounts(found.requested)) == (1, (3, 1000, 1))
    assert found.requested.gpu == all_shares(fleet.world, "default")["p"].wanted


def test_only_the_projects_that_are_asked_for() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(whole(1))))
    assert accounts(fleet.world, frozenset({"q"}), EVERYONE) == []
    assert [one.project for one in accounts(fleet.world, frozenset({"p"}), EVERYONE)] == ["p"]
