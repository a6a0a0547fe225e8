"""FleetService, passed on to the scheduler, which owns clusters and nodes."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import fleet_pb2 as api
from muster.api.v1 import fleet_pb2_grpc
from muster_submission.adapters.owners import Owner

_STUB = fleet_pb2_grpc.FleetServiceStub


class Fleet(fleet_pb2_grpc.FleetServiceServicer):
    """The servicer."""

    def __init__(self, scheduler: Owner) -> None:
        self._scheduler = scheduler

    async def RegisterCluster(self, request: api.RegisterClusterRequest, context: Any) -> api.RegisterClusterResponse:
        """Makes a cluster known."""
        return await self._scheduler.ask(_STUB, "RegisterCluster", request, api.RegisterClusterResponse, context)

    async def ListClusters(self, request: api.ListClustersRequest, context: Any) -> api.ListClustersResponse:
        """The clusters."""
        return await self._scheduler.ask(_STUB, "ListClusters", request, api.ListClustersResponse, context)

    async def AdoptCluster(self, request: api.AdoptClusterRequest, context: Any) -> api.AdoptClusterResponse:
        """Binds a cluster to another agent instance."""
        return await self._scheduler.ask(_STUB, "AdoptCluster", request, api.AdoptClusterResponse, context)

    async def ListNodes(self, request: api.ListNodesRequest, context: Any) -> api.ListNodesResponse:
        """The nodes with their devices."""
        return await self._scheduler.ask(_STUB, "ListNodes", request, api.ListNodesResponse, context)

    async def ListAccounts(self, request: api.ListAccountsRequest, context: Any) -> api.ListAccountsResponse:
        """What projects hold and ask for in each node pool."""
        return await self._scheduler.ask(_STUB, "ListAccounts", request, api.ListAccountsResponse, context)

    async def ForceGoneNode(self, request: api.ForceGoneNodeRequest, context: Any) -> api.ForceGoneNodeResponse:
        """Declares everything on a node GONE."""
        return await self._scheduler.ask(_STUB, "ForceGoneNode", request, api.ForceGoneNodeResponse, context)
