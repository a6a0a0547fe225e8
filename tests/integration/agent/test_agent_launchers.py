"""Replicas that start others: a launcher whose workers run torchrun, and trials one after the other.

torch itself is a stand-in here, a few lines that start the ranks: what is tested is who starts it, where, and what
becomes of its end. `test_agent_gangs.py` runs the real one where it is installed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.support.agents import AgentProcess, Scheduler, scheduler, training, workload_id
from tests.support.ranks import torch_stand_in

SUCCEEDED = fleet_pb2.REPLICA_STATE_SUCCEEDED
FAILED = fleet_pb2.REPLICA_STATE_FAILED

TRAIN = """
import os, sys
line = f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} in {os.getcwd()} as {os.environ['MUSTER_ROLE']}"
os.write(1, f"{line} {os.environ['SEED']}\\n".encode())  # at once: the words of a print would mix with other ranks'
sys.exit(int(sys.argv[1]) if os.environ["RANK"] == "2" else 0)
"""


@pytest_asyncio.fixture
async def bus(kafka: str) -> AsyncIterator[Scheduler]:
    async with scheduler(kafka) as side:
        yield side


@pytest.fixture
def agent(kafka: str, tmp_path: Path) -> Iterator[AgentProcess]:
    process = AgentProcess(tmp_path, kafka)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    """A folder in which a torch can be imported that only starts ranks."""
    return torch_stand_in(tmp_path)


def colossal(number: int, program: Path, code: int, torch: Path) -> fleet_pb2.Assignment:
    args = f"--nproc_per_node=2 {program} {code}"
    env = [
        workload_pb2.EnvironmentVariable(label="PYTHONPATH", value=str(torch)),
        workload_pb2.EnvironmentVariable(label="SEED", value="7"),
    ]
    launcher = workload_pb2.WorkloadSpec(
        command="torchrun", args=args, environment=env, working_dir=str(program.parent)
    )
    return training(
        number,
        "torchrun",
        args=args,
        kind=options_pb2.KIND_DISTRIBUTED,
        framework=workload_pb2.FRAMEWORK_COLOSSALAI,
        workers=2,
        slots_per_worker=2,
        master_spec=launcher,
        runs=[
            fleet_pb2.ReplicaRun(role="worker", first_index=0, count=1, node="n-0"),
            fleet_pb2.ReplicaRun(role="worker", first_index=1, count=1, node="n-1"),
            fleet_pb2.ReplicaRun(role="launcher", count=1, node="n-0"),
        ],
    )


async def launcher_in(bus: Scheduler, workload: str, state: int) -> fleet_pb2.ReplicaStatus:
    found = await bus.wait_for(
        lambda m: (
            getattr(m, "workload_id", "") == workload
            and hasattr(m, "status")
            and (m.status.role, m.status.state) == ("launcher", state)
        ),
        within=30,
    )
    status: fleet_pb2.ReplicaStatus = found.status
    return status


def log_of(agent: AgentProcess, replica: str) -> list[str]:
    return (agent.state / "logs" / replica / "log.000000000000000").read_text().splitlines()


async def test_a_launcher_runs_the_ranks_on_its_workers_and_its_end_decides(
    bus: Scheduler, agent: AgentProcess, tmp_path: Path, torch: Path
) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    await bus.assign(colossal(1, program, 0, torch))
    done = await launcher_in(bus, workload_id(1), SUCCEEDED)
    assert sorted(log_of(agent, done.name)) == [f"rank {rank} of 4 in {tmp_path} as worker 7" for rank in range(4)]
    await bus.assign(colossal(2, program, 3, torch))
    failed = await launcher_in(bus, workload_id(2), FAILED)
    assert (failed.exit_code, failed.failure) == (3, fleet_pb2.FAILURE_CLASS_EXIT)
    assert "-worker-1-r0 ended with 3" in log_of(agent, failed.name)[-1]


async def test_a_trial_that_fails_leaves_the_others_alone(bus: Scheduler, agent: AgentProcess) -> None:
    command = "sh -c 'echo trial $POD_INDEX $(POD_INDEX); exit $(POD_INDEX)'"
    runs = [fleet_pb2.ReplicaRun(role="worker", first_index=first, count=1, node="n-0") for first in (0, 4)]
    await bus.assign(training(1, command, completions=5, parallelism=2, runs=runs))
    failed = await bus.state(workload_id(1), FAILED, index=4, within=30)
    done = await bus.state(workload_id(1), SUCCEEDED, index=0, within=30)
    assert failed.status.exit_code == 4
    assert [log_of(agent, one.status.name) for one in (done, failed)] == [["trial 0 0"], ["trial 4 4"]]
