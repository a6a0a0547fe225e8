"""Nodes are kept for the first blocked head of a pool, and only what cannot delay it may use them meanwhile."""

from __future__ import annotations

from importlib.metadata import version

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.adapters.workload_rows import of_workload, to_workload
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.workloads import SECOND, Stretch, WorkloadKind
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.settings import SchedulerSettings
from tests.support.fleets import Fleet, host, node, request, role, whole

STARTS, WAITS = Phase.INITIALIZING, Phase.PENDING
RESERVED = Reason(WaitingReason.RESERVED, (1,))


def limited(fleet: Fleet, name: str, seconds: int, *, gpus: int = 100) -> None:
    """A project whose trainings run for so long at most."""
    quota = {"default": Quota(gpus * GPU)}
    fleet.send(events.ProjectChanged(Project(name, "d", quota, 0, Rules(training_time=seconds))))


def blocked_head(*, quota: int = 100) -> Fleet:
    """Two nodes of four GPUs, two held of each by work that cannot be moved; a workload that needs four waits."""
    fleet = Fleet(node("a", 4), node("b", 4), quota=quota)
    for number in (1, 2):
        fleet.submit(number, request(role(whole(3)), preemptible=False))
    fleet.submit(3, request(role(whole(4)), preemptible=False))
    return fleet


def head_beyond() -> Fleet:
    """A node with three free GPUs and little CPU, for which a workload of a project that deserves nothing waits."""
    fleet = Fleet(node("a", 4), quota=0)
    for name, deserved in (("q", 1), ("r", 0)):
        fleet.project(name, {"default": deserved})
    fleet.submit(1, request(role(whole(1, cpu=60_000))))
    assert fleet.submit(2, request(role(whole(2, cpu=8_000)))).phase is WAITS
    return fleet


def test_work_that_comes_later_does_not_take_what_becomes_free() -> None:
    fleet = blocked_head()
    head = fleet.workload(3)
    assert head.reservation is not None
    (kept,) = head.reservation.nodes
    later = [fleet.submit(number, request(preemptible=False)) for number in (4, 5)]
    assert [w.phase for w in later] == [STARTS, WAITS], "the node that is not kept has one GPU free"
    assert later[0].replicas["worker", 0].node[1] != kept
    assert fleet.world.waiting.reason(later[1].id) == RESERVED
    holder = next(n for n in (1, 2) if fleet.workload(n).replicas["worker", 0].node[1] == kept)
    fleet.finish(holder)
    assert head.phase is STARTS
    assert head.reservation is None
    assert later[1].phase is WAITS
    assert fleet.world.reserved == {("c1", "default"): later[1].id}, "it is the first blocked head now"


def test_a_reservation_ends_with_its_head() -> None:
    fleet = blocked_head()
    for number in (4, 5):
        fleet.submit(number, request(preemptible=False))
    assert fleet.workload(5).phase is WAITS
    fleet.send(events.DeletionRequested("e", fleet.workload(3).id))
    assert fleet.workload(5).phase is STARTS
    assert not fleet.world.reserved


def test_a_reservation_ends_where_the_quota_falls() -> None:
    fleet = blocked_head()
    fleet.project("q", {"default": 100})
    for number in (4, 5):
        fleet.submit(number, request(preemptible=False), project="q")
    assert fleet.workload(5).phase is WAITS
    fleet.project("p", {"default": 7})
    assert not fleet.world.reserved
    assert fleet.workload(5).phase is STARTS


def test_what_ends_before_the_head_can_start_may_run_on_what_is_kept() -> None:
    fleet = Fleet(node("a", 4))
    limited(fleet, "slow", 1000)
    limited(fleet, "quick", 500)
    fleet.submit(1, request(role(whole(3)), preemptible=False), project="slow")
    head = fleet.submit(2, request(role(whole(4)), preemptible=False))
    assert head.reservation is not None
    assert head.reservation.until == fleet.now + 1030 * SECOND
    fleet.wait(1)
    assert fleet.submit(3, request(preemptible=False), project="slow").phase is WAITS
    assert fleet.submit(4, request(preemptible=False), project="quick").phase is STARTS
    fleet.finish(4)
    fleet.wait(500)
    assert fleet.submit(5, request(preemptible=False), project="quick").phase is WAITS


