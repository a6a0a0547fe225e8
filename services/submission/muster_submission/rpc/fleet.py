"""FleetService, passed on to the scheduler, which owns clusters and nodes.

Who may ask is judged here. What changes something is written into the audit before it is passed on, so that nothing
happens over there without a trace here.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from muster.api.v1 import fleet_pb2 as api
from muster.api.v1 import fleet_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.rpc import caller
from muster_submission.adapters.owners import Owner
from muster_submission.audit import Entry, passed_on
from muster_submission.domain.access import Verb
from muster_submission.handlers.access import Access, Rights
from muster_submission.handlers.node_pools import NodePools
from muster_submission.rpc.explain import readable

_STUB: Final = fleet_pb2_grpc.FleetServiceStub
_Changed = TypeVar(
    "_Changed",
    api.RegisterClusterResponse,
    api.AdoptClusterResponse,
    api.LeaveClusterResponse,
    api.ForceGoneNodeResponse,
    api.OrderNodeResponse,
    api.SetNodeLayoutResponse,
)


class Fleet(fleet_pb2_grpc.FleetServiceServicer):
    """The servicer."""

    def __init__(self, database: Database, access: Access, scheduler: Owner, pools: NodePools) -> None:
        self._database = database
        self._access = access
        self._scheduler = scheduler
        self._pools = pools

    async def RegisterCluster(self, request: api.RegisterClusterRequest, context: Any) -> api.RegisterClusterResponse:
        """Makes a cluster known, here too: node pools and quotas may name it from now on."""
        answer = await self._change("RegisterCluster", request, api.RegisterClusterResponse, context)
        await self._pools.note(self._database, [request.cluster])
        return answer

    async def ListClusters(self, request: api.ListClustersRequest, context: Any) -> api.ListClustersResponse:
        """The clusters that the caller may see."""
        seen = (await self._rights()).clusters(Verb.CLUSTERS_READ)
        answer = await self._scheduler.ask(_STUB, "ListClusters", request, api.ListClustersResponse, context)
        if seen is not None:
            shown = [one for one in answer.clusters if one.id in seen]
            del answer.clusters[:]
            answer.clusters.extend(shown)
        return answer

    async def AdoptCluster(self, request: api.AdoptClusterRequest, context: Any) -> api.AdoptClusterResponse:
        """Binds a cluster to another agent instance."""
        return await self._change("AdoptCluster", request, api.AdoptClusterResponse, context)

    async def LeaveCluster(self, request: api.LeaveClusterRequest, context: Any) -> api.LeaveClusterResponse:
        """Takes a cluster out of the fleet."""
        return await self._change("LeaveCluster", request, api.LeaveClusterResponse, context)

    async def ListNodes(self, request: api.ListNodesRequest, context: Any) -> api.ListNodesResponse:
        """The nodes with their devices, of the clusters that the caller may see."""
        rights = await self._rights()
        if request.cluster:
            rights.require(Verb.CLUSTERS_READ, cluster=request.cluster)
        seen = rights.clusters(Verb.CLUSTERS_READ)
        answer = await self._scheduler.ask(_STUB, "ListNodes", request, api.ListNodesResponse, context)
        if seen is not None:
            shown = [one for one in answer.nodes if one.cluster in seen]
            del answer.nodes[:]
            answer.nodes.extend(shown)
        if rights.projects(Verb.WORKLOADS_READ) is not None:
            # The names of workloads come without their projects, so they are for those who may see all.
            for device in (device for node in answer.nodes for device in node.devices):
                del device.workloads[:]
        return answer

    async def ListAccounts(self, request: api.ListAccountsRequest, context: Any) -> api.ListAccountsResponse:
        """What the projects that the caller may see hold and ask for in each node pool."""
        rights = await self._rights()
        seen = rights.projects(Verb.PROJECTS_READ)
        asked = api.ListAccountsRequest(
            projects=request.projects, with_shares=request.with_shares, readable=readable(rights)
        )
        answer = await self._scheduler.ask(_STUB, "ListAccounts", asked, api.ListAccountsResponse, context)
        if seen is not None:
            shown = [one for one in answer.accounts if one.project in seen]
            del answer.accounts[:]
            answer.accounts.extend(shown)
        return answer

    async def ForceGoneNode(self, request: api.ForceGoneNodeRequest, context: Any) -> api.ForceGoneNodeResponse:
        """Declares everything on a node GONE."""
        return await self._change("ForceGoneNode", request, api.ForceGoneNodeResponse, context, node=request.node)

    async def ListQuarantine(self, request: api.ListQuarantineRequest, context: Any) -> api.ListQuarantineResponse:
        """The workloads that the scheduler has set aside, of all projects."""
        (await self._rights()).require(Verb.DEAD_LETTERS_READ)
        return await self._scheduler.ask(_STUB, "ListQuarantine", request, api.ListQuarantineResponse, context)

    async def ReleaseQuarantine(
        self, request: api.ReleaseQuarantineRequest, context: Any
    ) -> api.ReleaseQuarantineResponse:
        """Lets workloads in again that were set aside."""
        (await self._rights()).require(Verb.DEAD_LETTERS_WRITE)
        return await passed_on(
            self._database,
            Entry(Verb.DEAD_LETTERS_WRITE, "quarantine", detail="ReleaseQuarantine"),
            lambda: self._scheduler.ask(_STUB, "ReleaseQuarantine", request, api.ReleaseQuarantineResponse, context),
        )

    async def OrderNode(self, request: api.OrderNodeRequest, context: Any) -> api.OrderNodeResponse:
        """Cordons or drains a node, or takes that back; who orders it is the caller."""
        request.by = caller().subject
        return await self._change("OrderNode", request, api.OrderNodeResponse, context, node=request.node)

    async def SetNodeLayout(self, request: api.SetNodeLayoutRequest, context: Any) -> api.SetNodeLayoutResponse:
        """Changes the MIG layout of a node, or takes that back; who orders it is the caller."""
        request.by = caller().subject
        return await self._change("SetNodeLayout", request, api.SetNodeLayoutResponse, context, node=request.node)

    async def _rights(self) -> Rights:
        return await self._access.rights(caller())

    async def _change(
        self, method: str, request: Any, response: type[_Changed], context: Any, node: str = ""
    ) -> _Changed:
        (await self._rights()).require(Verb.CLUSTERS_WRITE, cluster=request.cluster)
        target = f"node/{request.cluster}/{node}" if node else f"cluster/{request.cluster}"
        return await passed_on(
            self._database,
            Entry(Verb.CLUSTERS_WRITE, target, detail=method),
            lambda: self._scheduler.ask(_STUB, method, request, response, context),
        )
