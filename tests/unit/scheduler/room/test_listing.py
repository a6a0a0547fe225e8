"""What the running hold, as arrays: once all of it is lifted, the columns are those of an empty fleet."""

from __future__ import annotations

import numpy as np

from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Shape, Share
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.columns import TAKEN
from muster_scheduler.domain.fleet.nodes import Mig
from muster_scheduler.domain.room.listing import held_of
from muster_scheduler.domain.room.stock import lift, stock_of
from tests.support.fleets import Fleet, host, mig_slice, node, portion, request, role, whole

SHAPES = (whole(2), portion(500, 2), mig_slice("1g.10gb+me"), mig_slice("3g.40gb"), host(), whole(1))


def filled(*shapes: Shape) -> Fleet:
    fleet = Fleet(node("n1", 8), node("n2", 4, mig=True), profile=Profile(mig=Mig.DYNAMIC))
    for number, shape in enumerate(shapes, 1):
        fleet.submit(number, request(role(shape)))
        fleet.run(number)
    return fleet


def pool_of(fleet: Fleet) -> Capacity:
    capacity: Capacity | None = fleet.world.inventory.capacity("c1", "default")
    assert capacity is not None
    return capacity


def test_all_that_runs_lifted_leaves_an_empty_fleet() -> None:
    fleet, empty = filled(*SHAPES), filled()
    runs = [fleet.workload(number) for number in range(1, len(SHAPES) + 1)]
    assert all(each.replicas for each in runs)
    scratch = pool_of(fleet).columns.scratch()
    held = held_of(fleet.world, pool_of(fleet), runs)
    lift(stock_of(scratch), held, np.arange(len(runs)), 1)
    for name in TAKEN:
        assert np.array_equal(getattr(scratch, name), getattr(pool_of(empty).columns, name)), name


def test_a_card_that_is_booked_meanwhile_has_a_slot_of_its_own() -> None:
    fleet = filled()
    capacity = pool_of(fleet)
    before = capacity.bits_of(capacity.nodes[0])
    holder = Holder("w", 1, 1, "worker", 0, 0)
    fleet.world.inventory.charge(holder, capacity.nodes[0].key, Grant(0, 0, (Share("unheard-of", Kind.WHOLE),)))
    assert capacity.bits_of(capacity.nodes[0]) == before | {"unheard-of": 1 << len(before)}
