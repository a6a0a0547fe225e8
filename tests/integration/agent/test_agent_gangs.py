"""Gangs and services on the agent: MPI over the rsh agent, torchrun behind its wrapper, servers behind one address."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.support.agents import AgentProcess, Scheduler, scheduler, training, workload_id
from tests.support.waiting import eventually

READY = fleet_pb2.REPLICA_STATE_READY
SUCCEEDED = fleet_pb2.REPLICA_STATE_SUCCEEDED
FAILED = fleet_pb2.REPLICA_STATE_FAILED
GONE = fleet_pb2.REPLICA_STATE_GONE

RANKS = """
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
if world.rank == 0:
    print("sum", total, "of", world.size, "on", os.environ["MUSTER_ROLE"], flush=True)
code = int(sys.argv[1])
if code and world.rank == 1:
    os._exit(code)
"""

SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ["MUSTER_REPLICA"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""

TASKS = """
import json, os, socket, time
told = json.loads(os.environ["TF_CONFIG"])
task = told["task"]
every = [(name, at, address) for name, all in told["cluster"].items() for at, address in enumerate(all)]
mine = told["cluster"][task["type"]][task["index"]]
with socket.create_server((mine.split(":")[0], int(mine.split(":")[1]))) as server:
    if task["type"] == "chief":
        heard = set()
        while len(heard) < len(every) - 1:
            connection, _ = server.accept()
            heard.add(connection.makefile().readline().strip())
        print("heard", *sorted(heard), flush=True)
    else:
        host, port = told["cluster"]["chief"][0].split(":")
        for _ in range(200):
            try:
                connection = socket.create_connection((host, int(port)))
                break
            except OSError:
                time.sleep(0.05)
        connection.sendall(f"{task['type']}-{task['index']}\\n".encode())
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


def mpi(number: int, program: Path, code: int) -> fleet_pb2.Assignment:
    return training(
        number,
        f"{sys.executable} -m mpi4py {program} {code}",
        kind=options_pb2.KIND_DISTRIBUTED,
        framework=workload_pb2.FRAMEWORK_MPI,
        workers=2,
        slots_per_worker=2,
        runs=[
            fleet_pb2.ReplicaRun(role="worker", first_index=0, count=1, node="n-0"),
            fleet_pb2.ReplicaRun(role="worker", first_index=1, count=1, node="n-1"),
            fleet_pb2.ReplicaRun(role="launcher", count=1, node="n-0"),
        ],
    )


async def of_role(bus: Scheduler, workload: str, role: str, state: int) -> fleet_pb2.ReplicaStatus:
    found = await bus.wait_for(
        lambda m: (
            getattr(m, "workload_id", "") == workload
            and hasattr(m, "status")
            and (m.status.role, m.status.state) == (role, state)
        ),
        within=30,
    )
    status: fleet_pb2.ReplicaStatus = found.status
    return status


async def test_four_ranks_on_two_workers_reduce_and_everybody_succeeds(
    bus: Scheduler, agent: AgentProcess, tmp_path: Path
) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(RANKS)
    await bus.assign(mpi(1, program, 0))
    launcher = await of_role(bus, workload_id(1), "launcher", SUCCEEDED)
    assert launcher.exit_code == 0
    assert "sum 6 of 4 on worker" in (agent.state / "logs" / launcher.name / "log.000000000000000").read_text()
    worker = await of_role(bus, workload_id(1), "worker", SUCCEEDED)
    assert worker.message == "stopped: completed"
    await of_role(bus, workload_id(1), "worker", GONE)


async def test_a_rank_that_fails_fails_the_launcher_with_its_code_and_the_workers_are_ours(
    bus: Scheduler, agent: AgentProcess, tmp_path: Path
) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(RANKS)
    await bus.assign(mpi(1, program, 3))
    launcher = await of_role(bus, workload_id(1), "launcher", FAILED)
    assert (launcher.exit_code, launcher.failure) == (3, fleet_pb2.FAILURE_CLASS_EXIT)
    worker = await of_role(bus, workload_id(1), "worker", FAILED)
    assert worker.failure == fleet_pb2.FAILURE_CLASS_OURS


async def test_tasks_of_tensorflow_reach_each_other_at_the_addresses_that_they_are_told(
    bus: Scheduler, agent: AgentProcess, tmp_path: Path
) -> None:
    program = tmp_path / "tasks.py"
    program.write_text(TASKS)
    command = f"{sys.executable} {program}"
    gang = training(
        1,
        command,
        kind=options_pb2.KIND_DISTRIBUTED,
        framework=workload_pb2.FRAMEWORK_TF,
        workers=2,
        master_spec=workload_pb2.WorkloadSpec(command=command),
        runs=[
            fleet_pb2.ReplicaRun(role="master", count=1, node="n-0"),
            fleet_pb2.ReplicaRun(role="worker", count=2, node="n-1"),
        ],
    )
    await bus.assign(gang)
    chief = await of_role(bus, workload_id(1), "master", SUCCEEDED)
    assert "heard worker-0 worker-1" in (agent.state / "logs" / chief.name / "log.000000000000000").read_text()
    await of_role(bus, workload_id(1), "worker", SUCCEEDED)


async def test_copies_of_a_server_answer_in_turn_behind_one_address(
    bus: Scheduler, agent: AgentProcess, tmp_path: Path
) -> None:
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    service = training(
        1,
        f"{sys.executable} {program}",
        kind=options_pb2.KIND_INFERENCE,
        ports=[workload_pb2.Port(label="p-8080", container=8080)],
        readiness_probe=workload_pb2.ReadinessProbe(path="/"),
        runs=[fleet_pb2.ReplicaRun(role="worker", count=2, node="n-0")],
    )
    await bus.assign(service)
    ready = await bus.state(workload_id(1), READY, index=0)
    await bus.state(workload_id(1), READY, index=1)
    address = ready.endpoints[0]

    async def answers() -> set[str]:
        return {(await asyncio.to_thread(_get, address)) for _ in range(4)}

    both = await eventually(answers, lambda names: len(names) == 2, within=10)
    agent.kill()
    agent.start()
    assert await eventually(answers, lambda names: names == both, within=15)
    await bus.release(workload_id(1))
    await bus.state(workload_id(1), GONE, index=1)


def _get(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=3) as answer:
            return str(answer.read().decode())
    except OSError as error:
        return repr(error)


@pytest.mark.torch
async def test_torchrun_tells_the_true_exit_code(bus: Scheduler, agent: AgentProcess, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import os, sys\n"
        "print(os.environ['RANK'], os.environ['WORLD_SIZE'], flush=True)\n"
        "sys.exit(3 if os.environ['RANK'] == '3' and sys.argv[1] == 'fail' else 0)\n"
    )
    runs = [fleet_pb2.ReplicaRun(role="worker", count=2, node="n-0")]
    for number, word in ((1, "pass"), (2, "fail")):
        await bus.assign(
            training(
                number,
                f"torchrun --nproc-per-node 2 {program} {word}",
                kind=options_pb2.KIND_DISTRIBUTED,
                framework=workload_pb2.FRAMEWORK_PYTORCH,
                workers=2,
                runs=runs,
            )
        )
    for index in (0, 1):
        done = await bus.state(workload_id(1), SUCCEEDED, index=index, within=90)
        assert done.status.exit_code == 0
    failed = await bus.state(workload_id(2), FAILED, index=1, within=90)
    assert (failed.status.exit_code, failed.status.failure) == (3, fleet_pb2.FAILURE_CLASS_EXIT)
    assert failed.status.message == "rank 3 ended first, with 3"
