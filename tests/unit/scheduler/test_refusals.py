"""What agents refuse: for how long a place is left out, who gets another one, and what `why` says of it."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import FailureClass, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.adapters.workload_rows import of_workload, to_workload
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.refusals import NEVER
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Workload, WorkloadKind
from muster_scheduler.domain.fleet.clusters import Profile
from tests.support.fleets import Fleet, node, request, role, whole


def refuse(
    fleet: Fleet,
    number: int = 1,
    code: str = "ForeignTaken",
    retry: int = 30,
    where: str = "",
    message: str = "m",
    meant: tuple[str, int, int] | None = None,
    final: bool = False,
) -> None:
    """An agent's refusal of the workload's newest attempt."""
    workload = fleet.workload(number)
    run = (workload.cluster, fleet.order(workload.cluster), workload.id, workload.revision, workload.attempt)
    fleet.send(events.AssignmentRefused(*run, code, message, where, retry, final, *(meant or ("", 0, 0))))


def refused_again(fleet: Fleet, times: int, code: str, retry: int, message: str = "m") -> list[int]:
    """The pauses, in seconds, of so many refusals in a row by the whole cluster."""
    pauses = []
    for _ in range(times):
        refuse(fleet, code=code, retry=retry, message=message)
        fleet.gone(1)
        until = fleet.workload(1).avoid["c1", ""]
        pauses.append(-1 if until == NEVER else (until - fleet.now) // SECOND)
        if until == NEVER:
            break
        fleet.wait((until - fleet.now) // SECOND + 1)
    return pauses


@pytest.mark.parametrize("code", ["NamespaceQuota", "WebhookFailed"])
def test_each_refusal_in_a_row_is_waited_out_for_longer(code: str) -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1)
    assert refused_again(fleet, 8, code, 60) == [60, 120, 240, 480, 960, 1800, 1800, 1800]
    assert fleet.workload(1).phase is Phase.INITIALIZING
    assert fleet.workload(1).faults == fleet.workload(1).exits == 0


def test_what_was_taken_meanwhile_is_refused_for_the_first_time_again() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1)
    assert refused_again(fleet, 2, "NamespaceQuota", 60) == [60, 120]
    fleet.wait(2 * 3600)
    assert refused_again(fleet, 1, "NamespaceQuota", 60) == [60]


def test_the_same_denial_five_times_is_final_for_the_cluster_and_not_for_the_workload() -> None:
    fleet = Fleet(node("n1"))
    fleet.submit(1)
    assert refused_again(fleet, 6, "AdmissionDenied", 60) == [60, 120, 240, 480, -1]
    assert fleet.workload(1).phase is Phase.PENDING
    fleet.wait(30 * 24 * 3600)
    assert fleet.workload(1).phase is Phase.PENDING


def test_another_cluster_takes_what_one_refuses_for_good() -> None:
    fleet = Fleet(node("n1"), node("m1", cluster="c2"))
    workload = fleet.submit(1)
    first = workload.cluster
    refuse(fleet, code="NameConflict", retry=0)
    fleet.gone(1)
    assert workload.phase is Phase.INITIALIZING
    assert workload.cluster != first


def test_a_cluster_that_takes_other_things_is_asked_again() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    refuse(fleet, code="Unsupported", retry=0)
    fleet.gone(1)
    fleet.wait(3600)
    assert workload.phase is Phase.PENDING
    fleet.inventory("c1", [node("n1")], profile=Profile(refused_fields=("s3",)))
    fleet.wait(1)
    assert fleet.workload(1).phase is Phase.INITIALIZING


def service(fleet: Fleet, size: int = 2) -> Workload:
    return fleet.submit(1, request(role(whole(), size), kind=WorkloadKind.INFERENCE))


def test_a_replica_of_a_service_gets_another_place_while_the_others_serve() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1), node("n3", 1))
    workload = service(fleet)
    fleet.send(fleet.status(1, ReplicaState.READY))
    refused = workload.replicas["worker", 1]
    refuse(fleet, where=refused.node[1], meant=("worker", 1, 0))
    assert workload.phase in {Phase.INITIALIZING, Phase.DEGRADED}
    assert set(workload.leaving) == {refused.holder}
    placed = workload.replicas["worker", 1]
    assert (placed.holder.k, placed.node != refused.node) == (1, True)
    assert workload.replicas["worker", 0].state is ReplicaState.READY
    assert workload.exits == 0


def test_a_service_that_is_up_never_fails_by_a_refusal_and_says_why_it_is_not_updated() -> None:
    fleet = Fleet(node("n1"))
    workload = service(fleet)
    fleet.run(1)
    assert workload.phase is Phase.RUNNING
    refuse(fleet, code="InvalidCommand", retry=0, final=True)
    assert workload.phase is Phase.RUNNING
    assert not workload.avoid
    assert [each.code for each in explain(fleet.state.world, workload).refusals] == ["InvalidCommand"]


def test_no_replica_that_serves_makes_room_for_one_that_is_refused() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1))
    workload = service(fleet)
    fleet.run(1)
    fleet.send(fleet.admitted(1, request(role(whole(cpu=2000), 2), generation=2, kind=WorkloadKind.INFERENCE)))
    assert workload.phase is Phase.UPDATING
    fleet.wait(1)
    for holder in [*workload.leaving]:
        fleet.send(fleet.status(1, None, rank=holder.rank, k=holder.k, generation=1, gone=True))
    fleet.wait(1)
    for _ in range(5):
        for (name, rank), replica in [*workload.replicas.items()]:
            refuse(fleet, where=replica.node[1], meant=(name, rank, replica.holder.k))
        fleet.wait(1)
        for holder in [*workload.leaving]:
            fleet.send(fleet.status(1, None, rank=holder.rank, k=holder.k, generation=holder.generation, gone=True))
        fleet.wait(40)
    assert any(each.state is ReplicaState.READY for each in workload.rolling.values())


def test_a_second_refusal_of_the_same_replica_does_not_take_the_others_down() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1), node("n3", 1), node("n4", 1))
    workload = service(fleet)
    refused = workload.replicas["worker", 1]
    for _ in range(2):
        refuse(fleet, where=refused.node[1], meant=("worker", 1, 0))
    assert workload.phase is Phase.INITIALIZING
    assert workload.replicas["worker", 1].holder.k == 1


def test_a_service_that_has_nothing_left_in_a_cluster_goes_to_another_one() -> None:
    fleet = Fleet(node("n1"), node("m1", cluster="c2"))
    workload = service(fleet, size=1)
    first = workload.cluster
    fleet.run(1)
    fleet.send(fleet.status(1, ReplicaState.FAILED, failure=FailureClass.INFRASTRUCTURE))
    fleet.send(fleet.status(1, None, gone=True))
    fleet.wait(20)
    replica = workload.replicas["worker", 0]
    refuse(fleet, code="Mutated", retry=0, meant=("worker", 0, replica.holder.k))
    fleet.gone(1)
    fleet.wait(1)
    assert (workload.phase, workload.cluster == first) == (Phase.INITIALIZING, False)


def test_refusals_of_one_round_are_one_in_the_row() -> None:
    fleet = Fleet(node("n1"))
    workload = service(fleet, size=6)
    fleet.send(fleet.status(1, ReplicaState.STARTING))
    for rank in range(1, 6):
        refuse(fleet, code="AdmissionDenied", retry=60, meant=("worker", rank, 0))
    assert workload.avoid["c1", ""] == fleet.now + 60 * SECOND


def test_a_wait_does_not_cut_what_is_permanent_short() -> None:
    fleet = Fleet(node("n1"))
    workload = service(fleet, size=3)
    refuse(fleet, code="Mutated", retry=0, meant=("worker", 1, 0))
    refuse(fleet, code="NamespaceQuota", retry=60, meant=("worker", 2, 0))
    assert workload.avoid["c1", ""] == NEVER


def test_a_node_that_an_agent_makes_up_stands_for_its_cluster() -> None:
    fleet = Fleet(node("n1"), node("n2"))
    workload = fleet.submit(1)
    for number in range(200):
        refuse(fleet, where=f"invented-{number}")
        fleet.gone(1)
        fleet.wait(31 * 60)
    assert {*workload.avoid} <= {("c1", "")}
    assert len(workload.refusals) == 1


def test_very_many_places_become_the_whole_cluster() -> None:
    fleet = Fleet(*(node(f"n{number:03}", 1) for number in range(80)))
    workload = fleet.submit(1)
    for _ in range(70):
        if not workload.replicas:
            break
        refuse(fleet, retry=1800, where=workload.replicas["worker", 0].node[1])
        fleet.gone(1)
    assert [*workload.avoid] == [("c1", "")]
    assert len(workload.refusals) <= 64


def test_what_is_refused_everywhere_waits_for_no_room() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    refuse(fleet, code="NameConflict", retry=0)
    fleet.gone(1)
    reason = why_of(fleet, workload)
    assert (reason.code, reason.sentence()) == (WaitingReason.REFUSED, "1 node that could hold it has refused it")
    assert not fleet.world.waiting.pressing.get("default")


def why_of(fleet: Fleet, workload: Workload) -> Reason:
    found = explain(fleet.state.world, workload).reason
    assert found is not None
    return found


def test_a_resume_asks_again() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    refuse(fleet, code="Mutated", retry=0)
    fleet.gone(1)
    assert workload.phase is Phase.PENDING
    fleet.send(events.SuspendRequested("r1", workload.id))
    fleet.send(events.ResumeRequested("r2", workload.id))
    assert workload.phase is Phase.INITIALIZING


def test_a_replica_that_the_cluster_as_a_whole_refuses_rests() -> None:
    fleet = Fleet(node("n1"))
    workload = service(fleet)
    fleet.send(fleet.status(1, ReplicaState.READY))
    refuse(fleet, code="NamespaceQuota", retry=60, meant=("worker", 1, 0))
    assert ("worker", 1) not in workload.replicas
    fleet.wait(50)
    assert ("worker", 1) not in workload.replicas
    fleet.wait(20)
    assert workload.replicas["worker", 1].holder.k == 1


def test_the_only_replica_of_what_starts_goes_to_another_cluster() -> None:
    fleet = Fleet(node("n1"), node("m1", cluster="c2"))
    workload = service(fleet, size=1)
    first = workload.cluster
    refuse(fleet, code="NamespaceQuota", retry=60, meant=("worker", 0, 0))
    fleet.gone(1)
    assert (workload.phase, workload.cluster == first) == (Phase.INITIALIZING, False)


def test_a_refusal_of_a_replica_that_was_replaced_since_means_nothing() -> None:
    fleet = Fleet(node("n1"))
    workload = service(fleet)
    fleet.run(1)
    before = fleet.state.digest()
    refuse(fleet, meant=("worker", 1, 7))
    assert fleet.state.digest() == before
    assert workload.phase is Phase.RUNNING


def test_a_gang_that_runs_is_not_touched_by_a_refusal() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(role(whole(), 2)))
    fleet.run(1)
    refuse(fleet, meant=("worker", 1, 0))
    assert workload.phase is Phase.RUNNING
    assert not workload.avoid


def test_why_shows_the_last_three_places_with_their_reasons() -> None:
    fleet = Fleet(*(node(f"n{number}", 1) for number in range(1, 6)))
    workload = fleet.submit(1)
    for _ in range(4):
        where = workload.replicas["worker", 0].node[1]
        refuse(fleet, where=where, message=f"taken on {where}")
        fleet.gone(1)
    refuse(fleet, code="NamespaceQuota", retry=60, message="pods: 9 of 9")
    fleet.gone(1)
    told = explain(fleet.state.world, workload)
    assert [(each.code, each.message[:8]) for each in told.refusals] == [
        ("NamespaceQuota", "pods: 9 "),
        ("ForeignTaken", "taken on"),
        ("ForeignTaken", "taken on"),
    ]
    assert told.refusals[0].until == fleet.now + 60 * SECOND


def test_refusals_outlive_the_process() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    refuse(fleet, where="n1")
    row = {
        "id": workload.id,
        "project": workload.project,
        "name": workload.name,
        "phase": workload.phase.value,
        "desired": workload.desired.value,
        "attempt": workload.attempt,
        "generation": 1,
        "body": of_workload(workload),
    }
    read, _ = to_workload(row, {})
    assert (read.refusals, read.avoid) == (workload.refusals, workload.avoid)
    assert read.refusals[0].times == 1


@pytest.mark.parametrize("retry", [0, 30])
def test_no_refusal_ever_spends_a_budget(retry: int) -> None:
    fleet = Fleet(node("n1"), node("n2"))
    workload = fleet.submit(1)
    refuse(fleet, retry=retry)
    fleet.gone(1)
    assert (workload.exits, workload.faults, workload.phase) == (0, 0, Phase.PENDING)
