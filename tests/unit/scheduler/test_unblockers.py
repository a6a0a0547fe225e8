"""What is said would let a workload start does let it start."""

from __future__ import annotations

from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Line, Quota, UserLimit
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.books.queues import Project
from tests.support.asking import why
from tests.support.fleets import GIB, Fleet, host, node, request, role, whole


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


def test_all_that_bars_it_is_said_together() -> None:
    fleet = Fleet(node("n1", 8), quota=8)
    fleet.department("d", {"default": 4}, limit=6)
    fleet.project("p", {"default": 8}, users=(UserLimit("", 3 * GPU),))
    fleet.submit(1, request(role(whole(3))))
    fleet.submit(2, request(role(whole(4))))
    answer = why(fleet, 2)
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.OVER_LIMIT
    (told,) = answer.unblockers
    first, _, second = told.partition(" and ")
    assert first == "department d might hold 7 GPUs in node pool default"
    assert second == "one user of p might hold 7 GPUs in all node pools together"
    fleet.department("d", {"default": 4}, limit=7)
    assert not fleet.workload(2).replicas, "the first alone is not enough"
    fleet.project("p", {"default": 8}, users=(UserLimit("", 7 * GPU),))
    assert fleet.workload(2).replicas


def test_host_resources_and_deserved_quotas_are_allowed_one_after_the_other() -> None:
    fleet = Fleet(node("n1", 8), quota=8)
    quota = {"default": Quota(GPU, cpu=Line(500, 700), memory=Line(0, GIB >> 1))}
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 0)))
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    (told,) = why(fleet, 1).unblockers
    for part in ("p deserved 2 GPUs", "p deserved 1 CPU", "p deserved 1Gi of memory", "p might hold 1 CPU"):
        assert part in told
    enough = {"default": Quota(2 * GPU, cpu=Line(1000, 1000), memory=Line(GIB))}
    fleet.send(events.ProjectChanged(Project("p", "d", enough, 0)))
    assert fleet.workload(1).replicas


def test_what_could_never_run_is_said_before_any_quota() -> None:
    fleet = Fleet(node("n1", 4), quota=2)
    fleet.submit(1, request(role(whole(9)), preemptible=False))
    answer = why(fleet, 1)
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.TOO_LARGE
    joined = "a node with 1 CPU, 1Gi of memory and 9 GPUs joined node pool default"
    assert answer.unblockers == (
        "it asked for at most 2 GPUs on one node",
        f"{joined} and p deserved 9 GPUs in node pool default",
    )


def test_who_holds_no_gpu_is_not_said_to_hold_none() -> None:
    fleet = Fleet(node("n1", 0, cpu=2_000))
    fleet.submit(1, request(role(host(1_000)), preemptible=False))
    fleet.submit(2, request(role(host(1_000)), preemptible=False))
    fleet.submit(3, request(role(host(2_000))))
    assert why(fleet, 3).unblockers == ("w1 and w2 ended",)
    other = Fleet(node("n1", 0, cpu=1_000))
    other.submit(1, request(role(host(1_000)), preemptible=False))
    other.submit(2, request(role(host(1_000))))
    assert why(other, 2).unblockers == ("w1 (non-preemptible, Initializing) ended",)


def test_asking_for_less_is_told_as_far_as_limits_allow() -> None:
    fleet = Fleet(node("n1", 4), quota=8)
    fleet.project("p", {"default": 8}, limit=2)
    fleet.submit(1, request(role(whole(5))))
    joined = "a node with 1 CPU, 1Gi of memory and 5 GPUs joined node pool default"
    assert why(fleet, 1).unblockers == (
        "it asked for at most 2 GPUs on one node",
        f"{joined} and p might hold 5 GPUs in node pool default",
    )
    fleet.submit(2, request(role(whole(2))))
    assert fleet.workload(2).replicas


def test_a_gang_is_told_as_many_replicas_as_its_limit_allows() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4), quota=8)
    fleet.project("p", {"default": 8}, limit=5)
    fleet.submit(1, request(role(whole(2), 5)))
    assert why(fleet, 1).unblockers == ("it had at most 2 replicas",)
    fleet.project("p", {"default": 8}, limit=1)
    held = "it had at most 4 replicas and p might hold 8 GPUs in node pool default"
    assert why(fleet, 1).unblockers == (held,)
    fleet.project("p", {"default": 8}, limit=8)
    fleet.submit(2, request(role(whole(2), 4)))
    assert fleet.workload(2).replicas


