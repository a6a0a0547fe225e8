"""Requests for GPU memory in a node pool that wants them as MIG slices: the smallest profile that holds them."""

from __future__ import annotations

import pytest

from muster_kernel.mig import CARDS, memory_of, smallest_for
from muster_kernel.quantities import GPU, UNITS_PER_SEVENTH
from muster_scheduler.adapters import rows
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.asked.workloads import Stretch, Trials, WorkloadKind
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig
from tests.support.fleets import (
    GIB,
    device_memory,
    devices,
    mig_slice,
    node,
    portion,
    request,
    role,
    whole,
)
from tests.support.memory_slices import CARVES, CUT, asks, fleet, large, shares_of, small


@pytest.mark.parametrize(
    ("amount", "profile", "sevenths"),
    [
        (1, "1g.5gb", 1),
        (4 * GIB, "1g.5gb", 1),
        (9 * GIB, "1g.10gb", 1),
        (10 * GIB, "3g.20gb", 3),
        (20 * GIB, "7g.40gb", 7),
    ],
)
def test_it_gets_the_smallest_profile_that_holds_it_and_is_charged_its_sevenths(
    amount: int, profile: str, sevenths: int
) -> None:
    made = fleet(small("n1"))
    made.submit(0, asks(amount))
    (share,) = shares_of(made, 0)
    assert (share.kind, share.profile) == (Kind.SLICE, profile)
    assert share.mask, "the agent is told where it starts"
    assert made.world.queues.account("p", "default").held.gpu == sevenths * UNITS_PER_SEVENTH


@pytest.mark.parametrize(
    ("said", "profile"),
    [
        (CUT._replace(memory_as_slices=False), CARVES),
        (CUT._replace(name="other"), CARVES),
        (CUT, Profile(mig=Mig.NONE)),
        (CUT, Profile(mig=Mig.STATIC)),
    ],
)
def test_it_shares_a_card_where_nobody_said_so_or_nothing_is_carved_on_demand(said: NodePool, profile: Profile) -> None:
    made = fleet(node("n1", 1), said=said, profile=profile)
    made.submit(0, asks(9 * GIB))
    assert [share.kind for share in shares_of(made, 0)] == [Kind.MEMORY]


def test_a_pool_that_is_told_so_later_gives_slices_from_then_on() -> None:
    made = fleet(small("n1"), said=CUT._replace(memory_as_slices=False))
    made.submit(0, asks(9 * GIB))
    assert shares_of(made, 0) == []
    made.send(events.NodePoolChanged(CUT._replace(version=2)))
    assert [share.profile for share in shares_of(made, 0)] == ["1g.10gb"]


def test_seven_of_a_card_and_the_eighth_waits_until_one_ends() -> None:
    made = fleet(small("n1"))
    for number in range(8):
        made.submit(number, asks(4 * GIB))
    assert [len(shares_of(made, number)) for number in range(8)] == [1] * 7 + [0]
    made.run(3)
    made.finish(3)
    assert [share.profile for share in shares_of(made, 7)] == ["1g.5gb"]


def test_every_model_of_a_pool_gives_its_own_profile() -> None:
    made = fleet(small("n1"), large("n2"))
    for number in range(3):
        made.submit(number, asks(18 * GIB))
    assert [share.profile for number in range(3) for share in shares_of(made, number)] == [
        "1g.20gb",
        "1g.20gb",
        "1g.20gb",
    ]
    made.submit(3, asks(18 * GIB))
    made.submit(4, asks(18 * GIB))
    assert [share.profile for number in (3, 4) for share in shares_of(made, number)] == ["1g.20gb", "3g.20gb"]


def test_a_gang_gets_one_slice_a_replica_or_nothing() -> None:
    made = fleet(small("n1"), small("n2"))
    made.submit(0, asks(4 * GIB, 15))
    made.submit(1, asks(4 * GIB, 14))
    assert [len(shares_of(made, number)) for number in (0, 1)] == [0, 14]


def test_quotas_count_sevenths() -> None:
    made = fleet(small("n1", 2), quota=1)
    made.submit(0, asks(19 * 10**9, 2, preemptible=False))
    made.submit(1, asks(4 * GIB, 2, preemptible=False))
    made.submit(2, asks(4 * GIB, 1, preemptible=False))
    assert [len(shares_of(made, number)) for number in range(3)] == [2, 0, 1]


def test_room_is_made_for_it() -> None:
    made = fleet(small("n1"))
    made.submit(0, request(role(Shape(100, GIB, Kind.SLICE, 1, profile="7g.40gb"))))
    made.run(0)
    made.submit(1, request(role(device_memory(9 * GIB)), priority=100))
    made.gone(0)
    assert [share.profile for share in shares_of(made, 1)] == ["1g.10gb"]


