"""Rule 7, the scheduler's half: capacity returns by GONE alone, and silence gives nothing back.

Taken out here: waiting for GONE (devices come back with the phase), keeping what a silent cluster holds, and keeping a
device that its agent no longer reports. Judged by a model of processes that knows nothing of the books.
"""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Workload
from muster_scheduler.domain.books import course, inventory
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.clusters import Cluster
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.life import fleet
from tests.support.fleets import Fleet, devices, node, workload_id


def _second_gets_the_device_before_the_first_is_gone() -> bool:
    made = Fleet(node("n1", 1))
    first = made.submit(1)
    made.run(1)
    card = first.replicas["worker", 0].grant.shares[0].device
    made.report(1, ReplicaState.SUCCEEDED, exit_code=0)
    assert first.phase is Phase.COMPLETED
    second = made.submit(2)
    return any(s.device == card for r in second.everyone() for s in r.grant.shares)


def test_capacity_returns_by_gone_alone() -> None:
    assert not _second_gets_the_device_before_the_first_is_gone()


def test_without_waiting_for_gone_a_device_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = course._take_down

    def at_once(world: World, workload: Workload, before: Phase) -> None:
        kept(world, workload, before)
        for replica in workload.everyone():
            world.give_back(workload, replica)

    monkeypatch.setattr(course, "_take_down", at_once)
    with pytest.raises(AssertionError):
        assert not _second_gets_the_device_before_the_first_is_gone()


def _silent_cluster_keeps_its_devices() -> bool:
    made = Fleet(node("n1", 1))
    made.submit(1)
    made.run(1)
    made.now += 60 * SECOND
    made.send()
    made.submit(2)
    made.wait(0)
    held = [replica.holder for w in (1, 2) for replica in made.workload(w).everyone()]
    return [(holder.workload, holder.attempt) for holder in held] == [(workload_id(1), 1)]


def test_silence_gives_nothing_back() -> None:
    assert _silent_cluster_keeps_its_devices()


def test_giving_up_at_silence_gives_a_device_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = fleet._fall_silent

    def give_up(world: World, cluster: Cluster) -> None:
        kept(world, cluster)
        for workload in fleet.workloads_of(world, cluster.id):
            fleet.give_up(world, workload, "silent")

    monkeypatch.setattr(fleet, "_fall_silent", give_up)
    with pytest.raises(AssertionError):
        assert _silent_cluster_keeps_its_devices()


def _missing_device_is_given_to_nobody() -> bool:
    made = Fleet(node("n1", 1))
    made.submit(1)
    made.run(1)
    made.inventory("c1", [node("n1", cards=[])])
    made.inventory("c1", [node("n1", cards=devices("c1-n1", 1))])
    made.submit(2)
    return not made.workload(2).everyone()


def test_a_device_stays_in_the_books_while_it_is_charged() -> None:
    assert _missing_device_is_given_to_nobody()


def test_forgetting_what_is_charged_gives_a_device_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(known: Node, reported: Node) -> None:
        del known, reported

    monkeypatch.setattr(inventory, "_carry_over", forget)
    with pytest.raises(AssertionError):
        assert _missing_device_is_given_to_nobody()
