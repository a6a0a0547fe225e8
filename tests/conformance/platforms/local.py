"""The local back end: nodes of a cluster file, replicas that are processes of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from muster.fleet.v1 import fleet_pb2
from muster_cluster_agent.adapters.local import procfs
from muster_cluster_agent.adapters.local.nodes import Switch
from muster_cluster_agent.adapters.local.state import instance_of, replace_file
from muster_cluster_agent.adapters.local.workdirs import digest_of
from tests.conformance.platforms import NODES, Capability, Platform
from tests.conformance.platforms.pipes import is_told
from tests.support.waiting import until

_CARDS: Final = 8


class Local(Platform):
    """An agent's own machine. root: the agent's folder; its state lies beside it."""

    name = "local"
    capabilities: ClassVar = frozenset(
        {
            Capability.CARDS,
            Capability.FROZEN_NODES,
            Capability.REBOOTS,
            Capability.SHARED_FOLDER,
            Capability.SIGNALS,
            Capability.OWN_SIGNALS,
            Capability.OUTPUT,
        }
    )
    gone = "no-process"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._state = root.with_name(f"{root.name}-state")

    def cluster_file(self, cluster: str) -> str:
        """Nodes with cards."""
        cards = [f"{{uuid: {_card(slot)}, model: A100-40GB, memory: 40Gi}}" for slot in range(_CARDS)]
        bare = "".join(f"  - {{name: n-{number}, cpu: 64, memory: 64Gi}}\n" for number in range(1, NODES))
        return (
            f"cluster: {cluster}\nroots: [{{path: {self._root}}}]\nnodes:\n"
            f"  - {{name: n-0, cpu: 64, memory: 64Gi, devices: [{', '.join(cards)}]}}\n{bare}"
        )

    async def finish(self, workload: str, replica: str, code: int) -> None:
        """Writes the code into the pipe that the program reads."""
        pipe = self._kept(workload) / replica
        await until(lambda: is_told(pipe, code))

    async def settled(self, workload: str, replica: str) -> None:
        """Its file is there."""
        await until((self._kept(workload) / f"{replica}.up").exists)

    async def starts(self, workload: str, replica: str) -> int:
        """Lines of its file."""
        file = self._kept(workload) / f"{replica}.starts"
        return len(file.read_bytes()) if file.exists() else 0

    async def environment(self, workload: str, replica: str) -> Mapping[str, str]:
        """What it has written down."""
        file = self._kept(workload) / f"{replica}.env"
        words = file.read_text().split("\0")
        return dict(word.split("=", 1) for word in words if word)

    async def devices(self, workload: str, replica: str) -> int:
        """As its environment says."""
        return len(json.loads((await self.environment(workload, replica))["MUSTER_DEVICES"]))

    async def left(self, workload: str) -> Sequence[str]:
        """Folders of its replicas, and their processes."""
        digest = digest_of(workload)
        names = await asyncio.to_thread(os.listdir, self._state / "replicas")
        folders = [name for name in names if digest in name]
        if folders:  # a look at every process of the machine costs more
            return folders
        living = await asyncio.to_thread(procfs.marked, instance_of(self._state))
        return [f"process of {name}" for name in living if digest in name]

    async def silence(self, node: str) -> None:
        """Freezes it."""
        self._switch(node, Switch.FREEZE)

    async def wake(self, node: str) -> None:
        """Lets it go on."""
        self._switch(node, Switch.UP)

    async def reboot(self, node: str) -> None:
        """Kills what runs there; the next boot has another id."""
        self._switch(node, Switch.REBOOT)

    async def retire(self, node: str) -> None:
        """Takes it out of service."""
        self._switch(node, Switch.OUT_OF_SERVICE)

    async def cordon(self, node: str) -> None:
        """Says so in the cluster file."""
        file = self._root / "cluster.yaml"
        file.write_text(file.read_text().replace(f"name: {node},", f"name: {node}, state: CORDONED,"))

    def device(self, run: fleet_pb2.ReplicaRun, slot: int) -> fleet_pb2.ReplicaRun:
        """Cards by their UUIDs, from a slot on."""
        for offset in range(run.count):
            share = fleet_pb2.DeviceShare(device=_uuid(slot + offset).bytes, whole=True)
            run.devices.add(shares=[share])
        return run

    def _kept(self, workload: str) -> Path:
        return self._state / "work" / digest_of(workload) / "keep"

    def _switch(self, node: str, switch: Switch) -> None:
        replace_file(self._state / "nodes" / node / "switch", switch.encode())


def _uuid(slot: int) -> uuid.UUID:
    return uuid.UUID(int=(0x5EED << 112) | slot)


def _card(slot: int) -> str:
    return f"GPU-{_uuid(slot)}"
