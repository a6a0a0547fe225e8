"""What the members of a gang are told of each other: the variables of each framework."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from muster_cluster_agent.domain import rendezvous
from muster_cluster_agent.domain.model import Assignment, Framework, Pattern, Revision, Run, Template
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.domain.rendezvous import Meeting

ID = "0190c0de-0000-7000-8000-000000000001"
MASTER, WORKERS = Run("master", 0, 1, "n-0"), Run("worker", 0, 2, "n-0")


def plans(framework: Framework, *runs: Run, command: str = "python t.py") -> tuple[ReplicaPlan, ...]:
    of = Revision(1, 0, Pattern.GANG, Template(command=command), runs, framework=framework)
    with_master = replace(of, master=of.template) if MASTER in runs else of
    return replica_plans(Assignment(ID, 1, "", 1, (with_master,), project="p", name="w"), with_master)


def meeting(members: int, port: int) -> Meeting:
    return Meeting("w-b", tuple((f"host-{rank}", port) for rank in range(members)))


def told(plan: ReplicaPlan) -> dict[str, str]:
    return rendezvous.variables(plan, meeting(len(plan.members), rendezvous.port_of(plan)))


def test_tensorflow_is_told_every_member_by_its_task() -> None:
    master, first, second = plans(Framework.TF, WORKERS, MASTER)
    cluster = {"chief": ["host-0:2222"], "worker": ["host-1:2222", "host-2:2222"]}
    found = [json.loads(told(plan)["TF_CONFIG"]) for plan in (master, first, second)]
    assert [each["cluster"] for each in found] == [cluster] * 3
    assert [each["task"] for each in found] == [
        {"type": "chief", "index": 0},
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]


def test_tensorflow_counts_the_tasks_that_are_there() -> None:
    found = plans(Framework.TF, Run("worker", 1, 1, "n-0"), Run("worker", 4, 1, "n-1"))
    assert [json.loads(told(plan)["TF_CONFIG"])["task"]["index"] for plan in found] == [0, 1]


def test_xgboost_is_told_the_tracker_and_its_workers() -> None:
    first, second = plans(Framework.XGBOOST, WORKERS)
    assert told(second) == {
        "MASTER_ADDR": "host-0",
        "MASTER_PORT": "9999",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "WORKER_ADDRS": "host-1",
        "WORKER_PORT": "9999",
    }
    assert told(first)["RANK"] == "0"
    alone = plans(Framework.XGBOOST, Run("worker", 0, 1, "n-0"))[0]
    assert "WORKER_ADDRS" not in told(alone)


def test_jax_is_told_its_coordinator() -> None:
    _, second = plans(Framework.JAX, WORKERS)
    assert told(second) == {
        "COORDINATOR_ADDRESS": "host-0",
        "COORDINATOR_PORT": "6666",
        "NUM_PROCESSES": "2",
        "PROCESS_ID": "1",
    }


def test_torch_without_torchrun_is_told_its_rank_unless_it_is_alone() -> None:
    _, second = plans(Framework.PYTORCH, WORKERS)
    assert told(second) == {"MASTER_ADDR": "host-0", "MASTER_PORT": "29500", "WORLD_SIZE": "2", "RANK": "1"}
    assert told(plans(Framework.PYTORCH, Run("worker", 0, 1, "n-0"))[0]) == {}


def test_torchrun_in_a_gang_of_another_framework_is_a_command_like_any_other() -> None:
    first, _ = plans(Framework.JAX, WORKERS, command="torchrun t.py")
    assert "PET_NNODES" not in told(first)


@pytest.mark.parametrize(
    ("framework", "command", "ports", "all_of_them"),
    [
        (Framework.PYTORCH, "torchrun t.py", 1, False),
        (Framework.PYTORCH, "python t.py", 1, False),
        (Framework.TF, "python t.py", 3, True),
        (Framework.XGBOOST, "python t.py", 2, True),
        (Framework.JAX, "python t.py", 1, False),
    ],
)
def test_members_that_share_an_address_need_ports_of_their_own(
    framework: Framework, command: str, ports: int, all_of_them: bool
) -> None:
    found = plans(framework, WORKERS, MASTER, command=command)
    assert {rendezvous.ports_of(plan) for plan in found} == {ports}
    assert {rendezvous.every_endpoint(plan) for plan in found} == {all_of_them}
