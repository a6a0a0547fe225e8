"""The addresses of workloads that serve: one proxy each, on a port that its replicas' specs remember.

Used by the local back end. Holds: a workload keeps its port as long as a replica of it is in the state folder.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from muster_cluster_agent.adapters.local.addresses import Ports
from muster_cluster_agent.adapters.local.proxy import Proxy
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.replicas import Replica
from muster_cluster_agent.domain.actions import Route

log = structlog.get_logger(__name__)


class Services:
    """The proxies of one agent, by workload."""

    def __init__(self, ports: Ports) -> None:
        """None is open."""
        self._ports = ports
        self._proxies: dict[str, Proxy] = {}

    async def restore(self, replicas: Iterable[Replica]) -> None:
        """Opens the addresses of what was found running."""
        for replica in replicas:
            if not replica.gone:
                await self.offer(replica)

    async def offer(self, replica: Replica) -> None:
        """Opens the address of a replica's workload where it has one.

        A port lost to somebody else is said, not fatal.
        """
        port = int(replica.spec.get("service_port") or 0)
        workload = replica.workload_id
        if not port or workload in self._proxies:
            return
        proxy = Proxy(port)
        self._proxies[workload] = proxy
        try:
            await proxy.open()
        except OSError as error:
            del self._proxies[workload]
            log.warning("service_address_taken", workload_id=workload, port=port, error=str(error))

    async def route(self, route: Route, replicas: Register) -> None:
        """Leads the workload's address to these replicas, or gives it up."""
        proxy = self._proxies.get(route.workload_id)
        if proxy is None:
            return
        if route.closed:
            del self._proxies[route.workload_id]
            await proxy.close()
            return
        ports = []
        for name in route.replicas:
            replica = replicas.get(name)
            own = replica.spec["ports"] if replica is not None else {}
            ports.extend([int(port) for port in own.values()][:1])
        proxy.route(tuple(ports))

    def addresses(self, workload_id: str) -> tuple[str, ...]:
        """Where the workload can be reached."""
        proxy = self._proxies.get(workload_id)
        return () if proxy is None else (f"http://127.0.0.1:{proxy.port}",)

    async def close(self) -> None:
        """Closes every proxy; the ports stay remembered."""
        for proxy in self._proxies.values():
            await proxy.close()
        self._proxies.clear()
