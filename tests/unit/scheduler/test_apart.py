"""Replicas that have to stand apart, through the whole machine: where they go, who makes room, and why they wait."""

from __future__ import annotations

import pytest

from muster_kernel.reasons import FailureClass, WaitingReason
from muster_scheduler.adapters.workload_rows import of_request, to_request
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.terms import HOST_LABEL, Apart, Terms, Together, Wish
from muster_scheduler.domain.asked.workloads import ReplicaState, Request, Stretch, Trials, WorkloadKind
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig
from tests.support.asking import waits, where, why
from tests.support.fleets import Fleet, host, mig_slice, node, request, role, whole
from tests.support.halls import at, hall

BY_HOST = Apart(HOST_LABEL, required=True)
BY_RACK = Apart("rack", required=True)


def asks(apart: Apart | None, *roles: Role, **more: object) -> Request:
    wish = Wish(apart=apart, **more)  # type: ignore[arg-type]
    return request(*roles)._replace(terms=Terms(topology=wish))


def test_no_two_replicas_share_a_node_though_one_would_hold_all() -> None:
    fleet = Fleet(*(node(f"n{n}", 8) for n in range(4)))
    fleet.submit(1, asks(BY_HOST, role(whole(), 3)))
    assert where(fleet, 1) == ["n0", "n1", "n2"], "a node is its own host, whether or not it has the label"
    fleet.submit(2, asks(BY_HOST, role(whole(), 4)))
    assert where(fleet, 2) == ["n0", "n1", "n2", "n3"], "others are no matter"


def test_no_two_replicas_share_a_rack_and_roles_count_together() -> None:
    fleet = hall()
    fleet.submit(1, asks(BY_RACK, role(whole(2), 3), role(host(), 1, "launcher")))
    assert len({name[:3] for name in where(fleet, 1)}) == 4
    fleet.submit(2, asks(BY_RACK, role(whole(2), 4), role(host(), 1, "launcher")))
    assert not where(fleet, 2)
    code, sentence = waits(fleet, 2)
    assert code is WaitingReason.TOO_FEW_DOMAINS
    assert sentence == (
        "its replicas have to stand apart: it needs 5 domains of the label that it names, "
        "and the pool has 4 that could hold one"
    )


def test_a_wish_to_be_apart_is_left_where_it_cannot_be() -> None:
    fleet = hall()
    fleet.submit(1, asks(BY_RACK._replace(required=False), role(whole(), 4)))
    assert len({name[:3] for name in where(fleet, 1)}) == 4
    fleet.submit(2, asks(BY_RACK._replace(required=False), role(whole(), 5)))
    assert len(where(fleet, 2)) == 5


def test_a_node_without_the_label_holds_nobody_who_has_to_be_apart_by_it() -> None:
    fleet = Fleet(node("bare", 8), at("n1", "b", "r1"))
    fleet.submit(1, asks(BY_RACK, role(whole())))
    assert where(fleet, 1) == ["n1"]
    fleet.submit(2, asks(BY_RACK, role(whole(), 2)))
    code, sentence = waits(fleet, 2)
    assert code is WaitingReason.TOO_FEW_DOMAINS
    assert "needs 2 domains of the label that it names, and the pool has 1 that could hold one" in sentence


def test_close_on_one_level_and_apart_on_a_finer_one() -> None:
    fleet = hall()
    fleet.submit(1, asks(BY_HOST, role(whole(2), 4), required="block"))
    assert {name[:2] for name in where(fleet, 1)} == {"n0"}
    assert len(set(where(fleet, 1))) == 4
    fleet.submit(2, asks(BY_RACK, role(whole(2), 2), required="block"))
    assert len({name[:2] for name in where(fleet, 2)}) == 1
    assert len({name[:3] for name in where(fleet, 2)}) == 2
    fleet.submit(3, asks(BY_RACK, role(whole(2), 3), required="block"))
    code, sentence = waits(fleet, 3)
    assert code is WaitingReason.TOO_FEW_DOMAINS
    assert "needs 3 domains of the label that it names, and the pool has 2 that could hold one" in sentence


