"""Everything that is neither a workload nor tenancy: templates, clusters, nodes and dead letters.

Made once per client; `muster.templates.apply(..)` and so on. Holds what muster.py holds: a key on every mutation, a
deadline on every call, the API's own messages as answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import grpc

from muster.api.v1 import (
    cluster_agents_pb2,
    cluster_agents_pb2_grpc,
    dead_letters_pb2,
    dead_letters_pb2_grpc,
    fleet_pb2_grpc,
    templates_pb2,
    templates_pb2_grpc,
)
from muster.api.v1 import fleet_pb2 as fleet_api_pb2
from muster.fleet.v1 import fleet_pb2
from muster_client.calls import Calls, new_key
from muster_client.drafts import OUTCOMES, AppliedTemplate, Draft, draft_of
from muster_client.pages import PAGE, pages

_CHECK_SECONDS: Final = 30.0
_RETIRE_SECONDS: Final = 130.0  # an agent deletes each object that it has made


class Resource:
    """What all of them share: how calls are made, and over which channel."""

    def __init__(self, calls: Calls, channel: grpc.aio.Channel) -> None:
        self._calls = calls
        self._channel = channel


class Templates(Resource):
    """Values that workloads inherit by naming them as baseWorkload."""

    async def apply(
        self,
        draft: Draft,
        *,
        project: str = "",
        everywhere: bool = False,
        key: str | None = None,
    ) -> AppliedTemplate:
        """Makes a template or changes it. `everywhere`: for all projects. Raises InvalidInput with every violation."""
        request = templates_pb2.ApplyTemplateRequest(draft=draft_of(draft, project), idempotency_key=key or new_key())
        setattr(request, "global", everywhere)  # the field's name is a word of Python's own
        stub = templates_pb2_grpc.TemplatesServiceStub(self._channel)
        answer = await self._calls.unary(stub.ApplyTemplate, request)
        return AppliedTemplate(answer.template, OUTCOMES.get(answer.outcome, str(answer.outcome)))

    async def get(self, name: str, *, project: str = "") -> templates_pb2.GetTemplateResponse:
        """From what a project's workloads inherit under a name, and its document; no project: the global one.

        Raises NotFound.
        """
        stub = templates_pb2_grpc.TemplatesServiceStub(self._channel)
        return await self._calls.unary(stub.GetTemplate, templates_pb2.GetTemplateRequest(project=project, name=name))

    async def delete(self, name: str, *, project: str = "", key: str | None = None) -> None:
        """Removes a project's template, or the global one; what was made from it stays. Raises NotFound."""
        request = templates_pb2.DeleteTemplateRequest(project=project, name=name, idempotency_key=key or new_key())
        stub = templates_pb2_grpc.TemplatesServiceStub(self._channel)
        await self._calls.unary(stub.DeleteTemplate, request)

    def list(self, *, project: str = "") -> AsyncIterator[templates_pb2.Template]:
        """The templates of a project and the global ones; of all projects where none is named."""
        stub = templates_pb2_grpc.TemplatesServiceStub(self._channel)

        async def page(token: str) -> tuple[Sequence[templates_pb2.Template], str]:
            request = templates_pb2.ListTemplatesRequest(project=project, page_size=PAGE, page_token=token)
            answer = await self._calls.unary(stub.ListTemplates, request)
            return answer.templates, answer.next_page_token

        return pages(page)