@pytest.mark.parametrize("asked", [device_memory(4 * GIB), mig_slice("1g.5gb")])
def test_who_waits_for_a_slice_is_looked_at_again_when_another_comes_to_hold_more_than_its_share(asked: Shape) -> None:
    here, there = (
        small("n1"),
        node("n2", cluster="c2", cards=devices("n2", 1, model="A100-40GB", memory=40 * GIB, mig=True)),
    )
    made = fleet(here, there, quota=1)
    made.send(events.NodePoolChanged(CUT._replace(id=8, cluster="c2")))
    made.project("p", {"default": 1}, weight=0)
    made.send(events.ProjectChanged(Project("q", "d", {"default": Quota(GPU // 7)}, 1)))
    for number in range(7):
        made.submit(number, request(role(asked), clusters=("c1",)), project="p" if number < 6 else "q")
        made.run(number)
    made.submit(7, request(role(asked), clusters=("c1",)))
    assert made.workload(7).claim is None, "the other one holds no more than it deserves"
    for number in range(8, 11):
        made.submit(number, request(role(asked), clusters=("c2",)), project="q")
    assert made.workload(7).claim is not None
    made.gone(6)
    assert [share.profile for share in shares_of(made, 7)] == ["1g.5gb"]


def test_a_service_that_grows_gets_slices_within_its_quota() -> None:
    made = fleet(small("n1", 2), quota=1)
    service = made.submit(0, asks(4 * GIB, preemptible=False)._replace(kind=WorkloadKind.INFERENCE, max_scale=9))
    made.send(events.ScaleAdvised(service.id, 9))
    assert [share.profile for share in shares_of(made, 0)] == ["1g.5gb"] * 7


def test_an_elastic_gang_grows_by_slices() -> None:
    made = fleet(small("n1"))
    made.submit(0, asks(4 * GIB, 2)._replace(stretch=Stretch("worker", 2, 5)))
    made.run(0)
    for _ in range(8):
        made.wait(30)
    assert [share.profile for share in shares_of(made, 0)] == ["1g.5gb"] * 5


def test_trials_get_slices() -> None:
    made = fleet(small("n1"))
    made.submit(0, asks(9 * GIB)._replace(trials=Trials(6, 5)))
    assert [share.profile for share in shares_of(made, 0)] == ["1g.10gb"] * 4


def test_slices_move_so_that_a_whole_card_is_free_to_be_cut() -> None:
    made = fleet(small("n1"), small("n2"))
    for number in range(8):
        made.submit(number, asks(4 * GIB))
        made.run(number)
    for number in range(1, 7):
        made.finish(number)
    nodes = {each.node for number in (0, 7) for each in made.workload(number).everyone()}
    assert len(nodes) == 2, "one on each card"
    taker = made.submit(20, asks(30 * GIB))
    assert taker.claim is not None
    for number in (0, 7):
        if made.workload(number).claim is not None:
            made.gone(number)
    assert [share.profile for share in shares_of(made, 20)] == ["7g.40gb"]
    assert sorted(share.profile for number in (0, 7) for share in shares_of(made, number)) == ["1g.5gb"] * 2


def test_who_shares_a_card_does_not_move_to_a_slice() -> None:
    made = fleet(node("n1", 1), node("n2", 1), large("n3"), said=CUT._replace(memory_as_slices=False))
    made.submit(0, request(role(portion(600))))
    made.submit(1, asks(9 * GIB))
    made.submit(2, asks(60 * GIB))
    made.run(1)
    made.run(2)
    made.finish(0)
    made.send(events.NodePoolChanged(CUT._replace(version=2)))
    kept = [share.kind for number in (1, 2) for share in shares_of(made, number)]
    made.submit(3, request(role(whole())))
    assert kept == [share.kind for number in (1, 2) for share in shares_of(made, number)] == [Kind.MEMORY] * 2
    assert made.workload(3).claim is None


def test_the_books_keep_it_across_a_restart() -> None:
    assert rows.to_node_pool(CUT.id, rows.of_node_pool(CUT)) == CUT


def test_a_whole_card_is_not_taken_for_it() -> None:
    made = fleet(small("n1"), node("n2", 1))
    for number in range(8):
        made.submit(number, asks(4 * GIB))
    assert shares_of(made, 7) == []
    made.submit(8, request(role(whole())))
    assert [share.kind for share in shares_of(made, 8)] == [Kind.WHOLE]


def test_a_profile_has_what_its_name_says_but_no_more_than_its_part_of_the_card() -> None:
    for card in CARDS.values():
        for profile in card.profiles.values():
            named, total = int(profile.name.split(".")[1].split("gb")[0]) * 10**9, 16 * GIB
            assert 0 <= named - memory_of(card, profile) < 1 << 20, "whole MiB"
            assert memory_of(card, profile, total) == min(
                memory_of(card, profile), 16 * GIB * profile.memory // card.slices
            )
    h200 = CARDS["H200-141GB"]
    assert smallest_for(h200, 0, 141 * 10**9) is h200.profile("1g.18gb")
    assert smallest_for(h200, 17_900_000_000, 141 * 10**9) is h200.profile("1g.35gb"), "an eighth of 141 GB is 17.6"
    assert smallest_for(h200, 150 * 10**9) is None
