"""How a node pool is filled: people say it, the books keep it, placement does it."""

from __future__ import annotations

import pytest

from muster_scheduler.adapters import rows
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.columns import NodeType
from muster_scheduler.domain.fleet.nodes import Mig
from muster_scheduler.domain.placement.ahead import warm_up
from muster_scheduler.domain.strategies.mix import MOST, Member, mix_of, popularity_in
from muster_scheduler.domain.strategies.popularity import Asked
from muster_scheduler.domain.strategies.scores import best
from tests.support.fleets import (
    GIB,
    Fleet,
    device_memory,
    host,
    mig_slice,
    node,
    portion,
    request,
    role,
    whole,
    workload_id,
)

SPREAD = NodePool(7, "c1", "default", 1, Strategy.SPREAD, Strategy.SPREAD)


def fleet(*said: NodePool, profile: Profile | None = None) -> Fleet:
    made = Fleet(*(node(f"n{number}", 4) for number in range(3)), profile=profile)
    made.send(*(events.NodePoolChanged(pool) for pool in said))
    return made


def nodes_of(made: Fleet, *numbers: int) -> list[str]:
    return sorted(replica.node[1] for number in numbers for replica in made.workload(number).replicas.values())


@pytest.mark.parametrize("shape", [whole(), portion(300), host()])
def test_a_pool_of_which_nothing_was_said_packs(shape: Shape) -> None:
    made = fleet()
    for number in range(3):
        made.submit(number, request(role(shape)))
    assert nodes_of(made, 0, 1, 2) == ["n0", "n0", "n0"]


@pytest.mark.parametrize("shape", [whole(), portion(300)])
def test_a_pool_that_spreads_takes_the_emptiest_node(shape: Shape) -> None:
    made = fleet(SPREAD)
    for number in range(3):
        made.submit(number, request(role(shape)))
    assert nodes_of(made, 0, 1, 2) == ["n0", "n1", "n2"]


def test_work_without_devices_follows_the_strategy_for_it() -> None:
    made = fleet(SPREAD._replace(cpu=Strategy.BINPACK))
    made.submit(0, request(role(whole(2))))
    made.submit(1, request(role(host())))
    assert nodes_of(made, 1) == ["n0"], "beside the node's other work"
    made.send(events.NodePoolChanged(SPREAD._replace(version=2)))
    made.submit(2, request(role(host())))
    assert nodes_of(made, 2) == ["n1"]


@pytest.mark.parametrize("mig", [Mig.DYNAMIC, Mig.NONE])
def test_the_replicas_of_a_gang_are_spread_too(mig: Mig) -> None:
    made = fleet(SPREAD, profile=Profile(mig=mig))
    made.submit(0, request(role(whole(), 3)))
    assert nodes_of(made, 0) == ["n0", "n1", "n2"]


def test_an_older_word_changes_nothing_and_a_removed_pool_packs_again() -> None:
    made = fleet(SPREAD._replace(version=3))
    made.send(events.NodePoolChanged(NodePool(7, "c1", "default", 2)))
    assert made.world.pools.named("c1", "default") == SPREAD._replace(version=3)
    made.send(events.NodePoolRemoved(7))
    made.send(events.NodePoolRemoved(8))
    assert made.world.pools.named("c1", "default").gpu is Strategy.BINPACK
    assert made.world.pools.known == {}


def test_a_pool_made_anew_under_the_name_outlives_the_old_one() -> None:
    made = fleet(SPREAD, SPREAD._replace(id=8))
    made.send(events.NodePoolRemoved(7))
    assert made.world.pools.named("c1", "default") == SPREAD._replace(id=8)


def test_a_name_stands_for_the_pool_made_last_in_whatever_order_they_are_told() -> None:
    made, other = fleet(SPREAD._replace(id=8), SPREAD), fleet(SPREAD, SPREAD._replace(id=8))
    assert made.world.pools.named("c1", "default").id == other.world.pools.named("c1", "default").id == 8
    made.send(events.NodePoolRemoved(8))
    assert made.world.pools.named("c1", "default").id == 7