def test_what_the_head_may_preempt_does_not_delay_it() -> None:
    fleet = blocked_head()
    fleet.submit(4, request(preemptible=False))
    below = fleet.submit(5, request(priority=10))
    assert below.phase is STARTS
    fleet.finish(1 if fleet.workload(1).replicas["worker", 0].node == below.replicas["worker", 0].node else 2)
    assert below.phase is Phase.TERMINATING
    assert (fleet.workload(3).claim is not None, fleet.workload(3).reservation) == (True, None), "it has its room now"
    assert not fleet.world.reserved
    fleet.gone(5)
    assert fleet.workload(3).phase is STARTS


def test_the_higher_priority_of_a_project_passes() -> None:
    fleet = blocked_head()
    fleet.submit(4, request(preemptible=False))
    assert fleet.submit(5, request(priority=90, preemptible=False)).phase is STARTS


def test_who_stays_within_what_he_deserves_passes_a_head_beyond() -> None:
    fleet = head_beyond()
    head = fleet.workload(2)
    assert head.reservation is not None
    assert head.reservation.beyond
    assert fleet.submit(3, project="r").phase is WAITS
    assert fleet.submit(4, request(preemptible=False), project="q").phase is STARTS


def test_a_head_beyond_its_share_gets_nothing() -> None:
    fleet = Fleet(node("a", 4), quota=0)
    fleet.project("q", {"default": 4})
    fleet.submit(1, request(role(whole(3)), preemptible=False), project="q")
    head = fleet.submit(2, request(role(whole(2))))
    assert head.phase is WAITS
    assert head.reservation is None


def test_only_one_is_reserved_for_and_the_next_follows() -> None:
    fleet = blocked_head()
    second = fleet.submit(4, request(role(whole(4)), preemptible=False, kind=WorkloadKind.DISTRIBUTED))
    assert second.reservation is None
    assert fleet.world.reserved == {("c1", "default"): fleet.workload(3).id}
    fleet.finish(1)
    assert fleet.workload(3).phase is STARTS
    assert fleet.world.reserved == {("c1", "default"): second.id}


def test_a_node_that_goes_is_kept_no_longer() -> None:
    fleet = blocked_head()
    head = fleet.workload(3)
    assert head.reservation is not None
    since, (kept,) = head.reservation.since, head.reservation.nodes
    other = "b" if kept == "a" else "a"
    fleet.now += 5 * SECOND
    fleet.inventory("c1", [node(other, 4)])
    assert head.reservation is not None
    assert head.reservation.nodes == (other,)
    assert head.reservation.since == since


def test_without_reservations_small_work_takes_what_becomes_free() -> None:
    fleet = Fleet(node("a", 4), limits=Limits(reserves=False))
    fleet.submit(1, request(role(whole(3)), preemptible=False))
    assert fleet.submit(2, request(role(whole(4)), preemptible=False)).reservation is None
    assert fleet.submit(3, request(preemptible=False)).phase is STARTS
    assert SchedulerSettings.model_construct(reserves=False).limits() == Limits(
        reserves=False, version=version("muster-scheduler")
    )


def test_a_head_that_fits_nowhere_even_in_time_gets_nothing() -> None:
    fleet = Fleet(node("a", 4), node("b", 2))
    fleet.submit(1, request(role(whole(3)), preemptible=False))
    fleet.inventory("c1", [node("a", 4, state=NodeState.CORDONED), node("b", 2)])
    head = fleet.submit(2, request(role(whole(4)), preemptible=False))
    assert (head.phase, head.reservation) == (WAITS, None)
    assert fleet.submit(3, request(role(whole(2)), preemptible=False)).phase is STARTS


