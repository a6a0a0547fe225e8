"""Gangs worked out by hand: which domains and nodes they take, which devices, and what a refusal says."""

from __future__ import annotations

import numpy as np
import pytest

from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.fleet.columns import IDLE, SHARED, Columns, empty
from muster_scheduler.domain.fleet.taking import Run
from muster_scheduler.domain.fleet.topology import Topology, flat, topology_of
from muster_scheduler.domain.gangs.choosing import NodeOrder
from muster_scheduler.domain.gangs.devices import Steps
from muster_scheduler.domain.gangs.packing import pack
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.runs import Replica, expanded
from muster_scheduler.domain.gangs.verdicts import Lack, Placement, Refusal

GIB = 1 << 30
_GPU = Shape(0, 0, Kind.WHOLE, 1)


def _pool(*idle: int, cpu: int = 64_000) -> Columns:
    """Nodes of eight cards of 80 GiB of which so many are idle, the first ones; the others are gone."""
    columns = empty(tuple(f"node-{number}" for number in range(len(idle))))
    columns.open[:] = True
    columns.cpu[:] = cpu
    columns.memory[:] = 512 * GIB
    for node, free in enumerate(idle):
        columns.idle[node] = free
        columns.mode[node, :free] = IDLE
        columns.milli[node, :free] = 1000
        columns.bytes[node, :free] = columns.size[node, :free] = 80 * GIB
    return columns


def _racks(*racks: str) -> Topology:
    """Racks by node, `b1/r1` for rack r1 of block b1."""
    labels = [tuple(zip(("block", "rack"), rack.split("/"), strict=True)) for rack in racks]
    return topology_of(("block", "rack"), labels)


def _role(size: int, shape: Shape = _GPU, name: str = "worker") -> Role:
    return Role(name, size, shape, charge_of(shape))


def _taken(answer: tuple[Placement, ...] | Refusal, role: int = 0) -> list[tuple[int, int]]:
    assert not isinstance(answer, Refusal), answer
    return [(run.node, run.replicas) for run in answer[role].runs]


def test_the_fullest_rack_that_holds_it_all_is_taken() -> None:
    topology = _racks("b1/r1", "b1/r1", "b1/r2", "b1/r2", "b2/r1", "b2/r1")
    answer = place_gang(_pool(8, 8, 4, 4, 8, 2), topology, (_role(7),), Wish(preferred="rack"))
    assert _taken(answer) == [(2, 4), (3, 3)]


def test_what_no_rack_holds_goes_to_the_fewest_racks_of_the_fullest_block() -> None:
    topology = _racks("b1/r1", "b1/r2", "b1/r3", "b2/r1", "b2/r2", "b2/r3")
    answer = place_gang(_pool(8, 8, 8, 6, 8, 2), topology, (_role(10),), Wish(preferred="rack"))
    assert _taken(answer) == [(4, 8), (5, 2)]


def test_what_no_block_holds_goes_to_the_fewest_blocks_where_the_pool_is_allowed() -> None:
    topology = _racks("b1/r1", "b1/r2", "b2/r1", "b2/r2")
    answer = place_gang(_pool(8, 8, 4, 4), topology, (_role(18),), Wish(preferred="rack"))
    assert _taken(answer) == [(0, 8), (1, 8), (2, 2)]


def test_a_required_block_that_is_too_small_is_said_with_what_the_best_one_holds() -> None:
    topology = _racks("b1/r1", "b1/r2", "b2/r1", "b2/r2")
    answer = place_gang(_pool(8, 8, 4, 4), topology, (_role(18),), Wish(required="block", preferred="rack"))
    assert answer == Refusal(Lack.ROOM, "block", 18, 16)


def test_a_level_that_no_node_has_is_named() -> None:
    answer = place_gang(_pool(8), _racks("b1/r1"), (_role(1),), Wish(required="zone"))
    assert answer == Refusal(Lack.LEVEL, "zone", 1, 0)


def test_a_preferred_level_that_no_node_has_keeps_nobody_out() -> None:
    answer = place_gang(_pool(8), _racks("b1/r1"), (_role(1),), Wish(preferred="zone"))
    assert _taken(answer) == [(0, 1)]


