"""Kafka comes back empty: the agent notices, stops nothing, and tells everything it holds again (rule 8)."""

from __future__ import annotations

from pathlib import Path

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_stack.embedded import EmbeddedKafka
from tests.support.agents import AgentProcess, scheduler, training, workload_id

READY = fleet_pb2.REPLICA_STATE_READY
SUCCEEDED = fleet_pb2.REPLICA_STATE_SUCCEEDED
GONE = fleet_pb2.REPLICA_STATE_GONE


async def test_what_runs_outlives_the_bus_and_is_told_again(own_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    command = "sh -c 'cd $MUSTER_WORKLOAD_DIR; echo >> starts; while [ ! -e end ]; do sleep 0.05; done'"
    agent = AgentProcess(tmp_path, own_kafka.bootstrap)
    try:
        async with scheduler(own_kafka.bootstrap) as before:
            agent.start()
            await before.assign(training(1, command))
            await before.state(workload_id(1), READY)
            await before.assign(training(2, "true"))
            await before.state(workload_id(2), GONE)
        own_kafka.wipe()
        async with scheduler(own_kafka.bootstrap) as after:
            await after.state(workload_id(1), READY)
            await after.state(workload_id(2), SUCCEEDED)
            await after.state(workload_id(2), GONE)
            await after.wait_for(lambda m: isinstance(m, agent_pb2.InventoryReported) and m.inventory.full)
            held = await after.wait_for(lambda m: isinstance(m, agent_pb2.AssignmentsHeld))
            assert {one.workload_id for one in held.assignments} == {workload_id(1), workload_id(2)}
            after.epoch = 2
            await after.assign(training(1, command))
            (agent.kept(1) / "end").touch()
            await after.state(workload_id(1), SUCCEEDED)
            await after.release(workload_id(1))
            await after.release(workload_id(2))
            await after.state(workload_id(1), GONE)
        assert len((agent.kept(1) / "starts").read_text()) == 1
    finally:
        agent.stop()