class Clusters(Resource):
    """The clusters of the fleet."""

    async def register(
        self, cluster: str, *, lost_timeout: int = 0, key: str | None = None
    ) -> fleet_api_pb2.RegisterClusterResponse:
        """Makes a cluster known; the answer has the keys that its agent has to trust.

        `lost_timeout`: seconds of silence after which its replicas count as gone; 0: never. The agent's dead-man's
        deadline counts where it is larger, and 60 s are added. Raises FailedPrecondition where the agent has none.
        """
        request = fleet_api_pb2.RegisterClusterRequest(
            cluster=cluster, lost_timeout_seconds=lost_timeout, idempotency_key=key or new_key()
        )
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return await self._calls.unary(stub.RegisterCluster, request)

    def list(self) -> AsyncIterator[fleet_pb2.Cluster]:
        """The clusters, by id."""
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)

        async def page(token: str) -> tuple[Sequence[fleet_pb2.Cluster], str]:
            request = fleet_api_pb2.ListClustersRequest(page_size=PAGE, page_token=token)
            answer = await self._calls.unary(stub.ListClusters, request)
            return answer.clusters, answer.next_page_token

        return pages(page)

    async def check(self, cluster: str) -> Sequence[fleet_pb2.Finding]:
        """Ask its agent to check the cluster; the findings. Raises Unavailable where no agent is connected."""
        stub = cluster_agents_pb2_grpc.ClusterAgentsServiceStub(self._channel)
        request = cluster_agents_pb2.CheckClusterRequest(cluster=cluster)
        return (await self._calls.unary(stub.CheckCluster, request, attempt=_CHECK_SECONDS)).findings

    async def leave(self, cluster: str, *, force: bool = False, key: str | None = None) -> int:
        """Takes a cluster out of the fleet; how many replicas were declared gone.

        Raises NotFound, and NotNow while it holds replicas; `force`: also then.
        """
        request = fleet_api_pb2.LeaveClusterRequest(cluster=cluster, force=force, idempotency_key=key or new_key())
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return (await self._calls.unary(stub.LeaveCluster, request)).declared_gone

    async def retire(self, cluster: str, *, force: bool = False, dry_run: bool = False) -> fleet_pb2.Retirement:
        """Ask its agent to delete what it has made there. Raises Unavailable where no agent is connected.

        `force`: also what runs or holds data. `dry_run`: only says what stands in the way.
        """
        stub = cluster_agents_pb2_grpc.ClusterAgentsServiceStub(self._channel)
        request = cluster_agents_pb2.RetireAgentRequest(cluster=cluster, force=force, dry_run=dry_run)
        return (await self._calls.unary(stub.RetireAgent, request, attempt=_RETIRE_SECONDS)).retirement

    async def adopt(
        self, cluster: str, instance: str, *, force: bool = False, key: str | None = None
    ) -> fleet_api_pb2.AdoptClusterResponse:
        """Binds a cluster to another agent instance; what the old one held is declared gone first.

        Raises NotFound for an instance that has not reported, FailedPrecondition while the old one is alive;
        `force`: also then.
        """
        request = fleet_api_pb2.AdoptClusterRequest(
            cluster=cluster, instance=instance, idempotency_key=key or new_key(), force=force
        )
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return await self._calls.unary(stub.AdoptCluster, request)


class Nodes(Resource):
    """The nodes with their devices."""

    def list(self, *, cluster: str = "") -> AsyncIterator[fleet_pb2.NodeView]:
        """The nodes, by cluster and name."""
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)

        async def page(token: str) -> tuple[Sequence[fleet_pb2.NodeView], str]:
            request = fleet_api_pb2.ListNodesRequest(cluster=cluster, page_size=PAGE, page_token=token)
            answer = await self._calls.unary(stub.ListNodes, request)
            return answer.nodes, answer.next_page_token

        return pages(page)

    async def order(
        self,
        cluster: str,
        node: str,
        state: fleet_pb2.NodeState.ValueType,
        *,
        within: int = 0,
        key: str | None = None,
    ) -> fleet_pb2.NodeView:
        """Orders a node CORDONED or DRAINING (empty `within` seconds), or READY, which takes the order back.

        Raises NotFound.
        """
        request = fleet_api_pb2.OrderNodeRequest(
            cluster=cluster, node=node, state=state, within_seconds=within, idempotency_key=key or new_key()
        )
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return (await self._calls.unary(stub.OrderNode, request)).node

    async def set_layout(self, cluster: str, node: str, config: str, *, key: str | None = None) -> fleet_pb2.NodeView:
        """Changes the MIG layout of a node once it is empty; an empty `config` takes the change back.

        Raises NotFound and FailedPrecondition.
        """
        request = fleet_api_pb2.SetNodeLayoutRequest(
            cluster=cluster, node=node, config=config, idempotency_key=key or new_key()
        )
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return (await self._calls.unary(stub.SetNodeLayout, request)).node

    async def force_gone(self, cluster: str, node: str, *, key: str | None = None) -> int:
        """Declares everything on a node gone, on an operator's word; how many replicas that were. Raises NotFound."""
        request = fleet_api_pb2.ForceGoneNodeRequest(cluster=cluster, node=node, idempotency_key=key or new_key())
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return (await self._calls.unary(stub.ForceGoneNode, request)).declared_gone