def test_groups_stay_in_their_racks_each_replica_on_a_node_of_its_own() -> None:
    fleet = hall()
    fleet.submit(1, asks(BY_HOST, role(whole(), 4), group="rack", group_size=2))
    first = where(fleet, 1)
    assert len(set(first)) == 4
    assert first[0][:3] == first[1][:3]
    assert first[2][:3] == first[3][:3]


def test_affinity_and_anti_affinity_of_one_workload() -> None:
    fleet = hall()
    terms = Terms(together=Together("rack", required=True), topology=Wish(apart=BY_HOST))
    fleet.submit(1, request(role(whole(), 2))._replace(terms=terms))
    assert where(fleet, 1) == ["n000", "n001"]
    fleet.submit(2, request(role(whole(), 3))._replace(terms=terms))
    assert waits(fleet, 2)[0] is WaitingReason.TOO_FEW_DOMAINS


def test_who_waits_to_be_apart_is_told_how_many_nodes_have_room() -> None:
    fleet = Fleet(*(node(f"n{n}", 2) for n in range(3)))
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, asks(BY_HOST, role(whole(), 3)))
    code, sentence = waits(fleet, 2)
    assert code is WaitingReason.APART
    assert sentence == "its replicas have to stand apart: it needs 3 nodes, and 2 have room for one now"
    helps = f"it preferred to stand apart by {HOST_LABEL} instead of requiring it"
    assert helps in why(fleet, 2).unblockers
    other = Fleet(*(node(f"n{n}", 2) for n in range(3)))
    other.submit(1, request(role(whole(2)), preemptible=False))
    other.submit(2, asks(BY_HOST._replace(required=False), role(whole(), 3)))
    assert len(where(other, 2)) == 3, "done as told it starts"
    fleet.finish(1)
    assert len(set(where(fleet, 2))) == 3


def test_too_many_replicas_are_told_how_many_would_do() -> None:
    fleet = Fleet(*(node(f"n{n}", 2) for n in range(3)))
    fleet.submit(1, asks(BY_HOST, role(whole(), 4)))
    assert waits(fleet, 1) == (
        WaitingReason.TOO_FEW_DOMAINS,
        "its replicas have to stand apart: it needs 4 nodes, and the pool has 3 that could hold one",
    )
    assert why(fleet, 1).unblockers == (
        f"it preferred to stand apart by {HOST_LABEL} instead of requiring it",
        "it had at most 3 replicas",
    )


def test_roles_that_fit_on_few_nodes_get_these() -> None:
    fleet = Fleet(node("a", 8), node("b", 2))
    big, small = role(whole(2), 1, "a-small"), role(whole(4), 1, "big")
    fleet.submit(1, asks(BY_HOST, big, small))
    assert where(fleet, 1) == ["b", "a"]


def service(size: int, apart: Apart) -> Request:
    asked = request(role(whole(2), size), kind=WorkloadKind.INFERENCE, max_scale=6)
    return asked._replace(terms=Terms(topology=Wish(apart=apart)))


def test_a_service_grows_only_into_domains_of_its_own() -> None:
    fleet = hall()
    fleet.submit(1, service(2, BY_RACK))
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 5))
    assert len(where(fleet, 1)) == 4
    assert len({name[:3] for name in where(fleet, 1)}) == 4
    fleet.submit(2, service(2, BY_RACK._replace(required=False)))
    fleet.send(events.ScaleAdvised(fleet.workload(2).id, 5))
    assert len(where(fleet, 2)) == 5
    assert len({name[:3] for name in where(fleet, 2)}) == 4


def test_a_replica_comes_back_to_a_domain_that_is_free() -> None:
    fleet = hall()
    fleet.submit(1, service(4, BY_RACK))
    before = {name[:3] for name in where(fleet, 1)}
    fleet.run(1)
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=3, gone=True, failure=FailureClass.INFRASTRUCTURE))
    for _ in range(10):
        fleet.wait(30)
    assert fleet.workload(1).replicas["worker", 3].holder.k == 1, "it was replaced"
    assert {name[:3] for name in where(fleet, 1)} == before


