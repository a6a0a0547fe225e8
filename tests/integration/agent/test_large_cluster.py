"""An agent of 300 nodes with 70 labels each on a real Kafka: its whole inventory arrives."""

from __future__ import annotations

import json
from pathlib import Path

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from tests.support.agents import CLUSTER, AgentProcess, scheduler

NODES = 300


def cluster_file() -> str:
    """A cluster whose inventory is larger than a record may be."""
    labels = {f"feature.node.kubernetes.io/cpu-feature-{number:03}": f"value-{number}" for number in range(70)}
    devices = {"count": 8, "model": "A100-40GB", "memory": "40Gi"}
    nodes = [
        {"name": f"n-{number}", "cpu": 64, "memory": "512Gi", "devices": devices, "labels": labels}
        for number in range(NODES)
    ]
    lines = "\n".join(f"  - {json.dumps(node)}" for node in nodes)
    return f"cluster: {CLUSTER}\nnodes:\n{lines}\n"


async def test_the_inventory_of_a_large_cluster_arrives_whole(kafka: str, tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, kafka)
    async with scheduler(kafka) as bus:
        try:
            agent.start(cluster_file())
            last = await bus.wait_for(
                lambda m: isinstance(m, agent_pb2.InventoryPartReported) and m.part.number == m.part.count, within=120
            )
        finally:
            agent.stop()
    same = [m for m in bus.seen if isinstance(m, agent_pb2.InventoryPartReported) and m.digest == last.digest]
    assert [m.part.number for m in same] == list(range(1, last.part.count + 1))
    nodes = [node for m in same for node in fleet_pb2.Inventory.FromString(m.content).nodes]
    assert {node.name for node in nodes} == {f"n-{number}" for number in range(NODES)}
    assert sum(len(m.content) for m in same) > 1 << 20
