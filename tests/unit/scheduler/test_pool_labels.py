"""Which pool a node is in: the one whose label it has, else the one that its agent names; and what runs there then."""

from __future__ import annotations

from typing import Any

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_scheduler.adapters import rows
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.terms import Terms, Wish
from muster_scheduler.domain.asked.workloads import SECOND, Request, Stretch
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.turning import cycle
from tests.support.fleets import Fleet, node, request, role, whole

RACKY = NodePool(7, "c1", "racky", 1, label_key="rack", label_value="r3")


def labelled(name: str, gpus: int = 4, *, pool: str = "default", **labels: str) -> Node:
    made = node(name, gpus, pool=pool)
    made.labels = tuple(sorted(labels.items()))
    return made


def fleet(*said: NodePool, limits: Limits | None = None) -> Fleet:
    """n1 in rack r1, n2 in rack r3, and n3 in r3 too, of which its agent says another pool; quota in all pools."""
    nodes = labelled("n1", rack="r1"), labelled("n2", rack="r3"), labelled("n3", pool="old", rack="r3")
    made = Fleet(*nodes, limits=limits)
    made.project("p", dict.fromkeys(("default", "old", "racky", "a"), 100))
    made.send(*(events.NodePoolChanged(pool) for pool in said))
    return made


def pools(made: Fleet) -> dict[str, str]:
    return {each.name: each.pool for each in made.world.inventory.in_cluster("c1")}


def for_pool(pool: str, *roles: Role) -> Request:
    return request(*(roles or (role(whole()),)), pools=(pool,))


def where(made: Fleet, number: int) -> set[str]:
    return {replica.node[1] for replica in made.workload(number).everyone() if not replica.gone}


def test_a_pool_made_with_a_label_has_the_nodes_that_carry_it_and_work_for_it_starts() -> None:
    made = fleet()
    waiting = made.submit(1, for_pool("racky", role(whole(4), 2)))
    assert waiting.phase is Phase.PENDING
    made.send(events.NodePoolChanged(RACKY))
    assert pools(made) == {"n1": "default", "n2": "racky", "n3": "racky"}
    assert where(made, 1) == {"n2", "n3"}


def test_nodes_that_are_reported_later_are_in_the_pool_of_their_label() -> None:
    made = Fleet(labelled("n1", rack="r1"))
    made.send(events.NodePoolChanged(RACKY), events.NodePoolChanged(RACKY._replace(id=8, cluster="c2")))
    made.inventory("c1", [labelled("n1", rack="r3"), labelled("n2", pool="old"), labelled("n3", pool="racky")])
    assert pools(made) == {"n1": "racky", "n2": "old", "n3": "racky"}
    made.inventory("c1", [labelled("n1", pool="old", rack="r1")])
    assert pools(made) == {"n1": "old"}


def test_where_two_labels_fit_the_first_pool_by_name_takes_the_node() -> None:
    made = fleet(RACKY, NodePool(8, "c1", "a", 1, label_key="kubernetes.io/hostname", label_value="n3"))
    assert pools(made) == {"n1": "default", "n2": "racky", "n3": "a"}


def test_another_label_takes_other_nodes_and_a_removed_pool_leaves_them_to_what_their_agent_says() -> None:
    made = fleet(RACKY)
    made.send(events.NodePoolChanged(RACKY._replace(version=2, label_value="r1")))
    assert pools(made) == {"n1": "racky", "n2": "default", "n3": "old"}
    made.send(events.NodePoolChanged(RACKY))
    assert pools(made)["n2"] == "default", "an older word changes nothing"
    made.send(events.NodePoolRemoved(7))
    assert pools(made) == {"n1": "default", "n2": "default", "n3": "old"}


def test_a_pool_of_the_name_that_is_made_anew_has_its_own_label() -> None:
    made = fleet(RACKY, RACKY._replace(id=9, label_value="r1"))
    assert pools(made) == {"n1": "racky", "n2": "default", "n3": "old"}
    made.send(events.NodePoolRemoved(7))
    assert pools(made)["n1"] == "racky"
    made.send(events.NodePoolRemoved(9))
    assert pools(made)["n1"] == "default"


def test_where_the_last_of_a_name_had_no_label_the_one_before_has_its_nodes_back_when_it_is_removed() -> None:
    made = fleet(RACKY, RACKY._replace(id=9, label_key="", label_value=""))
    assert pools(made) == {"n1": "default", "n2": "default", "n3": "old"}
    made.send(events.NodePoolRemoved(9))
    assert pools(made) == {"n1": "default", "n2": "racky", "n3": "racky"}


def test_a_number_that_comes_with_another_name_is_the_pool_of_that_name_alone() -> None:
    made = fleet(RACKY)
    made.send(events.NodePoolChanged(RACKY._replace(version=2, name="a", label_value="r1")))
    assert pools(made) == {"n1": "a", "n2": "default", "n3": "old"}
    made.send(events.NodePoolChanged(RACKY._replace(version=3, cluster="c2")))
    assert pools(made)["n1"] == "default"
    assert made.world.pools.labels("c1") == ()


def test_an_abort_a_row_and_another_order_end_in_the_same_pools() -> None:
    made = fleet()
    made.submit(1, for_pool("default", role(whole(4), 2)))
    before = made.state.digest()
    made.state.begin(made.now)
    made.state.apply(events.NodePoolChanged(RACKY))
    assert sorted(made.state.plan().touched.nodes) == [("c1", "n2"), ("c1", "n3")]
    made.state.abort()
    assert (made.state.digest(), pools(made)["n2"]) == (before, "default")
    made.send(events.NodePoolChanged(RACKY))
    moved = made.world.inventory.nodes["c1", "n3"]
    read = rows.to_node("c1", "n3", rows.of_node(moved))
    assert (read.pool, read.said) == ("racky", "old")
    assert rows.to_node_pool(7, rows.of_node_pool(RACKY)) == RACKY
    other = Fleet()
    other.send(events.NodePoolChanged(RACKY))
    other.inventory("c1", [labelled("n2", rack="r3"), labelled("n3", pool="old", rack="r3"), labelled("n1", rack="r1")])
    assert pools(other) == pools(made)


