"""Gangs that wish to be close together, through the whole machine: where they go, and why they wait."""

from __future__ import annotations

from muster_kernel.reasons import FailureClass, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.terms import HOST_LABEL, Terms, Together, Wish
from muster_scheduler.domain.asked.workloads import ReplicaState, Request, WorkloadKind
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Device, Mig
from tests.support.asking import waits, where, why
from tests.support.fleets import GIB, Fleet, host, mig_slice, node, portion, request, role, whole
from tests.support.halls import at, hall


def asks(size: int, wish: Wish, *more: object) -> Request:
    roles = (role(whole(), size), *more)
    return request(*roles)._replace(terms=Terms(topology=wish))  # type: ignore[arg-type]


def test_a_gang_fills_a_rack_and_its_ranks_follow_the_nodes() -> None:
    fleet = hall()
    fleet.submit(1, asks(12, Wish(required="block", preferred="rack")))
    assert where(fleet, 1) == ["n000"] * 8 + ["n001"] * 4
    fleet.submit(2, asks(5, Wish(preferred="rack")))
    assert set(where(fleet, 2)) == {"n010"}, "what no rest holds takes the next rack"
    fleet.submit(3, asks(4, Wish(required="rack")))
    assert set(where(fleet, 3)) == {"n001"}, "the fullest rack that holds it"


def test_whoever_asks_for_no_replica_is_close_to_nothing_and_holds_up_nobody() -> None:
    fleet = hall()
    fleet.submit(1, request()._replace(roles=(), terms=Terms(topology=Wish(required="block"))))
    fleet.submit(2, asks(0, Wish(required="block")))
    fleet.submit(3, asks(2, Wish(required="block")))
    assert [where(fleet, number) for number in (1, 2, 3)] == [[], [], ["n000"] * 2]


def test_a_gang_that_no_block_can_ever_hold_is_told_so() -> None:
    fleet = hall()
    fleet.submit(1, asks(33, Wish(required="block")))
    assert not where(fleet, 1)
    code, sentence = waits(fleet, 1)
    assert code is WaitingReason.TOO_LARGE_FOR_DOMAIN
    assert sentence == (
        "its 33 replicas have to run close together, and no domain of that level holds them, even if idle; "
        "the best has room for 32"
    )
    fleet.submit(2, asks(33, Wish(preferred="block")))
    assert len(where(fleet, 2)) == 33


def test_a_gang_whose_racks_are_taken_now_starts_when_one_is_free() -> None:
    fleet = hall()
    for number in range(1, 9):
        fleet.submit(number, request(role(whole(6)), preemptible=False))
    fleet.submit(9, asks(5, Wish(required="rack")))
    code, sentence = waits(fleet, 9)
    assert code is WaitingReason.TOPOLOGY
    assert sentence == (
        "its 5 replicas would fit, but not as close together as required; the best domain has room for 4"
    )
    fleet.finish(3)
    assert {name[:3] for name in where(fleet, 9)} == {where_was(3)}


def where_was(number: int) -> str:
    """The rack of the node that the n-th of eight equal workloads filled: two nodes a rack, in order of name."""
    return ("n00", "n00", "n01", "n01", "n10", "n10", "n11", "n11")[number - 1]


def test_a_level_that_no_node_has_is_the_reason() -> None:
    fleet = hall()
    fleet.submit(1, asks(2, Wish(required="zone")))
    assert waits(fleet, 1)[0] is WaitingReason.NO_SUCH_LEVEL
    told = why(fleet, 1).unblockers
    assert told == (
        "it preferred one zone instead of requiring it",
        "nodes of node pool default had the label zone, one value for all that it needs",
    ), "not that it had fewer replicas: with one alone it waits as well"
    fleet.submit(2, asks(1, Wish(required="zone")))
    assert why(fleet, 2).unblockers == told
    labelled = [node("n1", 8), node("n2", 8)]
    for each in labelled:
        each.labels = (("zone", "z"),)
    fleet.inventory("c1", labelled)
    assert fleet.workload(1).replicas


def test_uneven_groups_are_the_reason() -> None:
    fleet = hall()
    fleet.submit(1, asks(6, Wish(group="rack", group_size=4)))
    assert waits(fleet, 1) == (WaitingReason.UNEVEN_GROUPS, "6 replicas do not divide into groups of 4")


