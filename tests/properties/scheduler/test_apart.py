"""Gangs whose replicas have to stand apart, on up to six nodes: what is placed keeps it, what is refused is impossible.

The truth comes from trying every way (tests/support/apart_oracle.py).
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.asked.terms import HOST_LABEL, Apart, Terms, Wish
from muster_scheduler.domain.fleet.columns import columns_of
from muster_scheduler.domain.fleet.topology import NOWHERE
from muster_scheduler.domain.fleet.usable import Usable
from muster_scheduler.domain.gangs.apart import one_each, spread_out
from muster_scheduler.domain.gangs.choosing import NodeOrder
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.runs import expanded
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal
from tests.support.apart_oracle import Place, place_of, possible
from tests.support.fleets import Fleet, host, node, request, role
from tests.support.gang_scenes import BLOCK, RACK, Scene, scene

_SEEDS = st.integers(0, 1 << 30)
_LEVELS = st.sampled_from([(HOST_LABEL,), (BLOCK,), (RACK,), (BLOCK, RACK)])  # racks by their names alone, too
_FEW = st.lists(st.integers(1, 2), min_size=2, max_size=3)
_ORDERS = st.sampled_from([NodeOrder.TIGHTEST, NodeOrder.EVENLY])


def answered(
    given_scene: Scene, levels: tuple[str, ...], order: NodeOrder, *, required: bool
) -> tuple[Placement, ...] | Refusal:
    topology = Usable(given_scene.nodes).topology_for((BLOCK, RACK), levels)
    wish = given_scene.wish._replace(apart=Apart(levels[-1], required))
    return place_gang(columns_of(given_scene.nodes), topology, given_scene.roles, wish, None, order)


def places(given_scene: Scene, placements: tuple[Placement, ...], levels: tuple[str, ...]) -> list[Place]:
    shapes = [role.shape for role in given_scene.roles]
    nodes = [
        replica.node
        for shape, placement in zip(shapes, placements, strict=True)
        for replica in expanded(shape, placement.runs)
    ]
    return [place_of(given_scene.nodes[n], levels) for n in nodes]


@given(_SEEDS, _LEVELS, _ORDERS, st.booleans())
@settings(max_examples=200, deadline=None)
def test_brute_force_agrees_on_what_can_stand_apart(
    seed: int, levels: tuple[str, ...], order: NodeOrder, limited: bool
) -> None:
    given_scene = scene(seed, nodes=6, devices=3, size=3, roles=3, limited=limited)
    answer = answered(given_scene, levels, order, required=True)
    assert isinstance(answer, Refusal) is not possible(given_scene, levels)
    if isinstance(answer, Refusal):
        assert answer.proven
        assert answer.room < sum(role.size for role in given_scene.roles) or given_scene.wish.required
    else:
        found = places(given_scene, answer, levels)
        assert len(found) == sum(role.size for role in given_scene.roles)
        assert None not in found
        assert len(set(found)) == len(found)


@given(_SEEDS, _LEVELS)
@settings(max_examples=150, deadline=None)
def test_brute_force_agrees_on_groups_that_stand_apart(seed: int, levels: tuple[str, ...]) -> None:
    given_scene = scene(seed, nodes=6, devices=3, size=4, roles=1, grouped=True)
    answer = answered(given_scene, levels, NodeOrder.TIGHTEST, required=True)
    if isinstance(answer, Refusal):
        nested = levels in {(HOST_LABEL,), (BLOCK, RACK)}
        assert not ((answer.proven or nested) and possible(given_scene, levels))
    else:
        assert possible(given_scene, levels)
        found = places(given_scene, answer, levels)
        assert len({*found} - {None}) == len(found)


@given(_SEEDS, _LEVELS)
@settings(max_examples=100, deadline=None)
def test_a_wish_to_stand_apart_keeps_nobody_out(seed: int, levels: tuple[str, ...]) -> None:
    given_scene = scene(seed, nodes=6, devices=3, size=3, roles=2)
    topology = Usable(given_scene.nodes).topology_for((BLOCK, RACK), levels)
    alone = place_gang(columns_of(given_scene.nodes), topology, given_scene.roles, given_scene.wish)
    wished = answered(given_scene, levels, NodeOrder.TIGHTEST, required=False)
    assert isinstance(wished, Refusal) is isinstance(alone, Refusal)
    if not isinstance(wished, Refusal) and possible(given_scene, levels):
        found = places(given_scene, wished, levels)
        assert len(set(found)) == len(found), "where it can be kept it is"


@given(_SEEDS)
@settings(max_examples=100, deadline=None)
def test_as_many_replicas_as_can_be_find_domains(seed: int) -> None:
    dice = np.random.default_rng(seed)
    roles, nodes = int(dice.integers(1, 4)), int(dice.integers(1, 9))
    counts, apart = dice.integers(0, 3, (roles, nodes)), dice.integers(-1, 5, nodes).astype(np.int32)
    sizes, rank = dice.integers(0, 4, roles).tolist(), dice.integers(0, 3, nodes)
    spread = spread_out(counts, sizes, apart, rank)
    used = np.concatenate([apart[taken > 0] for taken in spread.taken])
    assert spread.replicas == spread.taken.sum() == len(used) == len(set(used.tolist()) - {NOWHERE})
    assert (spread.taken <= np.minimum(counts, 1)).all()
    assert (spread.taken.sum(axis=1) <= sizes).all()
    can = [set(apart[row > 0].tolist()) - {NOWHERE} for row in counts]
    assert spread.replicas == most(can, sizes, 0, frozenset(range(5)))


def most(can: list[set[int]], left: list[int], at: int, free: frozenset[int]) -> int:
    """How many replicas find a domain of their own, tried in every way. can: by role, the domains that hold it."""
    if at == len(can):
        return 0
    skip = most(can, left, at + 1, free)
    if not left[at]:
        return skip
    less = [size - (r == at) for r, size in enumerate(left)]
    return max([skip, *(1 + most(can, less, at, free - {domain}) for domain in sorted(can[at] & free))])


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(0, 3)), min_size=2, max_size=5), _FEW, st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_way_agrees_where_replicas_are_placed_one_by_one(
    fleet: list[tuple[int, int]], sizes: list[int], by_host: bool
) -> None:
    """fleet: of each node the bits of the roles whose named resource it has, and its rack."""
    nodes, names = [node(f"n{n}", 1) for n in range(len(fleet))], [f"vendor.example/r{r}" for r in range(len(sizes))]
    for each, (bits, rack) in zip(nodes, fleet, strict=True):
        each.extra = {name: 8 for r, name in enumerate(names) if bits >> r & 1}
        each.labels = (("rack", f"r{rack}"),)
    roles = [
        role(host()._replace(extra=((name, 1),)), size, name[-2:]) for name, size in zip(names, sizes, strict=True)
    ]
    made = Fleet(*nodes)
    wish = Wish(apart=Apart(HOST_LABEL if by_host else "rack", required=True))
    made.submit(1, request(*roles)._replace(terms=Terms(topology=wish)))
    where = [int(replica.node[1][1:]) for replica in made.workload(1).everyone()]
    domains = [n if by_host else rack for n, (_, rack) in enumerate(fleet)]
    can = [{domains[n] for n, (bits, _) in enumerate(fleet) if bits >> r & 1} for r in range(len(sizes))]
    assert bool(where) is (most(can, sizes, 0, frozenset(domains)) == sum(sizes))
    assert len({domains[n] for n in where}) == len(where)


def test_the_lowest_rank_of_each_domain_and_part_is_taken() -> None:
    counts, rank = np.array([2, 1, 0, 4, 1]), np.array([1, 0, 0, 3, 3])
    apart = np.array([0, 0, 0, 1, 1], np.int32)
    assert one_each(counts, apart, None, rank).tolist() == [0, 1, 0, 1, 0]
    assert one_each(counts, apart, np.array([0, 1, 1, 0, 1], np.int32), rank).tolist() == [1, 1, 0, 1, 1]


def test_a_role_gives_up_a_domain_that_another_cannot_do_without() -> None:
    counts = np.array([[1, 1], [0, 0], [1, 0]])
    apart, rank = np.array([0, 1], np.int32), np.zeros(2, np.int64)
    assert spread_out(counts, [1, 0, 1], apart, rank).taken.tolist() == [[0, 1], [0, 0], [1, 0]]
    counts = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]])
    apart, rank = np.array([0, 1, 2], np.int32), np.zeros(3, np.int64)
    assert spread_out(counts, [1, 1, 1], apart, rank).taken.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
