"""The Kubernetes back end on real nodes: n-0 and n-1 have kubelets and containers, all others are played."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from tests.conformance.kubelets import Kubelets
from tests.conformance.platforms import Capability
from tests.conformance.platforms.pipes import is_told
from tests.conformance.platforms.played import Server
from tests.conformance.webhooks import Webhooks
from tests.nodes.machine import Node
from tests.support.waiting import until

REAL: Final = ("n-0", "n-1")
GPUS: Final = 8  # of each


class Real(Server):
    """nodes: the real ones, by name."""

    name = "node"
    capabilities: ClassVar = (Server.capabilities - {Capability.OWN_SIGNALS}) | {Capability.SIGNALS, Capability.OUTPUT}
    spoken_for = "n-2"
    cpu_milli = (os.cpu_count() or 1) * 1000

    def __init__(
        self,
        kubelets: Kubelets,
        root: Path,
        url: str,
        token: str,
        number: int,
        webhooks: Webhooks,
        nodes: Mapping[str, Node],
    ) -> None:
        super().__init__(kubelets, root, url, token, number, webhooks)
        self._nodes = nodes

    async def finish(self, workload: str, replica: str, code: int) -> None:
        """Writes the code into the pipe that the program reads."""
        node = await self._node_of(replica)
        if node is None:
            await super().finish(workload, replica, code)
            return
        await until(lambda: (pipe := _file_of(node, replica)) is not None and is_told(pipe, code))

    async def settled(self, workload: str, replica: str) -> None:
        """Its file is there."""
        node = await self._node_of(replica)
        if node is None:
            await super().settled(workload, replica)
            return
        await until(lambda: _is_up(node, replica))

    async def _node_of(self, replica: str) -> Node | None:
        """The real node of a replica; None: its node is played."""
        pod = await self.pod(replica)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{replica}"
        await until(lambda: self.kubelets.pods.get(path, pod)["spec"].get("nodeName"))
        return self._nodes.get(self.kubelets.pods.get(path, pod)["spec"]["nodeName"])


def _file_of(node: Node, replica: str) -> Path | None:
    """The file of a replica in its container, by the way that its processes have there; None: none runs."""
    try:
        pid, variables = node.variables_of(f"MUSTER_REPLICA={replica}")
    except LookupError:
        return None
    return Path(f"/proc/{pid}/root{variables.get('MUSTER_WORKLOAD_DIR', '')}") / replica


def _is_up(node: Node, replica: str) -> bool:
    file = _file_of(node, replica)
    return file is not None and file.with_name(f"{file.name}.up").exists()
