"""What making room comes to is told with the numbers of the attempt, and asking changes nothing."""

from __future__ import annotations

from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND
from tests.support.fleets import Fleet, node, request, role, whole


def told(fleet: Fleet, number: int) -> dict[str, str]:
    """The attempts by what bars them."""
    digest = fleet.state.digest()
    found = {each.lack: each.text for each in explain(fleet.world, fleet.workload(number)).attempts}
    assert fleet.state.digest() == digest, "a question has changed the state"
    return found


def full(*, preemptible: bool = True, others: int = 4) -> Fleet:
    """8 GPUs: `p` deserves 4 and holds them, `b` holds the other 4."""
    fleet = Fleet(node("n1", 4), node("n2", 4), quota=4)
    fleet.project("b", {"default": others})
    for number in range(1, 5):
        fleet.submit(number)
        fleet.submit(number + 4, request(preemptible=preemptible), project="b")
    return fleet


def test_a_project_that_would_hold_more_than_its_share() -> None:
    fleet = full(preemptible=False)
    fleet.submit(9, request(role(whole(2))))
    assert told(fleet, 9) == {
        "share": "p would hold 6 GPUs, and its fair share is 4 GPUs",
        "nothing": "no preemptible work of p ranks below it",
        "non-preemptible": "work that is not preemptible holds 4 of the 8 GPUs there",
    }


def test_the_shares_of_project_and_department() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.project("b", {"default": 0})
    fleet.department("d", {"default": 3})
    fleet.submit(1, request(role(whole(3))))
    fleet.submit(2, request(role(whole(2))))
    shares = [
        (s.queue, s.department, *(n / 7000 for n in s[3:8])) for s in explain(fleet.world, fleet.workload(2)).shares
    ]
    assert shares == [("p", False, 4, 4, 3, 5, 4), ("d", True, 3, 4, 3, 5, 4)]


def test_others_hold_too_little_beyond_their_shares() -> None:
    fleet = Fleet(node("n1", 8), quota=4)
    fleet.project("b", {"default": 4})
    fleet.submit(1, request(role(whole(4)), preemptible=False), project="b")
    fleet.submit(2, project="b")
    fleet.submit(3, request(role(whole(2)), preemptible=False))
    fleet.project("b", {"default": 0})
    fleet.project("p", {"default": 8})
    fleet.submit(4, request(role(whole(4))))
    assert told(fleet, 4) == {
        "nothing": "free, or held by others beyond their shares: at most 3 GPUs of the 4 GPUs that it needs",
        "non-preemptible": "work that is not preemptible holds 6 of the 8 GPUs there",
    }


def test_replicas_that_would_fit_even_then() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4), quota=8)
    fleet.project("b", {"default": 3})
    fleet.submit(1, request(role(whole(4)), preemptible=False))
    fleet.submit(2, request(preemptible=False), project="b")
    fleet.submit(3, request(role(whole(3))), project="b")
    fleet.submit(4, request(role(whole(2), 2)))
    assert told(fleet, 4) == {
        "places": "1 of its 2 replicas would fit even if others gave back all that they hold beyond their shares",
        "non-preemptible": "work that is not preemptible holds 5 of the 8 GPUs there",
    }


def test_lower_work_of_the_own_project_is_not_enough() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2)
    fleet.submit(3, request(priority=75))
    fleet.submit(4, request(role(whole(2)), priority=75))
    found = told(fleet, 4)
    assert found["places"] == "it would not fit even if all preemptible work of its project that ranks below it left"


def test_who_was_evicted_evicts_nobody() -> None:
    fleet = full(others=0)
    fleet.submit(9, request(priority=75))
    (victim,) = [n for n in range(1, 9) if fleet.workload(n).preempted_by]
    fleet.gone(victim)
    assert told(fleet, victim) == {"returning": "it gave up its own place, and displaces no other workload to return"}


def test_who_has_hardly_begun_is_not_asked() -> None:
    fleet = Fleet(node("n1", 1), limits=Limits(minimum_run=600 * SECOND))
    fleet.submit(1)
    fleet.submit(2, request(priority=75))
    assert told(fleet, 2)["minimum-run"] == "1 workload may not be asked to leave before having run for 600 s"


def test_what_lacks_a_quota_has_made_no_attempt() -> None:
    fleet = Fleet(node("n1", 2), quota=1)
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    assert told(fleet, 1) == {}


def test_of_several_node_pools_it_is_said_which_is_meant() -> None:
    fleet = Fleet(node("n1", 2), node("n2", 4, pool="old"), quota=6)
    for number, pool in enumerate(("default", "default", "old", "old"), 1):
        fleet.submit(number, request(role(whole(1)), preemptible=False, pools=(pool,)))
    both, one = request(role(whole(3)), pools=("default", "old")), request(role(whole(3)), pools=("old",))
    for number, asked in ((8, both), (9, one)):
        fleet.submit(number, asked)
    text = "work that is not preemptible holds 2 of the"
    held = [
        [each.text for each in explain(fleet.world, fleet.workload(number)).attempts if each.lack == "non-preemptible"]
        for number in (8, 9)
    ]
    assert held == [
        [f"in node pool default: {text} 2 GPUs there", f"in node pool old: {text} 4 GPUs there"],
        [f"{text} 4 GPUs there"],
    ]


def test_ways_that_both_make_room_do_not_meet_in_the_books() -> None:
    fleet = Fleet(node("n1", 2), node("n2", 1, pool="old"), quota=0)
    fleet.project("b", {"default": 0, "old": 0})
    fleet.submit(9, request(pools=("old",)))
    fleet.submit(1)
    fleet.submit(2, request(priority=40), project="b")
    fleet.submit(3, request(preemptible=False, pools=("default", "old")), project="b")
    digest = fleet.state.digest()
    told = explain(fleet.world, fleet.workload(3)).unblockers
    assert told == tuple(
        f"b deserved 1 GPU in node pool {pool} (1 workload of other projects would leave for it)"
        for pool in ("default", "old")
    )
    assert fleet.state.digest() == digest
