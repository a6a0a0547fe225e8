"""The agent's whole road: an assignment becomes a process, its end a report, the tombstone an empty folder."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster.events.v1 import agent_pb2, dead_letter_pb2
from muster.fleet.v1 import fleet_pb2
from tests.support.agents import CLUSTER, AgentProcess, Scheduler, scheduler, training, workload_id
from tests.support.waiting import eventually_now

READY = fleet_pb2.REPLICA_STATE_READY
SUCCEEDED = fleet_pb2.REPLICA_STATE_SUCCEEDED
FAILED = fleet_pb2.REPLICA_STATE_FAILED
GONE = fleet_pb2.REPLICA_STATE_GONE


@pytest_asyncio.fixture
async def bus(kafka: str) -> AsyncIterator[Scheduler]:
    async with scheduler(kafka) as side:
        yield side


@pytest.fixture
def agent(kafka: str, tmp_path: Path) -> Iterator[AgentProcess]:
    process = AgentProcess(tmp_path, kafka)
    yield process
    process.stop()


async def test_a_training_runs_from_its_assignment_to_an_empty_folder(bus: Scheduler, agent: AgentProcess) -> None:
    agent.start()
    inventory = await bus.wait_for(lambda m: isinstance(m, agent_pb2.InventoryReported) and m.inventory.full)
    devices = inventory.inventory.nodes[0].devices
    assert len(devices) == 4
    share = fleet_pb2.DeviceShare(device=bytes.fromhex(devices[0].uuid[4:].replace("-", "")), portion_milli=500)
    run = fleet_pb2.ReplicaRun(role="worker", count=1, node="n-0", devices=[fleet_pb2.ReplicaDevices(shares=[share])])
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['MUSTER_DEVICES'])"
    command = f'{sys.executable} -c "{code}"'
    workload = workload_id(1)
    await bus.assign(training(1, command, runs=[run], image="ubuntu"))
    ready = await bus.state(workload, READY)
    assert [condition.type for condition in ready.conditions] == ["FieldsIgnored", "WorkingFolder"]
    done = await bus.state(workload, SUCCEEDED)
    assert done.status.exit_code == 0
    gone = await bus.state(workload, GONE)
    assert gone.status.gone_evidence == "no-process"
    assert bus.states(workload)[-3:] == ["READY", "SUCCEEDED", "GONE"]
    folder = agent.state / "replicas" / gone.status.name
    assert folder.exists()
    await bus.release(workload)
    eventually_now(lambda: not folder.exists())
    entry = json.loads((agent.state / "history.jsonl").read_text())
    assert entry["spec"]["devices"] == [{"uuid": devices[0].uuid, "portion": 0.5}]
    log = (agent.state / "logs" / gone.status.name / "log.000000000000000").read_text()
    assert devices[0].uuid in log
    orders = [m.order.sequence for m in bus.seen if hasattr(m, "order")]
    assert orders == sorted(orders)


async def test_a_failing_command_is_told_with_its_code_and_its_last_words(bus: Scheduler, agent: AgentProcess) -> None:
    agent.start()
    await bus.assign(training(1, "sh -c 'echo the last words; exit 3'"))
    failed = await bus.state(workload_id(1), FAILED)
    assert failed.status.exit_code == 3
    assert failed.status.failure == fleet_pb2.FAILURE_CLASS_EXIT
    assert failed.status.log_tail == "the last words\n"
    await bus.assign(training(2, "/no/such/program"))
    missing = await bus.state(workload_id(2), FAILED)
    assert missing.status.exit_code == 127
    assert "No such file" in missing.status.message


async def test_a_killed_agent_finds_what_runs_and_neither_doubles_nor_loses_it(
    bus: Scheduler, agent: AgentProcess
) -> None:
    agent.start()
    command = "sh -c 'cd $MUSTER_WORKLOAD_DIR; echo $$ >> starts; while [ ! -e end ]; do sleep 0.05; done; exit 3'"
    await bus.assign(training(1, command))
    await bus.state(workload_id(1), READY)
    agent.kill()
    bus.forget()
    (agent.kept(1) / "end").touch()
    agent.start()
    failed = await bus.state(workload_id(1), FAILED)
    assert failed.status.exit_code == 3
    assert failed.order.start == 2
    await bus.state(workload_id(1), GONE)
    assert len((agent.kept(1) / "starts").read_text().splitlines()) == 1
    held = await bus.wait_for(lambda m: isinstance(m, agent_pb2.AssignmentsHeld) and m.assignments)
    assert held.assignments[0].workload_id == workload_id(1)


async def test_a_tombstone_for_what_was_never_here_is_answered(bus: Scheduler, agent: AgentProcess) -> None:
    await bus.release(workload_id(7), generation=2, attempt=1)
    agent.start()
    answer = await bus.state(workload_id(7), GONE)
    assert (answer.generation, answer.attempt, answer.status.name) == (2, 1, "")


async def test_a_release_stops_with_grace_and_counts_as_ours(bus: Scheduler, agent: AgentProcess) -> None:
    agent.start()
    await bus.assign(training(1, "sh -c 'trap \"exit 0\" TERM; while true; do sleep 0.05; done'"))
    await bus.state(workload_id(1), READY)
    await bus.release(workload_id(1))
    failed = await bus.state(workload_id(1), FAILED)
    assert failed.status.failure == fleet_pb2.FAILURE_CLASS_OURS
    await bus.state(workload_id(1), GONE)
    eventually_now(lambda: not list((agent.state / "replicas").iterdir()))


async def test_bad_records_become_dead_letters_and_the_rest_flows(bus: Scheduler, agent: AgentProcess) -> None:
    agent.start()
    await bus.write(workload_id(1), b"\xff\xfe no protobuf")
    await bus.write("not an id", b"")
    await bus.write(workload_id(2), None)
    await bus.assign(training(3, "true"))
    await bus.state(workload_id(3), SUCCEEDED)
    refused = await bus.wait_for(lambda m: isinstance(m, agent_pb2.AssignmentRefused))
    assert refused.workload_id == workload_id(1)
    assert refused.retry_after_seconds == 0
    await bus.wait_for(lambda _: sum(isinstance(one, dead_letter_pb2.DeadLettered) for one in bus.seen) == 3, within=10)


async def test_lower_epochs_and_other_instances_are_not_obeyed(bus: Scheduler, agent: AgentProcess) -> None:
    agent.start()
    bus.epoch = 5
    await bus.assign(training(1, "true"))
    await bus.state(workload_id(1), SUCCEEDED)
    old = training(2, "true")
    old.epoch = 4
    await bus.assign(old)
    foreign = training(3, "true")
    foreign.agent_instance = "somebody else"
    await bus.assign(foreign)
    await bus.assign(training(4, "true"))
    await bus.state(workload_id(4), SUCCEEDED)
    assert bus.states(workload_id(2)) == []
    assert bus.states(workload_id(3)) == []


async def test_an_agent_that_holds_accepts_and_starts_nothing(bus: Scheduler, agent: AgentProcess) -> None:
    agent.hold = True
    await bus.assign(training(1, "true"))
    agent.start()
    held = await bus.wait_for(lambda m: isinstance(m, agent_pb2.AssignmentsHeld) and m.assignments)
    assert held.assignments[0].workload_id == workload_id(1)
    await bus.release(workload_id(1))
    await bus.state(workload_id(1), GONE)
    assert bus.states(workload_id(1)) == ["GONE"]
    assert not list((agent.state / "replicas").iterdir())
    assert CLUSTER in agent.file.read_text()