def test_roles_smaller_than_a_group_do_not_ask_for_its_level() -> None:
    fleet = Fleet(node("flat", 4))
    fleet.submit(1, asks(1, Wish(group="rack", group_size=2)))
    fleet.submit(2, asks(2, Wish(group="rack", group_size=2)))
    assert where(fleet, 1) == ["flat"]
    assert waits(fleet, 2)[0] is WaitingReason.NO_SUCH_LEVEL


def test_affinity_is_the_wish_where_no_topology_is_said() -> None:
    fleet = hall()
    terms = Terms(together=Together("rack", required=True), topology=Wish(preferred="block"))
    fleet.submit(1, request(role(whole(), 16))._replace(terms=terms))
    assert {name[:3] for name in where(fleet, 1)} == {"n00"}
    fleet.submit(2, request(role(whole(), 17))._replace(terms=terms))
    assert not where(fleet, 2)


def test_roles_of_different_shape_share_the_block() -> None:
    fleet = hall()
    wish = Wish(required="block")
    fleet.submit(1, asks(16, wish, role(host(), 1, "launcher"), role(portion(500), 4, "evaluator")))
    assert len(where(fleet, 1)) == 21
    assert {name[:2] for name in where(fleet, 1)} == {"n0"}


def test_nodes_that_are_not_gladly_given_come_last() -> None:
    shy = node("a", 8)
    shy.taints = (("maintenance", "soon", "PreferNoSchedule"),)
    fleet = Fleet(shy, node("b", 8))
    fleet.submit(1, request(role(whole(), 6)))
    assert set(where(fleet, 1)) == {"b"}
    fleet.submit(2, request(role(whole(), 6)))
    assert sorted(where(fleet, 2)) == ["a"] * 4 + ["b"] * 2


def test_a_gang_keeps_off_nodes_that_it_may_not_use() -> None:
    closed = node("a", 8)
    closed.taints = (("dedicated", "others", "NoSchedule"),)
    fleet = Fleet(closed, node("b", 4))
    fleet.submit(1, request(role(whole(), 4)))
    assert set(where(fleet, 1)) == {"b"}
    fleet.submit(2, request(role(whole(), 4)))
    assert not where(fleet, 2)


def service(size: int, wish: Wish) -> Request:
    asked = request(role(whole(4), size), kind=WorkloadKind.INFERENCE, max_scale=6)
    return asked._replace(terms=Terms(topology=wish))


def test_a_service_that_grows_stays_in_its_rack() -> None:
    fleet = hall()
    fleet.submit(1, service(2, Wish(required="rack")))
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 4))
    assert {name[:3] for name in where(fleet, 1)} == {"n00"}
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 5))
    assert len(where(fleet, 1)) == 4, "the rack is full"


def test_a_service_that_prefers_its_rack_grows_beyond_it() -> None:
    fleet = hall()
    fleet.submit(1, service(3, Wish(preferred="rack")))
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 5))
    assert sorted(name[:3] for name in where(fleet, 1)) == ["n00"] * 4 + ["n01"]


def test_a_replica_joins_its_group() -> None:
    fleet = hall()
    fleet.submit(1, service(4, Wish(group="rack", group_size=2)))
    before = where(fleet, 1)
    fleet.run(1)
    lost = fleet.status(1, ReplicaState.FAILED, rank=3, gone=True, failure=FailureClass.INFRASTRUCTURE)
    fleet.send(lost)
    for _ in range(10):
        fleet.wait(30)
    assert fleet.workload(1).replicas["worker", 3].holder.k == 1, "it was replaced"
    assert [name[:3] for name in where(fleet, 1)] == [name[:3] for name in before]
    assert before[2][:3] == before[3][:3]


def levelled(*levels: str, version: int = 1) -> events.NodePoolChanged:
    return events.NodePoolChanged(NodePool(1, "c1", "default", version, levels=levels))


def twins() -> Fleet:
    """Two blocks whose racks have the same names."""
    return Fleet(*(at(f"n{b}{r}", f"b{b}", f"r{r}") for b in range(2) for r in range(2)))


