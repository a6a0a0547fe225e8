"""How a node pool is filled: people say it, the books keep it, placement does it."""

from __future__ import annotations

import pytest

from muster_scheduler.adapters import rows
from muster_scheduler.domain import events
from muster_scheduler.domain.clusters import Profile
from muster_scheduler.domain.nodes import Mig
from muster_scheduler.domain.pools import NodePool, Strategy
from muster_scheduler.domain.requests import Shape
from tests.support.fleets import Fleet, host, node, portion, request, role, whole

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
