"""The nodes' switches and what is killed behind the agent's back: LOST is not GONE, and GONE has evidence (rule 7)."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_cluster_agent.adapters.local import procfs
from muster_cluster_agent.adapters.local.nodes import Switch
from muster_cluster_agent.adapters.local.state import instance_of, replace_file
from tests.support.agents import AgentProcess, Scheduler, scheduler, training, workload_id
from tests.support.waiting import eventually_now, until

READY = fleet_pb2.REPLICA_STATE_READY
FAILED = fleet_pb2.REPLICA_STATE_FAILED
LOST = fleet_pb2.REPLICA_STATE_LOST
GONE = fleet_pb2.REPLICA_STATE_GONE


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


def journal_of(agent: AgentProcess, name: str) -> dict[str, dict[str, int]]:
    lines = (agent.state / "replicas" / name / "journal").read_text().splitlines()
    return {line["event"]: line for line in map(json.loads, lines)}


async def running(bus: Scheduler, command: str = "sleep 1000") -> str:
    await bus.assign(training(1, command))
    ready = await bus.state(workload_id(1), READY)
    return str(ready.status.name)


def set_switch(state: Path, node: str, switch: Switch) -> None:
    """Turns a node's switch, which is a file."""
    replace_file(state / "nodes" / node / "switch", switch.encode())


async def node_state(bus: Scheduler, state: int) -> None:
    await bus.wait_for(
        lambda m: (
            isinstance(m, agent_pb2.InventoryReported)
            and any(node.name == "n-0" and node.state == state for node in m.inventory.nodes)
        )
    )


def marked(agent: AgentProcess) -> dict[str, list[int]]:
    """The living processes of the agent's replicas."""
    return procfs.marked(instance_of(agent.state))


async def test_a_killed_supervisor_takes_its_command_along_and_strays_are_ended(
    bus: Scheduler, agent: AgentProcess
) -> None:
    stray = f"{sys.executable} -c 'import os,time; os.fork() or (os.setsid(), os.fork()); time.sleep(1000)'"
    name = await running(bus, stray)
    eventually_now(lambda: len(marked(agent).get(name, [])) == 3)
    os.kill(journal_of(agent, name)["supervised"]["pid"], signal.SIGKILL)
    failed = await bus.state(workload_id(1), FAILED)
    assert failed.status.failure == fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
    gone = await bus.state(workload_id(1), GONE)
    assert gone.status.gone_evidence == "no-process"
    assert name not in marked(agent)


async def test_a_frozen_node_is_lost_and_comes_back(bus: Scheduler, agent: AgentProcess) -> None:
    name = await running(bus)
    set_switch(agent.state, "n-0", Switch.FREEZE)
    await bus.state(workload_id(1), LOST)
    await node_state(bus, fleet_pb2.NODE_STATE_NOT_READY)
    # A process that waits for a core stops once it gets one.
    await until(lambda: all(_stopped(pid) for pid in marked(agent)[name]))
    bus.forget()
    set_switch(agent.state, "n-0", Switch.UP)
    await bus.state(workload_id(1), READY)
    await node_state(bus, fleet_pb2.NODE_STATE_READY)


def _stopped(pid: int) -> bool:
    found = procfs.stat(pid)
    return found is not None and found.state == "T"


async def test_a_killed_node_is_lost_until_it_has_another_boot_id(bus: Scheduler, agent: AgentProcess) -> None:
    name = await running(bus)
    boot = (agent.state / "nodes" / "n-0" / "boot-id").read_text()
    set_switch(agent.state, "n-0", Switch.KILL)
    await bus.state(workload_id(1), LOST)
    await until(lambda: name not in marked(agent))  # the kernel takes a moment to take it out
    assert "GONE" not in bus.states(workload_id(1))
    set_switch(agent.state, "n-0", Switch.REBOOT)
    gone = await bus.state(workload_id(1), GONE)
    assert gone.status.gone_evidence == "boot-id-changed"
    assert gone.status.failure == fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
    assert (agent.state / "nodes" / "n-0" / "boot-id").read_text() != boot
    assert (agent.state / "nodes" / "n-0" / "switch").read_text() == "up"


async def test_a_node_out_of_service_is_the_end_of_its_replicas(bus: Scheduler, agent: AgentProcess) -> None:
    await running(bus)
    set_switch(agent.state, "n-0", Switch.OUT_OF_SERVICE)
    gone = await bus.state(workload_id(1), GONE)
    assert gone.status.gone_evidence == "out-of-service"
    await bus.assign(training(2, "true"))
    refused = await bus.wait_for(lambda m: isinstance(m, agent_pb2.AssignmentRefused))
    assert (refused.workload_id, refused.node, refused.reason.code) == (workload_id(2), "n-0", "NodeNotReady")


async def test_a_node_that_stays_silent_too_long_is_gone(bus: Scheduler, agent: AgentProcess) -> None:
    agent.file.write_text("node_gone_after: 1\n" + agent.file.read_text())
    await running(bus)
    set_switch(agent.state, "n-0", Switch.FREEZE)
    gone = await bus.state(workload_id(1), GONE, within=30)
    assert gone.status.gone_evidence == "node-gone"


async def test_the_cluster_file_is_read_again_and_a_broken_one_is_not(bus: Scheduler, agent: AgentProcess) -> None:
    await bus.wait_for(lambda m: isinstance(m, agent_pb2.InventoryReported))
    good = agent.file.read_text()
    agent.file.write_text("nodes: nonsense")
    eventually_now(lambda: "cluster_file_refused" in agent.log())
    agent.file.write_text(
        good.replace("name: n-0,", "name: n-0, state: CORDONED,") + "foreign: [{node: n-1, cpu: 2}]\n"
    )
    await node_state(bus, fleet_pb2.NODE_STATE_CORDONED)
    await bus.wait_for(
        lambda m: isinstance(m, agent_pb2.InventoryReported) and any(n.foreign.cpu_milli for n in m.inventory.nodes)
    )
