"""Elastic gangs at the agent: the meeting that lets others join, who fails alone, and what was never here."""

from __future__ import annotations

import pytest

from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters.decode import assignment
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.domain.actions import Absent, Action, Create, Refuse, Stop
from muster_cluster_agent.domain.launch import Places, process
from muster_cluster_agent.domain.model import Assignment, Ended, NodeHealth, NodeView, Observed, Pattern
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.domain.reconcile import Scene, reconcile
from muster_kernel.ids import replica_name

ID = "0190c0de-0000-7000-8000-000000000001"
NODES = {"n-0": NodeView("n-0", NodeHealth.UP, "boot")}
PLACES = Places("/state/r", "/home", "/py", "/shims", "/tools", (), meeting_ports=(20001,), gang="base")


def gang(workers: int = 3, least: int = 2, most: int = 4, leaving: int = 0, master: bool = False) -> Assignment:
    """A torch gang as the scheduler writes it down; `leaving`: so many of the next indices are no longer wanted."""
    made = fleet_pb2.Assignment(workload_id=ID, epoch=1, grace_seconds=5)
    revision = made.revisions.add(generation=1, attempt=1, least=least, most=most)
    revision.spec.kind = options_pb2.KIND_DISTRIBUTED
    revision.spec.framework = workload_pb2.FRAMEWORK_PYTORCH
    revision.spec.command = "torchrun train.py"
    if master:
        revision.runs.add(role="master", count=1, node="n-0")
        revision.spec.master_spec.command = "torchrun train.py"
    revision.runs.add(role="worker", count=workers, node="n-0")
    if leaving:
        made.leaving.add(role="worker", first_index=workers, count=leaving, node="n-0")
    return assignment(ID, made.SerializeToString(), {}, LOCAL)


def planned(of: Assignment) -> tuple[ReplicaPlan, ...]:
    return replica_plans(of, of.newest)


def seen(plan: ReplicaPlan, *, fault: str = "", code: int | None = None) -> Observed:
    return Observed(
        name=plan.name,
        workload_id=ID,
        generation=1,
        attempt=1,
        role=plan.role,
        index=plan.index,
        k=plan.k,
        node="n-0",
        boot="boot",
        pattern=Pattern.GANG,
        started_at=1.0,
        fault=fault,
        ended=Ended(code, 2.0) if code is not None else None,
        gone=bool(fault) or code is not None,
    )


def due(desired: Assignment, *observed: Observed, denied: frozenset[str] = frozenset()) -> tuple[Action, ...]:
    return reconcile(Scene(desired, observed, NODES, denied=denied), 10.0)


@pytest.mark.parametrize(("master", "nodes"), [(False, "2:4"), (True, "3:5")])
def test_members_meet_at_a_store_that_rank_0_keeps_between_the_numbers_that_are_told(master: bool, nodes: str) -> None:
    first, second, *_ = planned(gang(master=master))
    told, other = process(first, PLACES).env, process(second, PLACES).env
    assert (told["PET_NNODES"], told["PET_RDZV_BACKEND"], told["PET_RDZV_ID"]) == (nodes, "c10d", "base")
    assert told["PET_RDZV_ENDPOINT"] == other["PET_RDZV_ENDPOINT"] == "127.0.0.1:20001"
    assert "is_host=true" in told["PET_RDZV_CONF"]
    assert "is_host=false" in other["PET_RDZV_CONF"]
    assert "PET_NODE_RANK" not in told
    assert int(told["PET_MAX_RESTARTS"]) > 0


def test_a_gang_that_is_not_elastic_meets_as_before() -> None:
    env = process(planned(gang(least=0, most=0))[1], PLACES).env
    assert (env["PET_NNODES"], env["PET_NODE_RANK"], env["PET_MAX_RESTARTS"]) == ("3", "1", "0")
    assert "PET_RDZV_BACKEND" not in env


def test_a_late_replica_is_started_beside_those_that_run() -> None:
    plans = planned(gang())
    assert due(gang(), seen(plans[0]), seen(plans[1])) == (Create(plans[2]),)


def test_what_the_gang_can_do_without_fails_alone() -> None:
    first, second, third = planned(gang())
    assert due(gang(), seen(first), seen(second), seen(third, fault="its node went")) == ()


@pytest.mark.parametrize(("at", "fault", "code"), [(1, "its node went", None), (2, "", 1)])
def test_what_it_needs_and_what_its_command_says_takes_all_down(at: int, fault: str, code: int | None) -> None:
    plans = planned(gang())
    observed = [seen(p, fault=fault, code=code) if n == at else seen(p) for n, p in enumerate(plans)]
    stopped = {action.name for action in due(gang(), *observed) if isinstance(action, Stop)}
    assert stopped == {plan.name for n, plan in enumerate(plans) if n != at}


def test_a_replica_that_was_given_up_before_it_was_started_is_said_to_be_gone_once() -> None:
    desired = gang(leaving=1)
    observed = [seen(plan) for plan in planned(desired)]
    name = replica_name(ID, 1, 1, "worker", 3, 0)
    assert due(desired, *observed) == (
        Absent(name, ID, 1, 1, "worker", 3, 0, "n-0", "it was given up before it was started"),
    )
    assert due(desired, *observed, denied=frozenset({name})) == ()


def test_one_that_was_started_is_stopped_and_nothing_is_said_before_it_is_gone() -> None:
    desired = gang(leaving=1)
    given_up = planned(gang(workers=4))[3]
    observed = [*(seen(plan) for plan in planned(desired)), seen(given_up)]
    assert [type(action) for action in due(desired, *observed)] == [Stop]


def test_a_late_replica_whose_node_is_not_there_is_refused_and_holds_up_no_other() -> None:
    made = fleet_pb2.Assignment(workload_id=ID, epoch=1)
    revision = made.revisions.add(generation=1, attempt=1, least=2, most=4)
    revision.spec.kind, revision.spec.framework = options_pb2.KIND_DISTRIBUTED, workload_pb2.FRAMEWORK_PYTORCH
    revision.spec.command = "torchrun train.py"
    for index, count, on in ((0, 2, "n-0"), (2, 1, "n-9"), (3, 1, "n-0")):
        revision.runs.add(role="worker", first_index=index, count=count, node=on)
    desired = assignment(ID, made.SerializeToString(), {}, LOCAL)
    first, second, lost, late = planned(desired)
    refusal, created = due(desired, seen(first), seen(second))
    assert isinstance(refusal, Refuse)
    assert (refusal.role, refusal.index, refusal.message) == ("worker", 2, "this cluster has no node 'n-9'")
    assert created == Create(late)
    made.leaving.add(role="worker", first_index=2, count=1, node="n-9")  # the scheduler's answer
    for run in [run for run in revision.runs if run.node == "n-9"]:
        revision.runs.remove(run)
    answered = assignment(ID, made.SerializeToString(), {}, LOCAL)
    (absent,) = due(answered, seen(first), seen(second), seen(late))
    assert isinstance(absent, Absent)
    assert absent.name == lost.name
