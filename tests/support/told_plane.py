"""What a test's control plane tells of itself as its world has it: explanations, templates, usage, fleet, dead letters.

Mounted by control_plane. Holds: nothing is worked out here; an answer is what the test has put into the world.
"""

from __future__ import annotations

from typing import Any

from muster.api.v1 import (
    dead_letters_pb2,
    dead_letters_pb2_grpc,
    explain_pb2,
    explain_pb2_grpc,
    fleet_pb2_grpc,
    templates_pb2,
    templates_pb2_grpc,
    usage_pb2,
    usage_pb2_grpc,
    workloads_pb2,
)
from muster.api.v1 import (
    fleet_pb2 as fleet_api_pb2,
)
from muster.fleet.v1 import fleet_pb2
from tests.support.plane_world import PlaneService


class ExplainPlane(PlaneService, explain_pb2_grpc.ExplainServiceServicer):
    async def Why(self, request: Any, context: Any) -> Any:
        return await self._tell("Why", request, context, explain_pb2.WhyResponse(explanation=self._world.explanation))

    async def WhatIf(self, request: Any, context: Any) -> Any:
        return await self._tell("WhatIf", request, context, self._world.prospects)


class TemplatesPlane(PlaneService, templates_pb2_grpc.TemplatesServiceServicer):
    async def ApplyTemplate(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            made = templates_pb2.Template(name="base", project=asked.draft.project, version=1)
            outcome = workloads_pb2.APPLY_OUTCOME_CREATED
            return templates_pb2.ApplyTemplateResponse(template=made, outcome=outcome)

        return await self._do("ApplyTemplate", request, context, act)

    async def ListTemplates(self, request: Any, context: Any) -> Any:
        return await self._tell("ListTemplates", request, context, templates_pb2.ListTemplatesResponse())

    async def GetTemplate(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            found = templates_pb2.Template(name=asked.name, project=asked.project, version=3)
            return templates_pb2.GetTemplateResponse(template=found, yaml=f"metadata:\n  name: {asked.name}\n")

        return await self._do("GetTemplate", request, context, act)

    async def DeleteTemplate(self, request: Any, context: Any) -> Any:
        return await self._tell("DeleteTemplate", request, context, templates_pb2.DeleteTemplateResponse())


class UsagePlane(PlaneService, usage_pb2_grpc.UsageServiceServicer):
    async def GetUsage(self, request: Any, context: Any) -> Any:
        return await self._tell("GetUsage", request, context, usage_pb2.GetUsageResponse(workloads=self._world.usage))


class FleetPlane(PlaneService, fleet_pb2_grpc.FleetServiceServicer):
    async def ListAccounts(self, request: Any, context: Any) -> Any:
        return await self._tell(
            "ListAccounts", request, context, fleet_api_pb2.ListAccountsResponse(accounts=self._world.accounts)
        )

    async def ListClusters(self, request: Any, context: Any) -> Any:
        return await self._tell(
            "ListClusters", request, context, fleet_api_pb2.ListClustersResponse(clusters=self._world.clusters)
        )

    async def RegisterCluster(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            made = fleet_pb2.Cluster(id=asked.cluster, state=fleet_pb2.CLUSTER_STATE_REGISTERED)
            return fleet_api_pb2.RegisterClusterResponse(cluster=made)

        return await self._do("RegisterCluster", request, context, act)

    async def AdoptCluster(self, request: Any, context: Any) -> Any:
        return await self._tell("AdoptCluster", request, context, fleet_api_pb2.AdoptClusterResponse(declared_gone=3))

    async def LeaveCluster(self, request: Any, context: Any) -> Any:
        return await self._tell("LeaveCluster", request, context, fleet_api_pb2.LeaveClusterResponse(declared_gone=1))

    async def ForceGoneNode(self, request: Any, context: Any) -> Any:
        return await self._tell("ForceGoneNode", request, context, fleet_api_pb2.ForceGoneNodeResponse(declared_gone=2))

    async def ListQuarantine(self, request: Any, context: Any) -> Any:
        return await self._tell("ListQuarantine", request, context, self._world.quarantine)

    async def ReleaseQuarantine(self, request: Any, context: Any) -> Any:
        answer = fleet_api_pb2.ReleaseQuarantineResponse(released=len(request.workload_ids) or 7)
        return await self._tell("ReleaseQuarantine", request, context, answer)

    async def OrderNode(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            (node,) = (each for each in self._world.nodes if (each.cluster, each.name) == (asked.cluster, asked.node))
            node.state = asked.state
            return fleet_api_pb2.OrderNodeResponse(node=node)

        return await self._do("OrderNode", request, context, act)

    async def SetNodeLayout(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            (node,) = (each for each in self._world.nodes if (each.cluster, each.name) == (asked.cluster, asked.node))
            node.ClearField("layout")
            if asked.config:
                node.layout.MergeFrom(fleet_pb2.LayoutChange(config=asked.config, by="anna"))
            return fleet_api_pb2.SetNodeLayoutResponse(node=node)

        return await self._do("SetNodeLayout", request, context, act)

    async def ListNodes(self, request: Any, context: Any) -> Any:
        return await self._tell("ListNodes", request, context, fleet_api_pb2.ListNodesResponse(nodes=self._world.nodes))


class DeadLettersPlane(PlaneService, dead_letters_pb2_grpc.DeadLettersServiceServicer):
    async def ListDeadLetters(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            begin = int(asked.page_token or 0)
            end = begin + min(asked.page_size, 2)  # a page is smaller than what may be asked for
            every = self._world.dead_letters
            return dead_letters_pb2.ListDeadLettersResponse(
                dead_letters=every[begin:end],
                unanswered=["telemetry"],
                next_page_token=str(end) if end < len(every) else "",
                total=len(every),
            )

        return await self._do("ListDeadLetters", request, context, act)

    async def DiscardDeadLetters(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            known = {letter.id for letter in self._world.dead_letters}
            missing = [each for each in asked.ids if each not in known]
            return dead_letters_pb2.DiscardDeadLettersResponse(
                discarded=len(asked.ids) - len(missing), released=2, missing=missing
            )

        return await self._do("DiscardDeadLetters", request, context, act)

    async def ListGaps(self, request: Any, context: Any) -> Any:
        gap = dead_letters_pb2.Gap(
            service="submission", topic="muster.decisions", aggregate="w-1", first=3, last=5, waiting=2
        )
        return await self._tell(
            "ListGaps",
            request,
            context,
            dead_letters_pb2.ListGapsResponse(gaps=[gap], total=2, unanswered=["telemetry"]),
        )

    async def Republish(self, request: Any, context: Any) -> Any:
        answer = dead_letters_pb2.RepublishResponse(sent=7, finished=True, snapshot=bool(request.key))
        return await self._tell("Republish", request, context, answer)

    async def ResumeConsumer(self, request: Any, context: Any) -> Any:
        return await self._tell(
            "ResumeConsumer",
            request,
            context,
            dead_letters_pb2.ResumeConsumerResponse(
                topics=[request.topic] if request.topic else [],
                passed=request.count,
                rejected=request.count // 2,
                finished=True,
            ),
        )

    async def RedriveDeadLetters(self, request: Any, context: Any) -> Any:
        return await self._tell(
            "RedriveDeadLetters",
            request,
            context,
            dead_letters_pb2.RedriveDeadLettersResponse(handled=1, failed=1, reasons=["still no project x"]),
        )
