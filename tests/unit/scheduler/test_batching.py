"""A batch of heads: what it takes, what it leaves to the cycle, and that all of it is undone together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quotas import Line, ModelQuota, Quota
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.rules import NodeTypes
from muster_scheduler.domain.asked.workloads import SECOND, Stretch, Trials
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.queues import Department
from muster_scheduler.domain.deciding.batch import RETIRES, WAITS, Heads, decide
from muster_scheduler.domain.deciding.bitmaps import fill
from muster_scheduler.domain.deciding.index import index_of
from muster_scheduler.domain.deciding.shapes import Terms, row_of
from muster_scheduler.domain.decisions import Assign, Burst, PhaseChange, Placed, tally
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.columns import columns_of
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.turning.batching import Batch, Pace
from muster_scheduler.domain.turning.forest import forest_of
from muster_scheduler.domain.turning.turns import Turns
from tests.support.fleets import GIB, START, Fleet, host, node, portion, request, role, whole, workload_id
from tests.support.trees import tree

HOUR = 3_600 * SECOND


def waiting(fleet: Fleet, number: int, shape: Shape, first: int = 0) -> None:
    """Admits workloads of one replica in a transaction that places nothing."""
    fleet.state.begin(fleet.now)
    for each in range(first, first + number):
        fleet.state.apply(fleet.admitted(each, request(role(shape))))
    fleet.state.plan()
    fleet.state.commit()


def batched(fleet: Fleet, most: int) -> int:
    """One batch in a transaction that is left open; how many it placed."""
    fleet.state.begin(fleet.now)
    turns = Turns(fleet.world)
    assert turns.next() is not None
    batch = Batch(fleet.world, "default", turns.competing("default"), most)
    placed = batch.decide(turns.standing("default"), Budget())
    batch.write(placed)
    return len(placed)


@pytest.mark.parametrize("shape", [host(), whole(1), portion(250)])
def test_a_batch_places_many_and_an_abort_takes_all_of_it_back(shape: Shape) -> None:
    fleet = Fleet(node("n1", 8), node("n2", 8))
    waiting(fleet, 12, shape)
    before = fleet.state.digest()
    assert batched(fleet, 10) == 10
    fleet.state.abort()
    fleet.state.check()
    assert fleet.state.digest() == before
    assert batched(fleet, 100) == 12
    fleet.state.plan()
    fleet.state.commit()
    fleet.state.check()
    assert all(fleet.workload(each).phase is not Phase.PENDING for each in range(12))
    assert len(fleet.world.waiting) == 0


def test_what_a_batch_decides_is_one_value_that_stands_for_all_that_each_placement_tells() -> None:
    fleet = Fleet(node("n1", 8))
    waiting(fleet, 3, host())
    assert batched(fleet, 10) == 3
    plan = fleet.state.plan()
    (burst,) = plan.taken
    assert isinstance(burst, Burst)
    assert burst.workloads == tuple(workload_id(each) for each in range(3))
    assert [type(one) for one in plan.decisions] == [Placed, PhaseChange, Assign] * 3
    moved = 1, Phase.PENDING, Phase.INITIALIZING, DesiredPhase.RUNNING, ChangeReason.PLACED, ""
    second, now = workload_id(1), fleet.now
    assert plan.decisions[3:6] == (Placed(second, now), PhaseChange(second, *moved, now), Assign("c1", second))


def test_decisions_are_counted_as_if_each_were_told_alone() -> None:
    fleet = Fleet(node("a", 8))
    fleet.state.begin(fleet.now)
    for number in range(1, 7):
        fleet.state.apply(fleet.admitted(number))
    fleet.state.propose()
    plan = fleet.state.plan()
    assert any(isinstance(one, Burst) for one in plan.taken)
    assert tally(plan.taken) == Counter(type(decision).__name__ for decision in plan.decisions)


def test_a_batch_ends_before_the_first_that_finds_no_place_and_the_cycle_goes_on() -> None:
    fleet = Fleet(node("n1", 4))
    waiting(fleet, 6, whole(1))
    assert batched(fleet, 100) == 4
    fleet.state.propose()
    fleet.state.plan()
    fleet.state.commit()
    fleet.state.check()
    assert [fleet.workload(each).active for each in range(6)] == [True] * 4 + [False] * 2
    assert fleet.world.waiting.reason(workload_id(5)) is not None


@pytest.mark.parametrize(("hours", "placed"), [(0, 4), (2, 1)])
def test_a_node_that_is_to_be_empty_soon_takes_nothing_by_then_whatever_was_known_before(
    hours: int, placed: int
) -> None:
    closing = node("n1", 8)
    closing.windows = ((START + 7 * HOUR, START + 8 * HOUR),)
    fleet = Fleet(closing, node("n2", 1))
    waiting(fleet, 4, whole(1))
    assert batched(fleet, 10) == 4
    fleet.state.abort()
    fleet.now += hours * HOUR
    fleet.state.begin(fleet.now)
    fleet.state.apply(fleet.heartbeat("c1"))
    fleet.state.plan()
    fleet.state.commit()
    assert batched(fleet, 10) == placed
    fleet.state.abort()


def test_what_takes_more_than_one_search_is_left_to_the_cycle() -> None:
    fleet = Fleet(node("n1", 8))
    fleet.state.begin(fleet.now)
    fleet.state.apply(fleet.admitted(1, request(role(whole(1)))))
    fleet.state.apply(fleet.admitted(2, request(role(whole(1), 2))))
    fleet.state.apply(fleet.admitted(3, request(role(whole(1)))))
    fleet.state.plan()
    fleet.state.commit()
    assert batched(fleet, 100) == 1


def test_elastic_gangs_and_trials_are_no_class_with_what_asks_for_the_same_at_first() -> None:
    fleet = Fleet(node("a", 8))
    asked = request(role(whole()))
    others = asked._replace(stretch=Stretch("worker", 1, 3)), asked._replace(trials=Trials(4, 3))
    fleet.send(*(fleet.admitted(number, each) for number, each in enumerate((asked, *others, asked), 1)))
    assert [len(fleet.workload(number).replicas) for number in (1, 2, 3, 4)] == [1, 1, 3, 1]
    assert list(fleet.world.elastic) == [workload_id(2)]


def test_a_burst_is_placed_whole_in_one_cycle() -> None:
    fleet = Fleet(*(node(f"n{number}", 8) for number in range(20)))
    waiting(fleet, 150, whole(1))
    fleet.send()
    assert sum(fleet.workload(each).active for each in range(150)) == 150


def test_the_first_batch_of_a_cycle_needs_no_order_of_the_queues() -> None:
    fleet = Fleet(node("n1", 8))
    fleet.project("q", {"default": 4})
    fleet.state.begin(fleet.now)
    fleet.state.apply(fleet.admitted(0, request(role(whole(1)))))
    fleet.state.apply(fleet.admitted(1, request(role(whole(1))), project="q"))
    world = fleet.world
    turns = Turns(world)
    assert turns.unordered() == "default"
    assert turns.next() is not None
    assert not turns.unordered()  # somebody has asked who is next
    alone = Turns(world)
    world.waiting.remove(workload_id(1))
    assert not alone.unordered()  # nobody competes with whom is left
    head = alone.next()
    assert head is not None
    assert head[0].project == "p"


def test_a_share_of_next_to_nothing_is_beyond_the_kernel() -> None:
    fleet = Fleet(node("n1", 8))
    tiny = Quota(0, None, 1000, Line(), Line(100, None, 0))
    world = fleet.world
    world.queues.projects["p"].quotas["default"] = tiny
    waiting(fleet, 2, host())
    turns = Turns(world)
    assert forest_of(world.queues, ["p"], turns.standing("default")) is None
    world.queues.projects["p"].quotas["default"] = tiny._replace(memory=Line(1 << 30, None, 0))
    world.standings.clear()
    assert forest_of(world.queues, ["p"], Turns(world).standing("default")) is not None
    assert forest_of(world.queues, ["p", "later"], Turns(world).standing("default")) is None


def test_batches_grow_while_they_place_what_they_get_and_wait_longer_after_those_that_place_nothing() -> None:
    pace = Pace()
    assert pace.size == 32
    pace.batched(32)
    assert pace.size == 64
    pace.batched(1)
    assert pace.size == 32
    pace.batched(0)
    assert pace.size == 0
    pace.saw(placed=True)
    assert (pace.size, pace.patience) == (32, 2)
    pace.batched(0)
    pace.saw(placed=True)
    pace.saw(placed=False)
    pace.saw(placed=True)
    assert pace.size == 0
    pace.saw(placed=True)
    assert (pace.size, pace.patience) == (32, 4)
    pace.batched(5)
    assert pace.patience == 1


def test_a_queue_with_more_to_come_ends_the_batch_when_it_is_its_turn() -> None:
    index = index_of(columns_of([Node("c", "a", "p", cpu=64_000, memory=64 * GIB)]), np.ones(1, np.bool_))
    fill(index.eligible, 0, np.ones(1, np.bool_))
    shapes = np.array([row_of(host(), Terms(0, queue)) for queue in (1, 2, 2, 2)], np.int64)
    queues = tree([-1, 0, 0])
    queues.share[1:, 1], queues.due[1:, 1] = 64_000, 64_000
    ends = np.array([0, 0, 1]), np.array([0, 1, 4]), np.array([RETIRES, WAITS, RETIRES])
    placed = np.zeros((4, 5), np.int64)
    count, left = decide(index, queues, shapes, Heads(*ends), placed, 1_000)
    assert (count, left) == (2, 998)
    assert placed[:2, 0].tolist() == [0, 1]


def test_past_use_is_counted_before_a_batch_is_charged() -> None:
    fleet = Fleet(node("n1", 8))
    fleet.world.limits = Limits(usage_weight=500)
    waiting(fleet, 5, whole(1))
    assert batched(fleet, 10) == 5
    assert fleet.world.queues.usage["p", "default"].at == fleet.now


def labelled(name: str, kind: str) -> Node:
    """A node of a type."""
    made = node(name, 8)
    made.labels = (("run.ai/type", kind),)
    return made


def where(fleet: Fleet, number: int) -> str:
    """The node on which a batch of one puts the next workload; empty where it places nothing."""
    waiting(fleet, 1, whole(1), first=number)
    placed = batched(fleet, 8)
    fleet.state.plan()
    fleet.state.commit()
    fleet.state.check()
    return next(iter(fleet.workload(number).replicas.values())).node[1] if placed else ""


def test_what_people_say_of_projects_departments_and_pools_holds_for_the_next_batch_of_the_same_class() -> None:
    fleet = Fleet(labelled("n1", "old"), labelled("n2", "new"), labelled("n3", "new"))
    assert where(fleet, 0) == "n1"
    told = fleet.world.queues.projects["p"]
    fleet.send(events.ProjectChanged(replace(told, version=1, node_types=NodeTypes(training=("new",)))))
    assert where(fleet, 1) == "n2"
    fleet.send(events.ProjectChanged(replace(told, version=2)))
    assert where(fleet, 2) == "n1"
    fleet.send(events.DepartmentChanged(Department("d", {}, 1, node_types=NodeTypes(training=("new",)))))
    assert where(fleet, 3) == "n2"
    fleet.send(events.NodePoolChanged(NodePool(1, "c1", "default", 1, gpu=Strategy.SPREAD)))
    assert where(fleet, 4) == "n3"
    fleet.send(events.ProjectChanged(replace(told, version=3, models=(ModelQuota("A100", 0),))))
    assert where(fleet, 5) == ""


def test_what_a_question_supposed_of_a_project_is_forgotten_with_it() -> None:
    fleet = Fleet(labelled("n1", "old"), labelled("n2", "new"))
    waiting(fleet, 1, whole(1))
    told = fleet.world.queues.projects["p"]
    fleet.state.begin(fleet.now)
    fleet.state.apply(events.ProjectChanged(replace(told, version=1, node_types=NodeTypes(training=("new",)))))
    fleet.state.propose()
    assert next(iter(fleet.workload(0).replicas.values())).node[1] == "n2"
    fleet.state.abort()
    fleet.send()
    assert next(iter(fleet.workload(0).replicas.values())).node[1] == "n1"


def test_a_cluster_that_no_longer_shares_cards_gets_no_portion_by_a_batch() -> None:
    fleet = Fleet(node("n1", 8))
    waiting(fleet, 1, portion(250))
    assert batched(fleet, 8) == 1
    fleet.state.plan()
    fleet.state.commit()
    order, profile = fleet.order(), Profile(portions=False)
    fleet.send(
        events.InventoryReported("c1", order, False, fleet.world.clusters["c1"].inventory_sequence + 1, profile, (), ())
    )
    waiting(fleet, 1, portion(250), first=1)
    assert batched(fleet, 8) == 0
