"""Gangs on small fleets: what is placed is possible and as wished, what is refused is impossible.

The truth comes from two oracles that share no code with the placement: every way tried, and a mixed-integer program.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.asked.requests import Grant, Holder, Kind
from muster_scheduler.domain.fleet.columns import columns_of
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Mig
from muster_scheduler.domain.fleet.taking import grants_of
from muster_scheduler.domain.fleet.topology import topology_of
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.runs import expanded
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal
from tests.support.gang_scenes import BLOCK, RACK, Scene, scene
from tests.support.placement_oracle import fits
from tests.support.placement_program import fewest_nodes

_SEEDS = st.integers(0, 1 << 30)
_LIMITED = st.booleans()


def _answer(given_scene: Scene) -> tuple[Placement, ...] | Refusal:
    topology = topology_of((BLOCK, RACK), [node.labels for node in given_scene.nodes])
    columns = columns_of(given_scene.nodes)
    before = {
        name: getattr(columns, name).copy()
        for name in ("cpu", "memory", "replicas", "idle", "mode", "milli", "bytes", "mask")
    }
    answer = place_gang(columns, topology, given_scene.roles, given_scene.wish)
    for name, column in before.items():
        assert np.array_equal(column, getattr(columns, name)), f"{name} was changed by asking"
    return answer


def _nodes_of(placements: tuple[Placement, ...]) -> set[int]:
    return {run.node for placement in placements for run in placement.runs}


def _charge(given_scene: Scene, placements: tuple[Placement, ...]) -> None:
    """Gives every replica what its run says, in the books, which then have to agree."""
    for role, placement in zip(given_scene.roles, placements, strict=True):
        assert placement.role == role.name
        ranks = [rank for run in placement.runs for rank in range(run.first, run.first + run.replicas)]
        assert ranks == list(range(role.size)), "replicas are numbered in the order of their runs"
        for run in placement.runs:
            node = given_scene.nodes[run.node]
            assert node.open
            for at, grant in enumerate(list(grants_of(node, role.shape, run))):
                devices = [share.device for share in grant.shares]
                assert len(set(devices)) == len(devices)
                assert len(devices) + grant.slots == role.shape.devices
                given_scene.inventory.charge(Holder("w", 1, 1, role.name, run.first + at, 0), node.key, grant)
            assert min(node.free_cpu, node.free_memory, node.free_replicas) >= 0
            assert node.slots - node.used_slots >= 0
    given_scene.inventory.check()


def _path(labels: tuple[tuple[str, str], ...], key: str) -> tuple[str | None, ...] | None:
    known = dict(labels)
    keys = (BLOCK, RACK)[: (BLOCK, RACK).index(key) + 1]
    return tuple(known.get(each) for each in keys) if key in known else None


def _keeps_wish(given_scene: Scene, placements: tuple[Placement, ...]) -> None:
    wish = given_scene.wish
    if wish.required:
        homes = {_path(given_scene.nodes[n].labels, wish.required) for n in _nodes_of(placements)}
        assert len(homes) == 1
        assert None not in homes
    for role, placement in zip(given_scene.roles, placements, strict=True):
        if wish.group and role.size >= wish.group_size:
            replicas = expanded(role.shape, placement.runs)
            homes_by_group = Counter(
                (replica.rank // wish.group_size, _path(given_scene.nodes[replica.node].labels, wish.group))
                for replica in replicas
            )
            assert all(count == wish.group_size for count in homes_by_group.values())
            assert all(home is not None for _, home in homes_by_group)


@given(_SEEDS, _LIMITED)
@settings(max_examples=150, deadline=None)
def test_brute_force_agrees_on_what_fits(seed: int, limited: bool) -> None:
    given_scene = scene(seed, nodes=5, devices=3, size=3, roles=3, limited=limited)
    possible = fits(given_scene)
    answer = _answer(given_scene)
    assert isinstance(answer, Refusal) is not possible
    if isinstance(answer, Refusal):
        assert answer.proven
    else:
        _charge(given_scene, answer)
        _keeps_wish(given_scene, answer)


@given(_SEEDS, _LIMITED)
@settings(max_examples=100, deadline=None)
def test_brute_force_agrees_on_groups_that_stay_together(seed: int, limited: bool) -> None:
    given_scene = scene(seed, nodes=5, devices=3, size=4, roles=1, grouped=True, limited=limited)
    possible = fits(given_scene)
    answer = _answer(given_scene)
    assert isinstance(answer, Refusal) is not possible
    if not isinstance(answer, Refusal):
        _charge(given_scene, answer)
        _keeps_wish(given_scene, answer)


@given(_SEEDS, _LIMITED)
@settings(max_examples=60, deadline=None)
def test_a_mixed_integer_program_agrees_on_larger_fleets(seed: int, limited: bool) -> None:
    given_scene = scene(seed, nodes=30, devices=8, size=12, roles=2, limited=limited)
    fewest = fewest_nodes(given_scene)
    answer = _answer(given_scene)
    if isinstance(answer, Refusal):
        assert fewest is None
        assert answer.proven
    else:
        assert fewest is not None
        assert len(_nodes_of(answer)) >= fewest
        _charge(given_scene, answer)
        _keeps_wish(given_scene, answer)


@given(_SEEDS, _LIMITED)
@settings(max_examples=150, deadline=None)
def test_a_node_takes_as_many_as_the_books_allow_and_not_one_more(seed: int, limited: bool) -> None:
    given_scene = scene(seed, nodes=3, devices=4, size=1, roles=1, limited=limited)
    shape = given_scene.roles[0].shape
    counted = counts_of(columns_of(given_scene.nodes), shape, 100)
    for number, node in enumerate(given_scene.nodes):
        taken = 0
        while node.open and taken < 100 and isinstance(grant := fit(node, shape, Mig.DYNAMIC), Grant):
            given_scene.inventory.charge(Holder("w", 1, 1, "worker", taken, 0), node.key, grant)
            taken += 1
        # `fit` gives one replica after the other the tightest cards; dealing all of them out at once may hold more.
        exact = shape.devices == 1 or shape.kind in {Kind.NONE, Kind.WHOLE}
        assert counted[number] == taken if exact else counted[number] >= taken


@pytest.mark.parametrize("seed", range(20))
def test_the_same_question_has_the_same_answer(seed: int) -> None:
    first = scene(seed, nodes=12, devices=4, size=6, roles=2)
    again = scene(seed, nodes=12, devices=4, size=6, roles=2)
    assert _answer(first) == _answer(again)