class Quarantine(Resource):
    """The workloads that the scheduler failed on and has set aside."""

    async def list(self) -> Sequence[fleet_api_pb2.QuarantinedWorkload]:
        """The workloads, the oldest first, with what was raised and where."""
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return (await self._calls.unary(stub.ListQuarantine, fleet_api_pb2.ListQuarantineRequest())).workloads

    async def release(self, workloads: Iterable[str] = (), *, key: str | None = None) -> int:
        """Let workloads in again, all of them where none is named; how many. Raises NotFound."""
        request = fleet_api_pb2.ReleaseQuarantineRequest(workload_ids=workloads, idempotency_key=key or new_key())
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return (await self._calls.unary(stub.ReleaseQuarantine, request)).released


class DeadLetters(Resource):
    """What a service could not handle."""

    async def list(
        self, *, service: str = "", include_done: bool = False, limit: int = 50
    ) -> dead_letters_pb2.ListDeadLettersResponse:
        """The newest `limit` dead letters (at most 500), how many there are, and which services did not answer."""
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(self._channel)
        found = dead_letters_pb2.ListDeadLettersResponse()
        while True:
            request = dead_letters_pb2.ListDeadLettersRequest(
                service=service,
                include_done=include_done,
                page_size=limit - len(found.dead_letters),
                page_token=found.next_page_token,
            )
            page = await self._calls.unary(stub.ListDeadLetters, request)
            found.dead_letters.extend(page.dead_letters)
            found.unanswered.extend(name for name in page.unanswered if name not in found.unanswered)
            found.total = max(found.total, page.total, len(found.dead_letters))
            found.next_page_token = page.next_page_token
            if not page.next_page_token or not page.dead_letters or len(found.dead_letters) >= limit:
                return found

    async def redrive(
        self, ids: Iterable[str] = (), *, service: str = "", key: str | None = None
    ) -> dead_letters_pb2.RedriveDeadLettersResponse:
        """Hands dead letters to their handler again; all of `service` where no ids are given. Raises NotFound."""
        request = dead_letters_pb2.RedriveDeadLettersRequest(service=service, ids=ids, idempotency_key=key or new_key())
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(self._channel)
        return await self._calls.unary(stub.RedriveDeadLetters, request)

    async def discard(
        self, ids: Iterable[str], *, service: str = "", key: str | None = None
    ) -> dead_letters_pb2.DiscardDeadLettersResponse:
        """Gives dead letters up for good; what waits behind them goes on. Raises NotFound where none of them waits."""
        request = dead_letters_pb2.DiscardDeadLettersRequest(service=service, ids=ids, idempotency_key=key or new_key())
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(self._channel)
        return await self._calls.unary(stub.DiscardDeadLetters, request)

    async def gaps(self, *, service: str = "") -> dead_letters_pb2.ListGapsResponse:
        """Where versions of aggregates are missing so that later ones wait, oldest first; and who did not answer."""
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(self._channel)
        return await self._calls.unary(stub.ListGaps, dead_letters_pb2.ListGapsRequest(service=service))

    async def republish(
        self, topic: str, *, aggregate: str = "", key: str | None = None
    ) -> dead_letters_pb2.RepublishResponse:
        """Publish once more what its owner has of a topic, or of one aggregate. Raises NotFound.

        The answer says how many records went out; where it is not `finished`, the same call (with `key`) waits on.
        """
        request = dead_letters_pb2.RepublishRequest(topic=topic, key=aggregate, idempotency_key=key or new_key())
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(self._channel)
        return await self._calls.unary(stub.Republish, request)

    async def resume(
        self, service: str, *, topic: str = "", count: int = 0, until_quiet: bool = False, key: str | None = None
    ) -> dead_letters_pb2.ResumeConsumerResponse:
        """Let a consumer go on that stopped because too much was rejected; wait for `count` records or for quiet.

        The answer says how many passed; where it is not `finished`, the same call waits on.
        """
        request = dead_letters_pb2.ResumeConsumerRequest(
            service=service, topic=topic, count=count, until_quiet=until_quiet, idempotency_key=key or new_key()
        )
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(self._channel)
        return await self._calls.unary(stub.ResumeConsumer, request)