def test_room_is_made_on_as_many_nodes_as_it_needs() -> None:
    fleet = Fleet(*(node(f"n{n}", 4) for n in range(3)), quota=0)
    fleet.project("q", {"default": 12})
    for number in range(1, 4):
        fleet.submit(number, request(role(whole(4))))
        fleet.run(number)
    fleet.wait(3600)
    fleet.submit(4, asks(BY_HOST, role(whole(), 2)), project="q")
    claim = fleet.workload(4).claim
    assert claim is not None
    assert len(claim.waits_for) == 2, "one node would hold both, and they have to be apart"


def test_slices_and_spread_pools_keep_apart_as_well() -> None:
    nodes = [node(f"n{n}", 1, mig=True) for n in range(3)]
    fleet = Fleet(*nodes, profile=Profile(mig=Mig.STATIC))
    fleet.submit(1, asks(BY_HOST, role(mig_slice("1g.10gb"), 2)))
    assert not where(fleet, 1), "no slice has been made here"
    fleet = Fleet(*(node(f"n{n}", 4) for n in range(3)))
    fleet.send(events.NodePoolChanged(NodePool(1, "c1", "default", 1, gpu=Strategy.SPREAD)))
    fleet.submit(1, request(role(whole(3))))
    fleet.submit(2, asks(BY_HOST, role(whole(), 2)))
    assert sorted(where(fleet, 2)) == ["n1", "n2"], "the emptiest first"


def test_trials_and_workers_that_come_later_keep_apart() -> None:
    terms = Terms(topology=Wish(apart=BY_RACK))
    fleet = hall()
    fleet.submit(1, request(role(whole()))._replace(trials=Trials(6, 6), terms=terms))
    racks = [name[:3] for name in where(fleet, 1)]
    assert sorted(racks) == ["n00", "n01", "n10", "n11"], "the others wait until one of these has ended"
    fleet = hall()
    made = request(role(whole(), 2))._replace(stretch=Stretch("worker", 2, 8), terms=terms, spec=b"")
    fleet.submit(1, made)
    fleet.run(1)
    fleet.wait(30)
    racks = [name[:3] for name in where(fleet, 1)]
    assert sorted(racks) == ["n00", "n01", "n10", "n11"], "it has four places, however many cards are free"


def test_named_resources_are_taken_apart_as_well() -> None:
    nodes = [node(f"n{n}", 4) for n in range(3)]
    for each in nodes:
        each.extra = {"vendor.example/nic": 8}
    fleet = Fleet(*nodes)
    shape = host()._replace(extra=(("vendor.example/nic", 1),))
    fleet.submit(1, asks(BY_HOST, role(shape, 2), role(shape, 1, "other")))
    assert len(set(where(fleet, 1))) == 3
    fleet.submit(2, asks(BY_HOST, role(shape, 4)))
    assert not where(fleet, 2)
    fleet.submit(3, asks(BY_HOST._replace(required=False), role(shape, 4)))
    assert len(where(fleet, 3)) == 4
    fleet.submit(4, service(2, BY_HOST)._replace(roles=(role(shape, 2),)))
    fleet.send(events.ScaleAdvised(fleet.workload(4).id, 4))
    assert len(where(fleet, 4)) == len(set(where(fleet, 4))) == 3


def test_named_resources_that_few_nodes_have_are_left_to_the_role_that_needs_them() -> None:
    nodes = [node("n1", 1), node("n2", 2)]
    nodes[0].extra, nodes[1].extra = {"vendor.example/nic": 8, "vendor.example/key": 1}, {"vendor.example/nic": 8}
    fleet = Fleet(*nodes)
    large = role(whole()._replace(extra=(("vendor.example/nic", 1),)), 1, "a-large")
    small = role(host()._replace(extra=(("vendor.example/key", 1),)), 1, "small")
    fleet.submit(1, asks(BY_HOST, large, small))
    assert where(fleet, 1) == ["n2", "n1"], "the large role fits n1 best, and the small one nowhere else"
    fleet.submit(2, asks(BY_HOST, large, small._replace(size=2)))
    assert not where(fleet, 2)


