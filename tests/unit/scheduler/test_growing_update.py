"""What is said of a service that is updated: replicas of the revision before serve, and leave for the new ones."""

from __future__ import annotations

from muster_kernel.reasons import FailureClass
from muster_scheduler.adapters.explaining import explanation
from muster_scheduler.domain.asked.workloads import ReplicaState
from tests.support.asking import why
from tests.support.fleets import Fleet, node, whole
from tests.support.growing import growth, updated


def test_one_that_leaves_for_a_new_one_is_not_called_a_lack_of_room() -> None:
    fleet = updated(Fleet(node("a", 4)))
    told = growth(fleet)
    assert (told.has, told.wanted, told.before, told.code, told.helps) == (0, 4, 3, "Update", ())
    assert told.text == "its update: where a new replica finds no place, one of the revision before leaves for it"
    assert explanation(fleet.workload(1), why(fleet, 1)).growth.before == 3
    assert why(fleet, 1).shares == ()


def test_nor_is_it_called_a_lack_of_quota() -> None:
    fleet = Fleet(node("a", 8))
    fleet.project("p", {"default": 100}, limit=4)
    told = growth(updated(fleet))
    assert (told.before, told.code, told.helps) == (3, "Update", ())


def test_beside_room_for_all_new_ones_nothing_is_said() -> None:
    fleet = updated(Fleet(node("a", 8)))
    assert len(fleet.workload(1).rolling) == 4
    assert why(fleet, 1).growth is None


def test_a_revision_that_no_node_could_hold_is_told_as_that_while_others_serve() -> None:
    told = growth(updated(Fleet(node("a", 4)), whole(6)))
    assert (told.has, told.before, told.code) == (0, 4, "TooLarge")


def test_a_silent_cluster_and_a_pause_after_a_failure_come_before_the_update() -> None:
    fleet = updated(Fleet(node("a", 8)))
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=1, exit_code=3, failure=FailureClass.EXIT))
    fleet.send(fleet.status(1, None, rank=1, exit_code=3, failure=FailureClass.EXIT, gone=True))
    assert (growth(fleet).has, growth(fleet).code) == (3, "Backoff")
    quiet = updated(Fleet(node("a", 4)))
    quiet.now += 40_000_000
    quiet.send()
    assert (growth(quiet).before, growth(quiet).code) == (3, "NodesUnavailable")
