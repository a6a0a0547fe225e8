"""What an agent keeps of itself in its cluster: who it is, how often it led, and the highest epoch (kubernetes.md 4.2).

One ConfigMap in the agent's own namespace, read once when the agent has taken the lead and written only while it holds.
Holds: a copy of it in another cluster is no identity there, since the cluster's own uid stands beside it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from muster_chassis import logs
from muster_chassis.backoff import Backoff
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.errors import BackendError, ClusterFileError

NAME: Final = "muster-agent"
_BUS: Final = "bus"
_YEAR_2025: Final = 1_735_689_600  # its first second; counted from there a start stays below the contract's limit

_log = logs.get(__name__)


class ClusterState:
    """The agent's own ConfigMap. instance: who it is; start: how often it has led; both are there after `open`."""

    def __init__(self, client: Client, namespace: str, cluster: str, clock: Callable[[], float] = time.time) -> None:
        """clock: seconds since 1970."""
        self._client = client
        self._clock = clock
        self._cluster = cluster
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._data: dict[str, str] = {}
        self.instance = ""
        self.start = 0
        self._due: dict[str, str] = {}  # not written yet
        self._wake = asyncio.Event()

    async def open(self) -> None:
        """Reads what is kept, and counts this start. Raises ClusterFileError, ApiError or Unreachable."""
        here = str((await self._client.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"])
        raw = await self._client.find(f"{self._path}/{NAME}")
        if raw is None:
            raw = await self._client.post(self._path, self._new_map(here))
        self._data = dict(raw.get("data") or {})
        self._check("cluster_uid", here, "another cluster answers at this address")
        self._check("cluster", self._cluster, "the cluster file names another cluster")
        self.instance = self._data["instance"]
        # The scheduler ignores reports with a start number below the highest that it has seen. After a restore of etcd
        # the stored number is too low. The clock is always higher, because each start takes seconds.
        self.start = max(self.read_number("starts") + 1, int(self._clock()) - _YEAR_2025)
        # The version makes this fail where another agent has counted meanwhile.
        metadata = {"resourceVersion": raw["metadata"]["resourceVersion"]}
        await self._client.patch(f"{self._path}/{NAME}", {"metadata": metadata, "data": {"starts": str(self.start)}})

    def read_number(self, name: str) -> int:
        """A kept number; 0 where there is none."""
        text = self._data.get(name, "")
        return int(text) if text.isdigit() else 0

    async def keep_number(self, name: str, value: int) -> None:
        """Keeps a number, soon: an API server that is away for a while ends no task of the agent."""
        self._keep(name, str(value))

    async def known(self) -> str | None:
        """The id of the bus that this agent last spoke to, or None before the first time."""
        return self._data.get(_BUS) or None

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus. Every connection begins with a resync, so that the new bus lacks nothing."""
        self._keep(_BUS, cluster_id)

    async def run(self) -> None:
        """Writes what is to be kept, for ever. An eternal task."""
        backoff = Backoff(first=0.5, last=10.0)
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._due = self._due, {}
            try:
                await self._client.patch(f"{self._path}/{NAME}", {"data": due})
                backoff.reset()
            except BackendError as error:
                _log.warning("the agent's own state is not written yet", error=str(error))
                self._due = {**due, **self._due}
                self._wake.set()
                await backoff.pause()

    def _keep(self, name: str, text: str) -> None:
        self._data[name] = self._due[name] = text
        self._wake.set()

    def _check(self, name: str, here: str, wrong: str) -> None:
        kept = self._data.get(name)
        if kept != here:
            raise ClusterFileError(
                f"{wrong}: ConfigMap {self._namespace}/{NAME} has {name} {kept}, and here it is {here}; nothing is done"
            )

    def _new_map(self, cluster_uid: str) -> dict[str, Any]:
        data = {"instance": str(uuid.uuid4()), "starts": "0", "cluster": self._cluster, "cluster_uid": cluster_uid}
        labels = {marks.MANAGED_BY: marks.MANAGER}
        metadata = {"name": NAME, "namespace": self._namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
