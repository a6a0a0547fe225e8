"""PoliciesService, passed on to policy, which owns the documents and judges."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import policies_pb2 as api
from muster.api.v1 import policies_pb2_grpc
from muster_chassis import identity
from muster_chassis.rpc import caller
from muster_submission.adapters.owners import Owner
from muster_submission.domain.access import Verb
from muster_submission.handlers.access import Access
from muster_submission.handlers.asking import Asking
from muster_submission.rpc.reading import owner

_STUB = policies_pb2_grpc.PoliciesServiceStub


class Policies(policies_pb2_grpc.PoliciesServiceServicer):
    """The servicer."""

    def __init__(self, access: Access, policy: Owner, asking: Asking) -> None:
        self._access = access
        self._policy = policy
        self._asking = asking

    async def GetEffectivePolicy(
        self, request: api.GetEffectivePolicyRequest, context: Any
    ) -> api.GetEffectivePolicyResponse:
        """The policy that is in force for a project, or the tenant's, which everyone with a role may know."""
        rights = await self._access.rights(caller())
        if request.project or not rights.anywhere(Verb.POLICIES_READ):
            rights.require(Verb.POLICIES_READ, project=request.project)
        return await self._policy.ask(_STUB, "GetEffectivePolicy", request, api.GetEffectivePolicyResponse, context)

    async def JudgeWorkloads(self, request: api.JudgeWorkloadsRequest, context: Any) -> api.JudgeWorkloadsResponse:
        """What policy would say of drafts that the caller could submit."""
        rights = await self._access.rights(caller())
        asked_for = await self._asking.submitted(request.drafts, rights, owner(), identity.now())
        return await self._policy.ask(
            _STUB,
            "JudgeWorkloads",
            api.JudgeWorkloadsRequest(submitted=[each.told for each in asked_for]),
            api.JudgeWorkloadsResponse,
            context,
        )