def test_a_pool_is_part_of_the_truth() -> None:
    made = fleet()
    before = made.state.digest()
    made.state.begin(made.now)
    made.state.apply(events.NodePoolChanged(SPREAD))
    assert made.state.digest() != before
    assert list(made.state.plan().touched.pools) == [7]
    made.state.abort()
    assert made.state.digest() == before
    assert rows.to_node_pool(7, rows.of_node_pool(SPREAD)) == SPREAD


# -- strategies that look ahead --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "meant"), [(Strategy.BINPACK, "n0"), (Strategy.FGD, "n1"), (Strategy.FORESIGHT, "n1")]
)
@pytest.mark.parametrize("second", [portion(400), device_memory(32 * GIB)], ids=["portion", "memory"])
def test_a_pool_that_looks_ahead_keeps_the_holes_that_usual_requests_fill(
    strategy: Strategy, meant: str, second: Shape
) -> None:
    """Halves are left on n0 and 0.6 on n1, and what comes is halves: 0.1 on n0 would spoil a hole for one of them."""
    made = Fleet(node("n0", 1), node("n1", 1))
    made.project("q", {"default": 0}, weight=0)
    made.send(events.NodePoolChanged(SPREAD))
    made.submit(0, request(role(portion(500))))
    made.submit(1, request(role(second)))
    made.send(*(made.admitted(number, request(role(portion(500))), project="q") for number in range(2, 42)))
    made.send(events.NodePoolChanged(SPREAD._replace(version=2, gpu=strategy)))
    made.submit(42, request(role(portion(100))))
    assert nodes_of(made, 0, 1) == ["n0", "n1"]
    assert nodes_of(made, 42) == [meant]


@pytest.mark.parametrize("strategy", [Strategy.FGD, Strategy.FORESIGHT])
def test_a_card_shared_by_memory_is_given_to_nobody_whole(strategy: Strategy) -> None:
    made = Fleet(node("n0", 2), quota=3)
    made.send(events.NodePoolChanged(SPREAD._replace(gpu=strategy)))
    made.submit(0, request(role(whole())))  # what usually arrives
    made.finish(0)
    made.submit(1, request(role(device_memory(1))))
    made.submit(2, request(role(whole())))
    made.submit(3, request(role(portion(990))))
    (shared,), (alone,) = (used(made, number) for number in (1, 2))
    assert shared != alone
    assert used(made, 3) == [shared], "a byte less than all of it leaves 999 thousandths"
    made.finish(3)
    made.submit(4, request(role(whole())))
    assert not used(made, 4)


def used(made: Fleet, number: int) -> list[str]:
    return [share.device for each in made.workload(number).everyone() for share in each.grant.shares]


def test_what_usually_arrives_is_looked_at_again_after_a_while() -> None:
    made = Fleet(node("n0", 8))
    made.send(events.NodePoolChanged(SPREAD._replace(gpu=Strategy.FORESIGHT)))
    made.submit(0, request(role(portion(400))))
    made.submit(1, request(role(portion(300))))
    assert mixed(made) == {400: 1}, "the first that came"
    made.submit(2, request(role(portion(300))))
    made.wait(61)
    made.send(events.NodePoolChanged(SPREAD._replace(version=2, gpu=Strategy.FORESIGHT)))
    assert mixed(made) == {300: 2, 400: 1}
    pool = made.world.pools.named("c1", "default")
    assert rows.to_node_pool(pool.id, rows.of_node_pool(pool)) == pool


def test_when_a_mix_is_renewed_does_not_depend_on_who_is_tried() -> None:
    """A class that is blocked is not tried; one who has just read the state back tries it."""
    made, twin = looking_ahead(), looking_ahead()
    for each in (made, twin):
        each.submit(0, request(role(whole(8))))
        each.submit(1, request(role(whole())))
        for _ in range(5):
            each.wait(11)
    twin.world.waiting.wake_all()
    made.wait(11)
    twin.wait(11)
    assert made.world.pools.known[7].mixed == made.now
    assert made.state.digest() == twin.state.digest()