def test_groups_stay_inside_their_racks() -> None:
    topology = _racks("b1/r1", "b1/r2", "b1/r3")
    answer = place_gang(_pool(7, 3, 8), topology, (_role(12),), Wish(required="block", group="rack", group_size=4))
    assert _taken(answer) == [(0, 4), (2, 8)]


def test_groups_that_the_size_does_not_divide_into_are_refused() -> None:
    answer = place_gang(_pool(8), _racks("b1/r1"), (_role(6),), Wish(group="rack", group_size=4))
    assert answer == Refusal(Lack.GROUPS, "rack", 6, 4)


def test_without_a_wish_whole_nodes_stay_whole() -> None:
    assert _taken(place_gang(_pool(8, 3, 8, 2), flat(4), (_role(4),))) == [(1, 2), (3, 2)]


def test_a_pool_that_spreads_takes_from_all_nodes_alike() -> None:
    answer = place_gang(_pool(8, 1, 8, 2), flat(4), (_role(9),), order=NodeOrder.EVENLY)
    assert _taken(answer) == [(0, 3), (1, 1), (2, 3), (3, 2)]
    alone = place_gang(_pool(8, 1, 8, 9), flat(4), (_role(1),), order=NodeOrder.EVENLY)
    assert _taken(alone) == [(3, 1)], "the emptiest"


def test_nodes_that_are_not_eligible_or_closed_are_left_out() -> None:
    columns = _pool(8, 8, 8)
    columns.open[1] = False
    answer = place_gang(columns, flat(3), (_role(8),), eligible=np.array([False, True, True]))
    assert _taken(answer) == [(2, 8)]
    assert place_gang(columns, flat(3), (_role(9),), eligible=np.array([False, True, True])) == Refusal(
        Lack.ROOM, "", 9, 8
    )


def test_ranks_follow_the_racks() -> None:
    topology = _racks("b1/r2", "b1/r1", "b1/r2", "b1/r1")
    answer = place_gang(_pool(4, 4, 4, 4), topology, (_role(16),), Wish(required="block"))
    assert [(run.first, run.node) for run in _runs(answer)] == [(0, 1), (4, 3), (8, 0), (12, 2)]


def _runs(answer: tuple[Placement, ...] | Refusal, role: int = 0) -> tuple[Run, ...]:
    assert not isinstance(answer, Refusal), answer
    return answer[role].runs


def test_whole_devices_are_dealt_out_lowest_slot_first() -> None:
    shape = Shape(0, 0, Kind.WHOLE, 2)
    (run,) = _runs(place_gang(_pool(8), flat(1), (_role(3, shape),)))
    assert run == Run(0, 0, 3, 0b111111)
    assert expanded(shape, (run,)) == [Replica(0, 0, 0b11, 0), Replica(1, 0, 0b1100, 0), Replica(2, 0, 0b110000, 0)]


def test_portions_fill_a_shared_card_before_they_open_an_idle_one() -> None:
    columns = _pool(3)
    columns.mode[0, 2] = SHARED
    columns.milli[0, 2] = 700
    columns.bytes[0, 2] = 56 * GIB
    shape = Shape(0, 0, Kind.PORTION, 1, milli=300)
    assert _runs(place_gang(columns, flat(1), (_role(4, shape),))) == (Run(0, 0, 2, 0b100), Run(0, 2, 2, 0b1))


def test_portions_of_several_cards_take_every_card_once() -> None:
    shape = Shape(0, 0, Kind.PORTION, 2, milli=500)
    runs = _runs(place_gang(_pool(3), flat(1), (_role(3, shape),)))
    replicas = expanded(shape, runs)
    assert sorted(replica.mask for replica in replicas) == [0b011, 0b101, 0b110]


