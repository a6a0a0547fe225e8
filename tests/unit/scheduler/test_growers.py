"""Who would have a replica or a start before what grows: others that grow, and whoever waits before an elastic gang."""

from __future__ import annotations

from muster_kernel.reasons import FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import ReplicaState
from tests.support.fleets import Fleet, node, request, workload_id
from tests.support.growing import elastic, growth, service, started


def test_who_grows_before_it_is_named() -> None:
    fleet = Fleet(node("a", 3))
    fleet.submit(3, request(preemptible=False))
    fleet.submit(1, service(1, 3))
    fleet.submit(2, service(1, 3))
    fleet.send(*(events.ScaleAdvised(workload_id(number), 3) for number in (1, 2)))
    ended = "w3 (1 GPU, non-preemptible, Initializing) ended"
    assert growth(fleet, 1).helps == ("w2 (1 GPU, preemptible, Initializing) ended", ended)
    assert growth(fleet, 2).helps == (
        "w1 (1 GPU, preemptible, Initializing) ended",
        f"{ended}, and w1 did not take the place first",
    )


def test_who_rests_or_has_a_limit_of_its_own_is_in_nobodys_way() -> None:
    fleet = Fleet(node("a", 4))
    fleet.project("q", {"default": 100}, limit=1)
    fleet.submit(4, request(preemptible=False))
    fleet.submit(1, service(1, 3), project="q")
    fleet.submit(2, service(1, 1))
    fleet.submit(3, service(1, 3))
    fleet.send(*(events.ScaleAdvised(workload_id(number), 3) for number in (1, 3)))
    fleet.send(fleet.status(2, ReplicaState.FAILED, exit_code=3, failure=FailureClass.EXIT))
    fleet.send(fleet.status(2, None, exit_code=3, failure=FailureClass.EXIT, gone=True))
    assert growth(fleet, 1).code == "OverLimit"
    assert growth(fleet, 2).code == "Backoff"
    assert growth(fleet, 3).helps[-1] == "w4 (1 GPU, non-preemptible, Initializing) ended"


def test_of_elastic_gangs_the_one_with_less_surplus_comes_first() -> None:
    fleet = Fleet(node("a", 5))
    fleet.submit(3, request(preemptible=False))
    fleet.submit(1, elastic(1, 4))
    fleet.submit(2, elastic(1, 4))
    for _ in range(2):
        fleet.run(1)
        fleet.run(2)
        fleet.wait(30)
    assert [len(fleet.workload(number).replicas) for number in (1, 2)] == [2, 2]
    ended = "w3 (1 GPU, non-preemptible, Initializing) ended"
    assert growth(fleet, 1).helps[0] == ended
    assert growth(fleet, 2).helps[0] == f"{ended}, and w1 did not take the place first"


def test_whoever_waits_for_the_same_limit_comes_before_a_gang_that_grows() -> None:
    fleet = Fleet(node("a", 8))
    fleet.project("p", {"default": 100}, limit=2)
    started(fleet, elastic(2, 6))
    fleet.submit(2)
    assert growth(fleet).helps == ("p might hold 3 GPUs in node pool default, and w2 did not take the place first",)
