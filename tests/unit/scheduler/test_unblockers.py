"""What is said would let a workload start does let it start."""

from __future__ import annotations

from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain.answers.explain import Explanation, explain
from muster_scheduler.domain.answers.viewing import Viewer
from tests.support.fleets import Fleet, node, request, role, whole


def why(fleet: Fleet, number: int) -> Explanation:
    digest = fleet.state.digest()
    answer = explain(fleet.world, fleet.workload(number))
    assert fleet.state.digest() == digest, "a question has changed the state"
    return answer


def test_quota_and_what_would_help() -> None:
    fleet = Fleet(node("n1", 8), quota=2)
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, request(role(whole(4)), preemptible=False))
    answer = why(fleet, 2)
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.OVER_QUOTA
    assert answer.reason.named() == {"used": 2 * GPU, "deserved": 2 * GPU, "short": 4 * GPU, "queue": 0}
    assert answer.unblockers == (
        "it were preemptible (there is room in node pool default, over quota)",
        "p deserved 6 GPUs in node pool default",
    )
    fleet.project("p", {"default": 6})
    assert fleet.workload(2).replicas


def test_quota_without_room() -> None:
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, request(preemptible=False))
    assert why(fleet, 2).unblockers == ("p deserved 3 GPUs in node pool default, and there was room",)


def test_who_would_have_to_end() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(whole(1))))
    fleet.submit(2, request(role(whole(3)), preemptible=False))
    fleet.submit(3, request(role(whole(3))))
    answer = why(fleet, 3)
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.NO_CAPACITY
    assert answer.unblockers == ("w2 (3 GPUs, non-preemptible, Initializing) ended",)
    assert answer.rank == 1
    fleet.finish(2)
    assert fleet.workload(3).replicas


def test_who_would_have_to_end_together() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 2), quota=4)
    fleet.project("b", {"default": 2})
    for number in range(1, 5):
        fleet.submit(number)
    fleet.submit(5, request(role(whole(2)), preemptible=False), project="b")
    fleet.submit(6, request(role(whole(3))))
    assert why(fleet, 6).unblockers == ("w5 and w4 ended (3 GPUs together)",)
    for number in (4, 5):
        fleet.finish(number)
    assert fleet.workload(6).replicas


def test_nobody_is_named_to_whom_may_not_see_them() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.project("b", {"default": 3})
    fleet.submit(1, request(role(whole(1)), preemptible=False))
    fleet.submit(2, request(role(whole(3)), preemptible=False), project="b")
    fleet.submit(3, request(role(whole(2)), preemptible=False))
    told = explain(fleet.world, fleet.workload(3), Viewer(frozenset({"p"}))).unblockers
    assert told[0] == "a workload of another project (3 GPUs, non-preemptible, Initializing) ended"
    assert explain(fleet.world, fleet.workload(3)).unblockers[0] == told[0].replace(
        "a workload of another project", "w2"
    )


def test_of_a_set_only_those_are_named_whom_one_may_see() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.project("b", {"default": 0})
    fleet.submit(1)
    fleet.submit(2, project="b")
    one, two = fleet.workload(1), fleet.workload(2)
    assert Viewer(None).names([one, two]) == "w1 and w2"
    assert Viewer(frozenset({"b"})).names([one, two]) == "w2 and 1 more"
    assert Viewer(frozenset()).names([one, two]) == "2 workloads of other projects"
    assert Viewer(frozenset()).names([two]) == "1 workload of other projects"
    assert Viewer(None).names([one] * 8) == "w1, w1, w1, w1, w1, w1 and 2 more"


def test_the_smallest_quota_with_which_others_would_leave() -> None:
    fleet = Fleet(node("n1", 4), quota=1)
    fleet.project("b", {"default": 0}, weight=3000)
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2, request(role(whole(3))), project="b")
    fleet.submit(3, request(role(whole(2))))
    assert why(fleet, 3).unblockers == (
        "w2 (3 GPUs, preemptible, Initializing) ended",
        "p deserved 3 GPUs in node pool default (1 workload of other projects would leave for it)",
    )
    fleet.project("p", {"default": 3})
    assert fleet.workload(3).claim is not None


def test_less_than_all_that_it_holds_is_enough_where_its_share_grows_with_its_quota() -> None:
    fleet = Fleet(node("n1", 8), quota=2)
    fleet.project("b", {"default": 0})
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    for number in range(2, 8):
        fleet.submit(number, project="b")
    fleet.submit(8, request(role(whole(4))))
    (_, told) = why(fleet, 8).unblockers
    assert told == "p deserved 4 GPUs in node pool default (4 workloads of other projects would leave for it)"
    fleet.project("p", {"default": 3})
    assert fleet.workload(8).claim is None
    fleet.project("p", {"default": 4})
    assert fleet.workload(8).claim is not None


def test_a_quota_with_which_others_would_leave_for_what_is_not_preemptible() -> None:
    fleet = Fleet(node("n1", 4), quota=1)
    fleet.project("b", {"default": 0})
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2, request(role(whole(3))), project="b")
    fleet.submit(3, request(role(whole(2)), preemptible=False))
    told = "p deserved 3 GPUs in node pool default (1 workload of other projects would leave for it)"
    assert why(fleet, 3).unblockers == (told,)
    fleet.project("p", {"default": 3})
    assert fleet.workload(3).claim is not None


def test_which_node_types_would_do() -> None:
    typed = [node("n1", 2), node("n2", 2), node("n3", 1)]
    for each, kind in zip(typed, "bba", strict=True):
        each.labels = (("run.ai/type", kind),)
    fleet = Fleet(*typed)
    for number in (1, 2):
        fleet.submit(number, request(role(whole(2)), preemptible=False))
    asked = request(role(whole(2)))
    fleet.submit(3, asked._replace(terms=asked.terms._replace(node_type="z")))
    assert why(fleet, 3).unblockers == ("it asked for node type b, and there was room",)