def test_a_window_that_ends_is_a_moment_by_which_the_head_fits() -> None:
    closed = node("a", 4)
    fleet = Fleet(node("b", 1))
    closed.windows = ((fleet.now - SECOND, fleet.now + 600 * SECOND),)
    fleet.inventory("c1", [closed, node("b", 1)])
    head = fleet.submit(1, request(role(whole(4)), preemptible=False))
    assert head.reservation is not None
    assert (head.reservation.nodes, head.reservation.until) == (("a",), fleet.now + 600 * SECOND)
    fleet.wait(601)
    assert head.phase is STARTS


def test_a_restart_and_an_abort_keep_it() -> None:
    fleet = blocked_head()
    kept, digest = fleet.workload(3).reservation, fleet.state.digest()
    fleet.state.begin(fleet.now)
    fleet.state.apply(events.DeletionRequested("e", fleet.workload(3).id))
    fleet.state.propose()
    assert not fleet.world.reserved
    fleet.state.abort()
    assert fleet.state.digest() == digest
    assert fleet.world.reserved == {("c1", "default"): fleet.workload(3).id}
    row = to_workload(
        {"id": "3", "project": "p", "name": "w", "phase": "Pending", "desired": "Running", "attempt": 1}
        | {"body": of_workload(fleet.workload(3))},
        {},
    )[0]
    assert row.reservation == kept is not None


def test_others_in_front_may_still_take_back_what_they_deserve() -> None:
    fleet = Fleet(node("a", 4), quota=4)
    fleet.project("r", {"default": 0})
    fleet.project("z", {"default": 1})
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    for number in (2, 3):
        fleet.submit(number, project="r")
    head = fleet.submit(4, request(role(whole(4)), preemptible=False, priority=40))
    assert head.phase is WAITS
    taker = fleet.submit(5, request(preemptible=False), project="z")
    assert taker.claim is not None


def test_a_department_that_is_beyond_what_it_deserves_lets_nobody_pass() -> None:
    fleet = head_beyond()
    fleet.department("d", {"default": 0})
    assert fleet.workload(2).reservation is not None
    assert fleet.submit(4, project="q").phase is WAITS


def test_what_has_to_run_for_a_while_does_not_give_way_in_time() -> None:
    fleet = Fleet(node("a", 4), limits=Limits(minimum_run=3600 * SECOND))
    fleet.submit(1, request(role(whole(3)), preemptible=False))
    assert fleet.submit(2, request(role(whole(4)), preemptible=False)).reservation is not None
    assert fleet.submit(3, request(priority=10)).phase is WAITS
    equal = Fleet(node("a", 4))
    equal.submit(1, request(role(whole(3)), preemptible=False))
    equal.submit(2, request(role(whole(4))))
    assert equal.submit(3).phase is WAITS, "one of the same priority gives way to no preemptible head"


def test_a_head_that_passes_its_time_is_given_another() -> None:
    fleet = Fleet(node("a", 4))
    limited(fleet, "slow", 1000)
    fleet.submit(1, request(role(whole(3)), preemptible=False), project="slow")
    head = fleet.submit(2, request(role(whole(4)), preemptible=False))
    since = fleet.now
    fleet.wait(1001)
    assert fleet.workload(1).remaining, "it was told to leave and has not"
    fleet.wait(100)
    assert head.reservation is not None
    assert (head.reservation.until, head.reservation.since) == (0, since)
    fleet.gone(1)
    assert head.phase is STARTS


