"""What an agent process tells beside states: its dead-man's deadline with each heartbeat, and the use of devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from tests.support.agents import CLUSTER_FILE, AgentProcess, scheduler, training, workload_id


async def test_the_deadline_and_the_use_of_a_replica_are_told(kafka: str, tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "agent", kafka)
    async with scheduler(kafka) as bus:
        try:
            agent.start(f"dead_man: 840\n{CLUSTER_FILE}")
            beat = await bus.wait_for(lambda message: isinstance(message, agent_pb2.Heartbeat))
            assert beat.dead_man_seconds == 840
            inventory = await bus.wait_for(lambda message: isinstance(message, agent_pb2.InventoryReported))
            device = inventory.inventory.nodes[0].devices[0].uuid
            run = fleet_pb2.ReplicaRun(role="worker", count=1, node="n-0")
            share = run.devices.add().shares.add()
            share.device, share.whole = device.encode(), True
            bus.instance = beat.order.instance
            await bus.assign(training(1, "true", runs=[run]))
            await bus.state(workload_id(1), fleet_pb2.REPLICA_STATE_GONE)
            (spec,) = [json.loads(path.read_text()) for path in agent.state.glob("replicas/*/spec.json")]
            assert spec["deadline"]["seconds"] == 840.0

            def of_the_replica(message: Any) -> bool:
                return isinstance(message, agent_pb2.UsageSampled) and message.samples[0].workload_id == workload_id(1)

            used = await bus.wait_for(of_the_replica)
            (sample,) = used.samples
            assert (used.cluster, sample.gpu_charge, sample.replica) == ("local-t", 7000, spec["name"])
            assert getattr(sample, "from").ToNanoseconds() < sample.to.ToNanoseconds()
        finally:
            agent.stop()