def test_slices_of_fixed_layouts_are_left_to_the_role_that_needs_them() -> None:
    nodes = [node("n1", 1, mig=True), node("n2", 1, mig=True)]
    nodes[0].devices[0].layout = (("3g.40gb", 0), ("1g.10gb", 4))
    nodes[1].devices[0].layout = (("3g.40gb", 0),)
    fleet = Fleet(*nodes, profile=Profile(mig=Mig.STATIC))
    roles = role(mig_slice("3g.40gb"), 1, "big"), role(mig_slice("1g.10gb"), 1, "small")
    fleet.submit(1, asks(BY_HOST, *roles))
    assert where(fleet, 1) == ["n2", "n1"]
    fleet.finish(1)
    fleet.submit(2, request(roles[0]))
    assert where(fleet, 2) == ["n1"]
    fleet.submit(3, asks(BY_HOST, *roles))
    assert where(fleet, 3) == ["n2", "n1"], "nor does it matter who is there already"


@pytest.mark.parametrize(("strategy", "places"), [(Strategy.BINPACK, ["n1", "n2"]), (Strategy.SPREAD, ["n0", "n3"])])
def test_of_domains_that_would_do_those_are_taken_that_the_pool_fills_first(
    strategy: Strategy, places: list[str]
) -> None:
    nodes = [node("n0", 8), node("n1", 2), node("n2", 4), node("n3", 6)]
    for each in nodes:
        each.extra = {"vendor.example/nic": 8}
    fleet = Fleet(*nodes)
    fleet.send(events.NodePoolChanged(NodePool(1, "c1", "default", 1, gpu=strategy)))
    shape = whole()._replace(extra=(("vendor.example/nic", 1),))
    fleet.submit(1, asks(BY_HOST, role(shape, 1, "one"), role(shape, 1, "two")))
    assert sorted(where(fleet, 1)) == places


@pytest.mark.parametrize("apart", [BY_HOST, BY_RACK._replace(required=False), None])
def test_what_the_database_keeps_of_it_reads_back(apart: Apart | None) -> None:
    asked = asks(apart, role(whole(), 2), required="block")
    assert to_request(*of_request(asked), asked.spec) == asked


@pytest.mark.parametrize("kind", [WorkloadKind.INFERENCE, WorkloadKind.TRAINING])
def test_a_node_that_is_in_another_pool_by_now_still_fills_its_rack(kind: WorkloadKind) -> None:
    fleet = Fleet(at("a", "b", "r1"), at("b", "b", "r1"), at("c", "b", "r2"))
    asked = asks(BY_RACK, role(whole(2), 1))
    if kind is WorkloadKind.INFERENCE:
        asked = asked._replace(kind=kind, max_scale=3)
    else:
        asked = asked._replace(stretch=Stretch("worker", 1, 3))
    fleet.send(events.NodePoolChanged(NodePool(7, "c1", "lab", 1, label_key=HOST_LABEL, label_value="a")))
    fleet.send(events.NodePoolChanged(NodePool(7, "c1", "lab", 2, label_key="none", label_value="such")))
    fleet.submit(1, asked)
    fleet.run(1)
    (first,) = where(fleet, 1)[:1]
    fleet.send(events.NodePoolChanged(NodePool(7, "c1", "lab", 3, label_key=HOST_LABEL, label_value=first)))
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 3))
    fleet.wait(60)
    racks = {"a": "r1", "b": "r1", "c": "r2"}
    stand = [racks[name] for name in where(fleet, 1)]
    assert len(stand) == len(set(stand)), "its rack is full, whichever pool its node is in"


def test_a_request_without_roles_shares_nothing_out() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, asks(BY_RACK, role(whole()))._replace(roles=()))
    assert not fleet.workload(1).replicas, "and no exception comes out of the cycle"
