"""The addresses of workloads that serve: one port each, kept for the workload's life and carried by the pump.

Used by the local back end. Holds: what leads where is said to the pump whenever it changes, and all of it again to a
pump that was started again; an agent that starts takes over the routes that it finds, so that its own death ends no
service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from muster_cluster_agent.adapters.local.pumping import PumpClient
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.replicas import Replica
from muster_cluster_agent.adapters.local.service_ports import ServicePorts
from muster_cluster_agent.domain.actions import Route
from muster_cluster_agent.errors import BackendError

_MEND_SECONDS: Final = 1.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Address:
    """A workload's port and where it leads; None: unchanged in the pump."""

    port: int
    targets: tuple[int, ...] | None = None


class Services:
    """The addresses of one agent, by workload."""

    def __init__(self, root: Path, kept: ServicePorts) -> None:
        """None is open. root: the state folder."""
        self._kept = kept
        self._addresses: dict[str, _Address] = {}
        self._pump = PumpClient(root / "pump.sock", root / "supervisors.err", self._pump_lost)
        self._mending: asyncio.Task[None] | None = None

    async def found(self) -> frozenset[int]:
        """The ports of replicas to which a pump that outlived the last agent leads."""
        try:
            routes = await self._pump.find()
        except BackendError as error:
            log.warning("pump_silent", error=str(error))
            return frozenset()
        return frozenset(port for targets in (routes or {}).values() for port in targets)

    async def restore(self, replicas: Iterable[Replica]) -> None:
        """Open the addresses of what was found running."""
        for replica in replicas:
            if not replica.gone:
                await self.offer(replica)

    async def offer(self, replica: Replica) -> None:
        """Open the address of a replica's workload where it has one. A port that another process has is only said."""
        port = int(replica.spec.get("service_port") or 0)
        workload = replica.workload_id
        if not port or workload in self._addresses:
            return
        self._kept.keep(workload, port)
        self._addresses[workload] = _Address(port)
        answer = await self._ask({"port": port})
        if "error" in answer:
            del self._addresses[workload]
            self._kept.forget(workload)  # the next replica brings another one
            log.warning("service_address_taken", workload_id=workload, port=port, error=answer["error"])
        else:
            self._kept.opened.add(port)

    async def route(self, route: Route, replicas: Register) -> None:
        """Lead the workload's address to these replicas, or give it up; for good where the workload is deleted."""
        address = self._addresses.get(route.workload_id)
        if route.deleted and route.closed:
            self._kept.forget(route.workload_id)
        if address is None:
            return
        if route.closed:
            del self._addresses[route.workload_id]
            self._kept.opened.discard(address.port)
            await self._ask({"port": address.port, "closed": True})
            return
        ports = []
        for name in route.replicas:
            replica = replicas.get(name)
            own = replica.spec["ports"] if replica is not None else {}
            ports.extend([int(port) for port in own.values()][:1])
        if address.targets != tuple(ports):
            address.targets = tuple(ports)
            await self._ask({"port": address.port, "to": ports})

    def addresses(self, workload_id: str) -> tuple[str, ...]:
        """Where the workload can be reached."""
        address = self._addresses.get(workload_id)
        return () if address is None else (f"http://127.0.0.1:{address.port}",)

    async def close(self) -> None:
        """Stop looking after the pump; it goes on."""
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.gather(self._mending, return_exceptions=True)
        await self._pump.close()

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._pump.ask(question)
        except BackendError as error:
            log.warning("pump_silent", error=str(error))
            self._pump_lost()
            return {}

    def _pump_lost(self) -> None:
        """The pump has ended: start another one with all routes."""
        if self._addresses and (self._mending is None or self._mending.done()):
            self._mending = asyncio.create_task(self._mend(), name="pump-mending")

    async def _mend(self) -> None:
        log.warning("pump_started_again", addresses=len(self._addresses))
        while True:
            try:
                for address in list(self._addresses.values()):
                    await self._pump.ask({"port": address.port, "to": list(address.targets or ())})
            except BackendError as error:
                log.warning("pump_silent", error=str(error))
                await asyncio.sleep(_MEND_SECONDS)
            else:
                return