def test_a_pools_levels_tell_racks_of_one_name_apart() -> None:
    fleet = twins()
    fleet.send(levelled("block", "rack"))
    fleet.submit(1, asks(9, Wish(required="rack")))
    code, sentence = waits(fleet, 1)
    assert code is WaitingReason.TOO_LARGE_FOR_DOMAIN
    assert sentence.endswith("the best has room for 8")
    fleet.send(levelled(version=2))
    assert {name[2] for name in where(fleet, 1)} == {"0"}, "without levels a rack is what has the label's value"


def test_what_no_rack_holds_stays_in_the_block_that_the_pool_knows() -> None:
    fleet = twins()
    fleet.send(levelled("block", "rack"))
    fleet.submit(1, asks(12, Wish(preferred="rack")))
    assert {name[:2] for name in where(fleet, 1)} == {"n0"}


def test_a_pools_levels_are_for_wishes_that_name_them() -> None:
    pool = NodePool(1, "c1", "default", 1, levels=("block", "rack"))
    assert pool.levels_for(Wish()) == ()
    assert pool.levels_for(Wish(required="rack")) == ("block", "rack")
    assert pool.levels_for(Wish(required="zone", preferred="rack")) == ("zone", "rack")
    assert pool.levels_for(Wish("rack", HOST_LABEL)) == ("block", "rack", HOST_LABEL)


def test_a_gang_in_a_pool_that_spreads_is_spread() -> None:
    fleet = hall()
    fleet.send(events.NodePoolChanged(NodePool(1, "c1", "default", 1, gpu=Strategy.SPREAD)))
    fleet.submit(1, request(role(whole(), 8)))
    assert len(set(where(fleet, 1))) == 8


def test_what_columns_do_not_know_keeps_the_wish_too() -> None:
    made = [at(f"n{rack}{n}", "b", f"r{rack}") for rack in range(2) for n in range(2)]
    for each in made:
        each.extra = {"nic": 2}
    fleet = Fleet(*made)
    shape = whole(1)._replace(extra=(("nic", 1),))
    for number, wish in enumerate((Wish(required="rack"), Wish(preferred="rack"), Wish("b", "", "rack", 2)), 1):
        asked = request(role(shape, 2))._replace(terms=Terms(topology=wish))
        fleet.submit(number, asked)
    assert [len({name[:2] for name in where(fleet, number)}) for number in (1, 2)] == [1, 1]
    assert not where(fleet, 3), "no node has the label b"
    fleet.submit(4, request(role(shape, 5))._replace(terms=Terms(topology=Wish(required="rack"))))
    assert not where(fleet, 4)
    fleet.submit(5, request(role(shape, 4))._replace(terms=Terms(topology=Wish(group="rack", group_size=2))))
    assert {name[:2] for name in where(fleet, 5)} == {"n1"}


def test_layouts_that_are_fixed_keep_the_wish_too() -> None:
    made = []
    for rack in range(2):
        for n in range(2):
            card = Device(f"GPU-{rack}{n}", "A100-80GB", 80 * GIB, 0, mig=True, layout=(("3g.40gb", 0), ("3g.40gb", 4)))
            each = node(f"n{rack}{n}", cards=[card])
            each.labels = (("rack", f"r{rack}"),)
            made.append(each)
    fleet = Fleet(*made, profile=Profile(mig=Mig.STATIC))
    for number in (1, 2):
        fleet.submit(number, request(role(mig_slice("3g.40gb"), 3))._replace(terms=Terms(topology=Wish("rack"))))
    assert [{name[:2] for name in where(fleet, number)} for number in (1, 2)] == [{"n0"}, {"n1"}]
    fleet.submit(3, request(role(mig_slice("3g.40gb"), 2))._replace(terms=Terms(topology=Wish("rack"))))
    assert not where(fleet, 3)
    fleet.submit(4, request(role(mig_slice("3g.40gb"), 2))._replace(terms=Terms(topology=Wish("", "rack"))))
    assert len(where(fleet, 4)) == 2


def test_why_says_that_a_wish_would_do() -> None:
    fleet = hall()
    fleet.submit(1, asks(33, Wish(required="block")))
    helps = why(fleet, 1).unblockers
    assert helps == ("it preferred one block instead of requiring it", "it had at most 32 replicas")
    fleet.submit(2, request(role(whole(), 40), preemptible=False))
    helps = why(fleet, 1).unblockers
    assert helps[0] == "it preferred one block instead of requiring it, and there was room"
    assert where(fleet, 1) == []