def test_a_launcher_without_devices_runs_beside_its_workers() -> None:
    roles = (_role(1, Shape(2_000, GIB), "launcher"), _role(4, Shape(8_000, GIB, Kind.WHOLE, 8), "worker"))
    topology = _racks("b1/r1", "b1/r1", "b2/r1", "b2/r1", "b2/r2", "b2/r2")
    answer = place_gang(_pool(8, 8, 8, 8, 8, 8), topology, roles, Wish(required="block"))
    assert not isinstance(answer, Refusal)
    assert [placement.role for placement in answer] == ["launcher", "worker"]
    assert _taken(answer, 1) == [(2, 1), (3, 1), (4, 1), (5, 1)]
    assert _taken(answer, 0)[0][0] in {2, 3, 4, 5}


def test_roles_that_get_into_each_others_way_are_sorted_out() -> None:
    # Largest first puts both 3-GPU replicas onto the first node and leaves no two for the second role.
    roles = (_role(2, Shape(0, 0, Kind.WHOLE, 3), "a"), _role(2, Shape(0, 0, Kind.WHOLE, 2), "b"))
    answer = place_gang(_pool(5, 5), flat(2), roles)
    assert _taken(answer, 0) == [(0, 1), (1, 1)]
    assert _taken(answer, 1) == [(0, 1), (1, 1)]


def test_a_search_that_runs_out_of_steps_does_not_claim_the_truth() -> None:
    columns = _pool(5, 5)
    asked = [(Shape(0, 0, Kind.WHOLE, 3), 2), (Shape(0, 0, Kind.WHOLE, 2), 2)]
    short, enough = Steps(1), Steps(1_000)
    assert pack(columns, np.arange(2), asked, short) is None
    assert short.spent
    assert pack(columns, np.arange(2), asked, enough) is not None
    assert not enough.spent


@pytest.mark.parametrize("replicas", [0, 1])
def test_roles_of_no_replicas_have_no_runs(replicas: int) -> None:
    answer = place_gang(_pool(1), flat(1), (_role(0), _role(replicas, name="second")))
    assert not isinstance(answer, Refusal)
    assert answer[0] == Placement("worker", ())
    assert sum(run.replicas for run in answer[1].runs) == replicas


def test_a_node_from_which_others_took_too_much_takes_nothing() -> None:
    assert place_gang(_pool(8, cpu=-1), flat(1), (_role(1),)) == Refusal(Lack.ROOM, "", 1, 0)


def test_roles_that_need_more_in_all_than_there_is_are_refused_without_a_search() -> None:
    topology = _racks("b1/r1", "b1/r1", "b2/r1", "b2/r1")
    roles = (_role(10, name="a"), _role(4, Shape(0, 0, Kind.WHOLE, 2), "b"))
    answer = place_gang(_pool(8, 8, 8, 8), topology, roles, Wish(required="block"))
    assert answer == Refusal(Lack.ROOM, "block", 14, 12), "b takes 8 of 16 cards, a finds 8 of its 10"
    halves = (_role(10, Shape(0, 0, Kind.PORTION, 1, milli=500), "a"), _role(14, name="b"))
    assert place_gang(_pool(8, 8), flat(2), halves) == Refusal(Lack.ROOM, "", 24, 18)
    assert not isinstance(place_gang(_pool(8, 8, 3), flat(3), halves), Refusal)


@pytest.mark.parametrize(
    "roles",
    [
        [(Shape(1, 0), 90_000), (Shape(2, 0), 50_000), (Shape(0, 0, Kind.WHOLE, 9), 1)],
        [(Shape(0, 0, Kind.MEMORY, 1, bytes=1), 90_000), (Shape(0, 0, Kind.MEMORY, 1, bytes=2), 50_000)] * 2,
        [(Shape(0, 0, Kind.PORTION, 2, milli=1), 9_000), (Shape(0, 0, Kind.PORTION, 3, milli=1), 9_000)] * 2,
    ],
)
def test_a_search_among_very_many_replicas_ends_near_its_steps(roles: list[tuple[Shape, int]]) -> None:
    steps = Steps(5_000)
    assert pack(_pool(8, 8, 7, 6), np.arange(4), roles, steps) is None
    assert steps.spent
    assert steps.left > -20_000, "what one step may cost beyond what was left is bounded too"