def test_asking_what_would_fit_an_idle_pool_leaves_its_mix_alone() -> None:
    """The answer is kept, so that a second try did not ask: what the question left behind stood in one truth alone."""
    made, twin = looking_ahead(), looking_ahead()
    for each in (made, twin):
        each.state.begin(each.now)
        each.state.apply(each.admitted(1, request(role(mig_slice("1g.10gb")))))
        each.state.propose()
        if each is made:
            each.state.abort()
            each.submit(1, request(role(mig_slice("1g.10gb"))))
        else:
            each.state.commit()
    assert made.state.digest() == twin.state.digest()


def test_a_class_is_counted_when_the_first_of_it_has_left() -> None:
    made = looking_ahead()
    made.submit(0, request(role(whole(8)), preemptible=False))
    for number in (1, 2):
        made.submit(number, request(role(whole(2))))
    made.send(events.DeletionRequested("e", workload_id(1)))
    made.state.begin(made.now + 15 * 24 * 3600 * SECOND)
    made.state.world.retire()
    made.state.commit()
    assert workload_id(1) not in made.world.workloads
    made.now += 15 * 24 * 3600 * SECOND
    made.send()
    assert {(each.asked.devices, each.number) for each in made.world.pools.known[7].mix} == {(8, 1), (2, 1)}


def looking_ahead() -> Fleet:
    made = Fleet(node("n0", 8))
    made.send(events.NodePoolChanged(SPREAD._replace(gpu=Strategy.FORESIGHT)))
    return made


def mixed(made: Fleet) -> dict[int, int]:
    return {member.asked.milli: member.number for member in made.world.pools.named("c1", "default").mix}


def test_a_mix_keeps_the_commonest_classes_and_the_node_types_they_may_use() -> None:
    shapes = [(portion(10 * (number % 90) + 10), None, 1) for number in range(300)]
    made = mix_of([*shapes, (whole(2), frozenset({"b", "a"}), 5), (mig_slice("1g.10gb"), None, 9)])
    assert Member(Asked(1000, GIB, 2, 1000), ("a", "b"), 5) in made
    assert len(made) == 91
    many = mix_of([(host(cpu), None, 1) for cpu in range(1, 400)])
    assert len(many) == MOST
    types = (NodeType("A100", (), ()), NodeType("a", (), ()), NodeType("A100", (("run.ai/type", "b"),), ()))
    assert popularity_in(made, types).admits[-1].tolist() == [False, True, True]


@pytest.mark.parametrize("strategy", [Strategy.FGD, Strategy.FORESIGHT])
@pytest.mark.parametrize(
    "shape", [whole(2), portion(300), portion(300, 2), host(), device_memory(GIB), mig_slice("1g.10gb")]
)
def test_whatever_is_asked_for_finds_its_place_in_a_pool_that_looks_ahead(strategy: Strategy, shape: Shape) -> None:
    made = Fleet(node("n0", 2), node("n1", 2, mig=shape.kind is Kind.SLICE))
    made.send(events.NodePoolChanged(SPREAD._replace(gpu=strategy, cpu=strategy)))
    made.submit(0, request(role(shape)))
    assert len(nodes_of(made, 0)) == 1
    made.finish(0)
    made.submit(1, request(role(shape, 2)))
    assert len(nodes_of(made, 1)) == 2


def test_warming_up_compiles_what_placement_calls() -> None:
    warm_up()
    compiled = getattr(best, "signatures", None)
    made = Fleet(node("n0", 2))
    for strategy in (Strategy.FGD, Strategy.FORESIGHT):
        made.send(events.NodePoolChanged(SPREAD._replace(version=0, gpu=strategy)))
        made.submit(len(made.world.workloads), request(role(portion(300))))
    assert getattr(best, "signatures", None) == compiled, "something was compiled while it decided"
    assert len(made.world.workloads) == 2