def test_what_runs_on_a_node_that_moves_stays_and_what_it_gives_back_is_offered_in_the_new_pool() -> None:
    made = fleet()
    made.submit(1, for_pool("default", role(whole(4), 2)))
    made.run(1)
    made.send(events.NodePoolChanged(RACKY))
    assert (where(made, 1), made.workload(1).pool) == ({"n1", "n2"}, "default")
    assert made.world.queues.account("p", "default").allocated == 2 * 4 * GPU
    made.submit(2, for_pool("racky", role(whole(4), 2)))
    made.submit(3, for_pool("default", role(whole(4))))
    assert (where(made, 2), where(made, 3)) == (set(), set())
    made.send(events.DeletionRequested("e", made.workload(1).id))
    made.gone(1)
    assert (where(made, 2), where(made, 3)) == ({"n2", "n3"}, {"n1"})


def test_who_ran_on_a_node_before_it_moved_is_named_to_who_waits_for_it() -> None:
    made = fleet()
    made.submit(1, for_pool("default", role(whole(4), 2)))
    made.run(1)
    made.send(events.NodePoolChanged(RACKY))
    made.submit(2, for_pool("racky", role(whole(4), 2)))
    (told,) = explain(made.world, made.workload(2)).unblockers
    assert told.endswith("(8 GPUs, preemptible, Running) ended")


def test_a_node_that_takes_work_again_wakes_the_pool_in_which_it_is_then() -> None:
    made = fleet(limits=Limits(reserves=False))
    closed = labelled("n2", rack="r3")
    closed.windows = ((made.now - 60 * SECOND, made.now + 8 * SECOND),)
    made.inventory("c1", [labelled("n1", rack="r1"), closed])
    made.send(events.NodePoolChanged(RACKY))
    made.submit(1, for_pool("racky"))
    made.wait(4)
    assert where(made, 1) == set()
    made.wait(5)
    assert where(made, 1) == {"n2"}


def test_a_replica_that_is_made_anew_is_not_put_apart_from_those_that_moved() -> None:
    made = fleet()
    asked = for_pool("default", role(whole(2), 2))._replace(terms=Terms(topology=Wish(required="rack")))
    made.submit(1, asked._replace(stretch=Stretch("worker", 2, 3)))
    made.run(1)
    assert len(where(made, 1)) == 1
    moved = where(made, 1).pop()
    rack = made.world.inventory.nodes["c1", moved].label("rack")
    made.send(events.NodePoolChanged(RACKY._replace(label_value=rack)))
    made.wait(3600)
    made.wait(3600)
    assert where(made, 1) == {moved}


def stretched() -> Fleet:
    """An elastic gang that stands on all three nodes of the default pool, two of which are in rack r3."""
    made = Fleet(labelled("n1", 2, rack="r1"), labelled("n2", 2, rack="r3"), labelled("n3", 2, rack="r3"))
    made.project("p", {"default": 100, "racky": 100})
    made.submit(1, for_pool("default", role(whole(2)))._replace(stretch=Stretch("worker", 1, 3)))
    made.run(1)
    for _ in range(4):
        made.wait(31)
        made.run(1)
    assert where(made, 1) == {"n1", "n2", "n3"}
    return made


def test_what_a_gang_can_do_without_in_another_pool_helps_nobody_here() -> None:
    made = stretched()
    made.send(events.NodePoolChanged(RACKY))
    made.submit(2, for_pool("default", role(whole(2)))._replace(priority=75))
    assert len(made.workload(1).surplus()) == 2


@pytest.mark.parametrize("before", [True, False])
def test_what_a_gang_can_do_without_on_a_node_that_has_moved_is_given_up_for_its_new_pool(*, before: bool) -> None:
    made = stretched()
    if before:
        made.submit(2, for_pool("racky", role(whole(2)))._replace(preemptible=False))
    made.send(events.NodePoolChanged(RACKY))
    if not before:
        made.submit(2, for_pool("racky", role(whole(2)))._replace(preemptible=False))
    assert made.workload(2).claim is not None
    assert len(made.workload(1).surplus()) == 1


def test_what_is_given_back_on_a_node_that_has_moved_tries_nobody_in_its_old_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, tried, decide = fleet(), [], cycle.decide

    def noting(world: Any, workload: Any, *more: Any) -> None:
        tried.append(workload.id)
        decide(world, workload, *more)

    for number in (1, 2):
        made.submit(number, for_pool("default", role(whole(4)))._replace(preemptible=False))
        made.run(number)
    made.send(events.NodePoolChanged(RACKY))
    made.submit(3, for_pool("default", role(whole(4)))._replace(preemptible=False))
    monkeypatch.setattr(cycle, "decide", noting)
    made.finish(next(number for number in (1, 2) if where(made, number) == {"n2"}))
    assert tried == []
    made.finish(next(number for number in (1, 2) if where(made, number) == {"n1"}))
    assert (set(tried), where(made, 3)) == ({made.workload(3).id}, {"n1"})


@pytest.mark.parametrize("value", ["", "r9"])
def test_a_label_that_no_node_has_moves_nothing(value: str) -> None:
    made = fleet(RACKY._replace(label_key="rack" if value else "", label_value=value))
    assert pools(made) == {"n1": "default", "n2": "default", "n3": "old"}
