"""ClusterAgentsService: a cluster's agent is asked about its cluster, by the instance that it is connected to."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import cluster_agents_pb2 as api
from muster.api.v1 import cluster_agents_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.rpc import caller
from muster_submission.adapters.agents import Agents
from muster_submission.adapters.peers import Call, Peers
from muster_submission.audit import Entry, passed_on
from muster_submission.domain.access import Verb
from muster_submission.handlers.access import Access


class ClusterAgents(cluster_agents_pb2_grpc.ClusterAgentsServiceServicer):
    """The servicer."""

    def __init__(self, database: Database, access: Access, agents: Agents, peers: Peers) -> None:
        self._database = database
        self._access = access
        self._agents = agents
        self._peers = peers

    async def CheckCluster(self, request: api.CheckClusterRequest, context: Any) -> api.CheckClusterResponse:
        """What an agent finds of its cluster.

        A check names nodes and repeats what the cluster's admission says, so it is for those who run the cluster.
        """
        await self._require(request.cluster)
        call = Call.of(context)
        peer = await self._peers.elsewhere(request.cluster, call)
        if peer is not None:
            return await self._peers.check(peer, request, call)
        return api.CheckClusterResponse(findings=await self._agents.check(request.cluster))

    async def RetireAgent(self, request: api.RetireAgentRequest, context: Any) -> api.RetireAgentResponse:
        """Ask an agent to delete what it has made in its cluster."""
        await self._require(request.cluster)
        call = Call.of(context)
        peer = await self._peers.elsewhere(request.cluster, call)
        if peer is not None:
            return await self._peers.retire(peer, request, call)

        async def retire() -> api.RetireAgentResponse:
            came = await self._agents.retire(request.cluster, force=request.force, dry_run=request.dry_run)
            return api.RetireAgentResponse(retirement=came)

        if request.dry_run:
            return await retire()
        entry = Entry(Verb.CLUSTERS_WRITE, f"cluster/{request.cluster}", detail="RetireAgent")
        return await passed_on(self._database, entry, retire)

    async def _require(self, cluster: str) -> None:
        (await self._access.rights(caller())).require(Verb.CLUSTERS_WRITE, cluster=cluster)