def test_whoever_counted_on_those_who_leave_looks_elsewhere_once_that_room_is_kept_for_another() -> None:
    made = Fleet(node("a", 2), node("b", 2), quota=4)
    made.project("q", {"default": 2})
    for number in (1, 2):
        made.submit(number, request(role(whole(2)), priority=25))
        made.run(number)
    made.send(events.SuspendRequested("e", made.workload(1).id))
    made.send(
        made.admitted(3, request(role(whole(2)), preemptible=False), project="q"),
        made.admitted(4, request(role(whole(2)), priority=75)),
    )
    kept, claim = made.workload(3).reservation, made.workload(4).claim
    assert kept is not None
    assert kept.nodes == ("a",), "both waited for the one who leaves it"
    assert claim is not None
    assert claim.waits_for == (made.workload(2).id,)


def test_room_is_made_on_nodes_that_are_kept_for_nobody_any_more() -> None:
    made = Fleet(node("a", 3), quota=4)
    made.project("q", {"default": 3})
    made.submit(1, request(role(whole()), preemptible=False)._replace(stretch=Stretch("worker", 1, 2)))
    made.run(1)
    made.wait(31)
    made.wait(31)
    assert len(made.workload(1).replicas) == 2
    made.submit(2, request(role(whole(3)), preemptible=False), project="q")
    made.submit(3, request(role(whole(2)), preemptible=False))
    assert made.workload(2).reservation is not None
    assert made.workload(3).claim is None
    made.send(events.DeletionRequested("e", made.workload(2).id))
    claim = made.workload(3).claim
    assert claim is not None
    assert claim.waits_for == (made.workload(1).id,), "its gang can do without one"


def test_what_gangs_can_do_without_keeps_nobody_behind_a_head_beyond_its_quota() -> None:
    made = Fleet(node("a", 4), quota=0)
    made.project("q", {"default": 2})
    made.submit(1, request(role(host(58_000))))
    made.submit(2, request(role(whole()))._replace(stretch=Stretch("worker", 1, 2)), project="q")
    made.run(2)
    made.wait(31)
    made.wait(31)
    assert len(made.workload(2).replicas) == 2
    head = made.submit(3, request(role(whole(2, cpu=8_000))))
    assert head.reservation is not None
    assert head.reservation.beyond
    assert made.submit(4, project="q").phase is STARTS, "its project deserves two, and needs one"


def test_whoever_of_a_class_is_first_goes_first_also_where_nodes_are_kept_for_another_of_it() -> None:
    made = Fleet(node("a", 2), quota=4)
    made.submit(1, request(role(whole(2)), preemptible=False))
    made.run(1)
    head = made.submit(5, request(role(whole(2)), preemptible=False))
    assert head.reservation is not None
    earlier = made.submit(4, request(role(whole(2)), preemptible=False))
    made.finish(1)
    assert (earlier.phase, head.phase) == (STARTS, WAITS)


def test_nothing_is_kept_for_a_project_whose_department_is_beyond_its_share() -> None:
    fleet = Fleet(node("a", 4), node("b", 4))
    fleet.department("d1", {"default": 2})
    fleet.department("d2", {"default": 6})
    for name, department in (("x", "d1"), ("y", "d1"), ("z", "d2")):
        fleet.project(name, {"default": 6}, department=department)
    for number in (1, 2):
        fleet.submit(number, request(role(whole(3)), preemptible=False), project="z")
    head = fleet.submit(3, request(role(whole(4)), preemptible=True), project="x")
    assert (head.phase, head.reservation) == (WAITS, None), "x deserves four, its department two"


def test_what_a_head_gave_up_for_others_it_takes_from_nobody() -> None:
    fleet = Fleet(node("a", 4), node("b", 4))
    fleet.submit(1, request(role(whole(3)), preemptible=False))
    evicted = fleet.submit(2, request(role(whole(4))))
    fleet.submit(3, request(role(whole(2)), priority=75, preemptible=False))
    fleet.gone(2)
    assert evicted.preempted_by
    assert evicted.reservation is not None
    lower = [fleet.submit(number, request(priority=10)) for number in (4, 5)]
    assert [w.phase for w in lower] == [STARTS, WAITS], "the head evicts nobody in order to come back"
