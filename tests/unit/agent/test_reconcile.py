"""What is due for one workload: each decision of reconciling by a small scene."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_cluster_agent.domain.actions import (
    Abandon,
    Action,
    Bury,
    Create,
    NothingHere,
    Refuse,
    Remove,
    Route,
    Stop,
    steps_of,
)
from muster_cluster_agent.domain.model import (
    Assignment,
    Ended,
    NodeHealth,
    NodeView,
    Observed,
    Pattern,
    Release,
    Revision,
    Run,
    Share,
    Template,
)
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.domain.reconcile import STRAGGLER_SECONDS, Scene, reconcile

ID = "0190c0de-0000-7000-8000-000000000001"
NOW = 1000.0
NODES = {"n-0": NodeView("n-0", NodeHealth.UP, "boot", frozenset({"GPU-0"}))}


def assignment(pattern: Pattern = Pattern.SINGLE, *runs: Run, attempt: int = 0, **more: object) -> Assignment:
    revision = Revision(1, attempt, pattern, Template(command="true"), runs or (Run("worker", 0, 1, "n-0"),))
    return replace(Assignment(ID, 1, "", 1, (revision,), grace=5.0), **more)  # type: ignore[arg-type]


def planned(of: Assignment) -> tuple[ReplicaPlan, ...]:
    return tuple(plan for revision in of.revisions for plan in replica_plans(of, revision))


def observed(plan: ReplicaPlan, **more: object) -> Observed:
    made = Observed(
        name=plan.name,
        workload_id=ID,
        generation=plan.generation,
        attempt=plan.attempt,
        role=plan.role,
        index=plan.index,
        k=plan.k,
        node=plan.node,
        boot="boot",
        pattern=plan.pattern,
        started_at=NOW,
        ready=True,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def ended(plan: ReplicaPlan, code: int = 0, at: float = NOW, **more: object) -> Observed:
    return observed(plan, ended=Ended(code, at), gone=True, evidence="no-process", **more)


def due(desired: Assignment | Release | None, *seen: Observed, now: float = NOW, **more: object) -> tuple[Action, ...]:
    scene = replace(Scene(desired, seen, NODES), **more)  # type: ignore[arg-type]
    return reconcile(scene, now)


RELEASE = Release(ID, 1, 1, 0, 3.0, "preempted")


def test_what_is_missing_is_created_and_what_is_there_is_left_alone() -> None:
    wanted = assignment(Pattern.SINGLE, Run("worker", 0, 2, "n-0"))
    first, second = planned(wanted)
    assert due(wanted) == (Create(first), Create(second))
    assert due(wanted, observed(first)) == (Create(second),)
    assert due(wanted, observed(first), observed(second)) == ()


def test_holding_starts_nothing() -> None:
    assert due(assignment(), held_back=True) == ()


def test_absence_releases_nothing() -> None:
    (plan,) = planned(assignment())
    assert due(None, observed(plan)) == ()
    assert due(None, ended(plan), told=frozenset({plan.name})) == ()


def test_a_tombstone_stops_then_forgets_once_the_end_is_known() -> None:
    (plan,) = planned(assignment())
    names = frozenset({plan.name})
    assert due(RELEASE, observed(plan), planned=names) == (Stop(plan.name, 3.0, "preempted", released=True),)
    assert due(RELEASE, observed(plan, stop_reason="preempted", stop_grace=3.0), planned=names) == ()
    assert due(RELEASE, ended(plan), planned=names) == ()
    assert due(RELEASE, ended(plan), planned=names, told=names) == (Remove(plan.name, released=True),)


def test_a_shorter_grace_is_asked_for_again() -> None:
    (plan,) = planned(assignment())
    stopping = observed(plan, stop_reason="preempted", stop_grace=60.0)
    assert due(RELEASE, stopping, planned=frozenset({plan.name})) == (Stop(plan.name, 3.0, "preempted"),)


def test_a_tombstone_for_what_is_not_here_is_answered_once() -> None:
    assert due(RELEASE) == (NothingHere(ID, 1, 0),)
    assert due(RELEASE, answered=True) == ()


def test_a_tombstone_says_more_where_not_everything_planned_was_made() -> None:
    wanted = assignment(Pattern.SINGLE, Run("worker", 0, 2, "n-0"))
    first, second = planned(wanted)
    both = frozenset({first.name, second.name})
    assert due(RELEASE, observed(first), planned=both) == (Stop(first.name, 3.0, "preempted", released=True),)
    assert NothingHere(ID, 1, 0) in due(RELEASE, ended(first), planned=both)
    assert NothingHere(ID, 1, 0) not in due(RELEASE, ended(first), planned=both, removed=frozenset({second.name}))


def test_a_tombstone_of_an_older_run_leaves_the_newer_one() -> None:
    (newer,) = planned(assignment(attempt=1))
    assert due(RELEASE, observed(newer), answered=True) == ()


def test_a_newer_attempt_waits_until_the_older_one_is_gone() -> None:
    (older,), (newer,) = planned(assignment()), planned(assignment(attempt=1))
    wanted = assignment(attempt=1)
    assert due(wanted, observed(older)) == (Stop(older.name, 5.0, "replaced"),)
    assert due(wanted, ended(older)) == (Create(newer),)
    assert due(wanted, ended(older), told=frozenset({older.name})) == (Remove(older.name), Create(newer))


def test_an_assignment_that_is_older_than_what_runs_changes_nothing_of_it() -> None:
    (newer,) = planned(assignment(attempt=1))
    assert due(assignment(), observed(newer)) == ()


def test_a_replaced_replica_waits_for_its_place() -> None:
    old, new = planned(assignment())[0], planned(assignment(Pattern.SERVICE, Run("worker", 0, 1, "n-0", k=1)))[0]
    wanted = assignment(Pattern.SERVICE, Run("worker", 0, 1, "n-0", k=1))
    assert due(wanted, observed(old)) == (Stop(old.name, 5.0, "replaced"),)
    assert due(wanted, ended(old)) == (Create(new),)


def test_a_removed_name_is_never_made_again() -> None:
    (plan,) = planned(assignment())
    assert due(assignment(), removed=frozenset({plan.name})) == ()


def test_a_failed_member_takes_the_gang_down_and_nothing_more_is_started() -> None:
    wanted = assignment(Pattern.GANG, Run("worker", 0, 3, "n-0"))
    first, second, _ = planned(wanted)
    assert due(wanted, ended(first, 1), observed(second)) == (Stop(second.name, 5.0, "gang-member-failed"),)


def test_a_launcher_starts_after_its_workers_and_stops_them_after_its_success() -> None:
    wanted = assignment(Pattern.MPI, Run("worker", 0, 2, "n-0"), Run("launcher", 0, 1, "n-0"))
    first, second, launcher = planned(wanted)
    assert due(wanted, observed(first), observed(second, ready=False)) == ()
    assert due(wanted, observed(first), observed(second)) == (Create(launcher),)
    assert due(wanted, observed(first), observed(second), ended(launcher)) == (
        Stop(first.name, 5.0, "completed"),
        Stop(second.name, 5.0, "completed"),
    )


def test_workers_that_are_never_ready_end_the_launcher_at_the_deadline() -> None:
    wanted = assignment(Pattern.MPI, Run("worker", 0, 2, "n-0"), Run("launcher", 0, 1, "n-0"), start_deadline=NOW - 1)
    first, second, launcher = planned(wanted)
    slow = observed(first, ready=False, started_at=NOW - 601)
    (action,) = due(wanted, slow, observed(second))
    assert isinstance(action, Abandon)
    assert action.plan == launcher
    # What has not started, or has just started, has its time still: an image may be pulled for longer than that.
    assert due(wanted, slow, observed(second, ready=False)) == ()
    assert due(wanted, slow, observed(second, ready=False, started_at=None)) == ()
    assert due(replace(wanted, start_deadline=None), slow, observed(second)) == ()


def test_a_worker_that_ends_while_its_launcher_runs_takes_the_gang_down() -> None:
    wanted = assignment(Pattern.MPI, Run("worker", 0, 2, "n-0"), Run("launcher", 0, 1, "n-0"))
    first, second, launcher = planned(wanted)
    assert due(wanted, ended(first), observed(second), observed(launcher)) == (
        Stop(second.name, 5.0, "gang-member-failed"),
        Stop(launcher.name, 5.0, "gang-member-failed"),
    )


def test_stragglers_have_two_minutes_after_rank_zero() -> None:
    wanted = assignment(Pattern.GANG, Run("worker", 0, 2, "n-0"))
    first, second = planned(wanted)
    assert due(wanted, ended(first), observed(second)) == ()
    late = NOW + STRAGGLER_SECONDS
    assert due(wanted, ended(first), observed(second), now=late) == (Stop(second.name, 5.0, "stragglers-killed"),)
    assert due(wanted, observed(first), ended(second), now=late) == ()


def test_the_rest_of_a_gang_goes_at_once_where_its_policy_says_so() -> None:
    kept = assignment(Pattern.GANG, Run("worker", 0, 2, "n-0"))
    wanted = replace(kept, revisions=tuple(replace(each, cleaned=True) for each in kept.revisions))
    first, second = planned(wanted)
    assert due(wanted, observed(first), observed(second)) == ()
    assert due(wanted, ended(first), observed(second)) == (Stop(second.name, 5.0, "completed"),)


@pytest.mark.parametrize("code", [0, 1])
def test_trials_are_independent_of_each_others_ends(code: int) -> None:
    wanted = assignment(Pattern.TRIALS, Run("worker", 0, 2, "n-0"))
    first, second = planned(wanted)
    assert due(wanted, ended(first, code), observed(second), now=NOW + 10 * STRAGGLER_SECONDS) == ()


@pytest.mark.parametrize(
    ("health", "boot", "evidence"),
    [
        (NodeHealth.OUT_OF_SERVICE, "boot", "out-of-service"),
        (NodeHealth.LOST, "boot", "node-gone"),
        (NodeHealth.UP, "another", "boot-id-changed"),
    ],
)
def test_a_node_that_is_gone_for_good_buries_its_replicas(health: NodeHealth, boot: str, evidence: str) -> None:
    (plan,) = planned(assignment())
    nodes = {"n-0": NodeView("n-0", health, boot, frozenset({"GPU-0"}))}
    (action, *_) = due(assignment(), observed(plan), nodes=nodes)
    assert isinstance(action, Bury)
    assert action.evidence == evidence


def test_a_silent_node_changes_nothing_and_a_dead_supervisor_there_is_not_yet_a_fact() -> None:
    (plan,) = planned(assignment())
    nodes = {"n-0": NodeView("n-0", NodeHealth.SILENT, "boot")}
    assert due(assignment(), observed(plan, supervised=False), nodes=nodes) == ()


def test_a_dead_supervisor_is_buried_on_a_node_that_answers() -> None:
    (plan,) = planned(assignment())
    assert due(None, observed(plan, supervised=False)) == (
        Bury(plan.name, "no-process", "its supervisor was found dead"),
    )
    assert due(None, observed(plan, supervised=False, ended=Ended(0, NOW))) == (Bury(plan.name, "no-process", ""),)
    assert due(None, observed(plan, supervised=False, node="away")) == (Bury(plan.name, "node-gone", _GONE),)


_GONE = "its node has been silent for too long"


def test_a_device_that_is_gone_stops_what_ran_on_it() -> None:
    (plan,) = planned(assignment())
    assert due(None, observed(plan, devices=("GPU-9",))) == (Stop(plan.name, 0.0, "device-lost"),)


def test_what_does_not_fit_is_refused_with_its_reason_before_anything_starts() -> None:
    away = assignment(Pattern.SINGLE, Run("worker", 0, 1, "nowhere"))
    (refusal,) = due(away)
    assert isinstance(refusal, Refuse)
    assert (refusal.code, refusal.retry_after, refusal.role) == ("UnknownNode", 30, "worker")
    silent = {"n-0": NodeView("n-0", NodeHealth.SILENT, "boot")}
    (refusal,) = due(assignment(), nodes=silent)
    assert isinstance(refusal, Refuse)
    assert (refusal.code, refusal.node) == ("NodeNotReady", "n-0")
    shares = ((Share("GPU-7", whole=True),),)
    (refusal,) = due(assignment(Pattern.SINGLE, Run("worker", 0, 1, "n-0", shares=shares)))
    assert isinstance(refusal, Refuse)
    assert refusal.code == "UnknownDevice"
    broken = replace(assignment(), revisions=(replace(assignment().newest, template=Template(command="'")),))
    (refusal,) = due(broken)
    assert isinstance(refusal, Refuse)
    assert refusal.code == "InvalidCommand"


def test_half_a_gang_on_a_node_that_falls_silent_is_not_refused() -> None:
    wanted = assignment(Pattern.SINGLE, Run("worker", 0, 1, "n-0"), Run("worker", 1, 1, "nowhere"))
    first, _ = planned(wanted)
    assert due(wanted, observed(first)) == ()


def test_a_replica_that_cannot_be_started_holds_up_none_of_its_service() -> None:
    wanted = assignment(Pattern.SERVICE, Run("worker", 0, 1, "n-0"), Run("worker", 1, 1, "nowhere"))
    first, second = planned(wanted)
    refusal, create = due(wanted)
    assert create == Create(first)
    assert isinstance(refusal, Refuse)
    assert (refusal.role, refusal.index, refusal.k, refusal.node) == ("worker", 1, second.k, "nowhere")


def test_a_services_address_leads_to_what_is_ready() -> None:
    wanted = assignment(Pattern.SERVICE, Run("worker", 0, 2, "n-0"))
    first, second = planned(wanted)
    seen = (observed(first, service=("http://x",)), observed(second, service=("http://x",), ready=False))
    assert due(wanted, *seen) == (Route(ID, (first.name,)),)
    assert due(RELEASE, ended(first, service=("http://x",)), planned=frozenset({first.name})) == (
        Route(ID, (), closed=True),
    )


def test_an_address_leads_nowhere_before_its_replicas_are_stopped() -> None:
    wanted = assignment(Pattern.SERVICE, Run("worker", 0, 1, "n-0"))
    (first,) = planned(wanted)
    route, stop = due(RELEASE, observed(first, service=("http://x",)), planned=frozenset({first.name}))
    assert route == Route(ID, ())
    assert isinstance(stop, Stop)


def test_a_failed_server_stays_failed_until_it_is_replaced() -> None:
    wanted = assignment(Pattern.SERVICE, Run("worker", 0, 2, "n-0"))
    first, second = planned(wanted)
    assert due(wanted, ended(first, 1), observed(second)) == ()


def test_two_revisions_run_side_by_side() -> None:
    old, new = assignment(Pattern.SERVICE), assignment(Pattern.SERVICE)
    newer = replace(new.newest, generation=2)
    rolling = replace(old, revisions=(old.newest, newer))
    first, second = planned(rolling)
    assert due(rolling, observed(first)) == (Create(second),)


def test_actions_of_one_step_concern_different_replicas() -> None:
    (plan,) = replica_plans(assignment(), assignment().newest)
    route, bury, create = Route("w", ()), Bury("a", "node-gone", ""), Create(plan)
    stops = [Stop("a", 1.0, "released"), Stop("b", 1.0, "released")]
    assert [*steps_of([*stops, create, bury, Remove("c"), route])] == [[route], [bury], [*stops, Remove("c")], [create]]