def test_another_pool_and_the_quota_that_it_takes_there_are_said_together() -> None:
    fleet = Fleet(node("n1", 4, pool="lab"), quota=0)
    fleet.project("p", {"lab": 4}, limit=1)
    fleet.submit(1, request(role(whole(2)), pools=("nope",)))
    assert why(fleet, 1).unblockers == ("it asked for node pool lab and p might hold 2 GPUs in node pool lab",)


def test_no_quota_is_told_alone_where_the_node_type_is_in_the_way_as_well() -> None:
    typed = node("n1", 4)
    typed.labels = (("run.ai/type", "b"),)
    fleet = Fleet(typed, quota=1)
    asked = request(role(whole(2)), preemptible=False)
    fleet.submit(1, asked._replace(terms=asked.terms._replace(node_type="z")))
    told = ("it asked for node type b and p deserved 2 GPUs in node pool default",)
    assert why(fleet, 1).unblockers == told
    fleet.project("p", {"default": 2})
    assert not fleet.workload(1).replicas, "the quota alone is not enough"
    fleet.submit(2, asked._replace(terms=asked.terms._replace(node_type="b")))
    assert fleet.workload(2).replicas


def test_a_gang_in_groups_is_told_whole_groups_only() -> None:
    nodes = [node(f"n{number}", 1) for number in range(5)]
    for number, each in enumerate(nodes):
        each.labels = (("rack", "a" if number < 3 else "b"),)
    fleet = Fleet(*nodes)
    asked = request(role(whole(1), 6))
    threes = asked.terms._replace(topology=Wish(group="rack", group_size=3))
    fleet.submit(1, asked._replace(terms=threes))
    assert why(fleet, 1).unblockers[0] == "it had at most 3 replicas"
    three = request(role(whole(1), 3))
    fleet.submit(2, three._replace(terms=three.terms._replace(topology=Wish(group="rack", group_size=3))))
    assert fleet.workload(2).replicas
    small = Fleet(*nodes[3:])
    small.submit(1, three._replace(terms=threes))
    assert not any("replica" in text for text in why(small, 1).unblockers), "two do not make a group"


def test_of_a_gang_of_several_roles_the_largest_is_told_with_fewer_replicas() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(host(1_000), 1, "launcher"), role(whole(1), 6)))
    assert why(fleet, 1).unblockers == ("it had at most 4 replicas of worker",)
    fleet.submit(2, request(role(host(1_000), 1, "launcher"), role(whole(1), 4)))
    assert fleet.workload(2).replicas


def test_of_very_many_small_workloads_those_of_one_node_are_named() -> None:
    fleet = Fleet(*(node(f"n{number:02}", 8) for number in range(20)), quota=160)
    fleet.send(*(fleet.admitted(number, request(preemptible=False)) for number in range(1, 161)))
    fleet.submit(200, request(role(whole(8)), preemptible=False))
    fleet.project("p", {"default": 168})
    (told,) = (text for text in why(fleet, 200).unblockers if "ended" in text)
    assert told.endswith("and 2 more ended (8 GPUs together)")
    on_first = [w.id for w in fleet.world.workloads.values() if w.replicas and w.replicas["worker", 0].node[1] == "n00"]
    assert len(on_first) == 8
    for number in [int(each[-12:], 16) for each in on_first]:
        fleet.finish(number)
    assert fleet.workload(200).replicas


def test_of_several_clusters_the_smallest_that_would_do_are_named() -> None:
    fleet = Fleet(node("a1", 4), node("a2", 4), node("a3", 4), node("b1", 3, cluster="c2"), quota=20)
    for number in (1, 2, 3):
        fleet.submit(number, request(role(whole(4)), preemptible=False))
    fleet.submit(4, request(role(whole(3)), preemptible=False))
    fleet.submit(5, request(role(whole(2))))
    assert [fleet.workload(number).cluster for number in (1, 2, 3, 4)] == ["c1", "c1", "c1", "c2"]
    assert [told.partition(" ")[0] for told in why(fleet, 5).unblockers[:3]] == ["w4", "w1", "w2"]
    fleet.finish(4)
    assert fleet.workload(5).cluster == "c2"


def test_to_ask_for_no_gpu_at_all_is_no_help() -> None:
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.submit(1, request(role(whole(4), 3), preemptible=False))
    assert not any("at most 0" in told for told in why(fleet, 1).unblockers)
