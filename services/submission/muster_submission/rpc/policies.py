"""PoliciesService, passed on to policy, which owns the documents."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import policies_pb2 as api
from muster.api.v1 import policies_pb2_grpc
from muster_submission.adapters.owners import Owner

_STUB = policies_pb2_grpc.PoliciesServiceStub


class Policies(policies_pb2_grpc.PoliciesServiceServicer):
    """The servicer."""

    def __init__(self, policy: Owner) -> None:
        self._policy = policy

    async def GetEffectivePolicy(
        self, request: api.GetEffectivePolicyRequest, context: Any
    ) -> api.GetEffectivePolicyResponse:
        """The policy that is in force for a project."""
        return await self._policy.ask(_STUB, "GetEffectivePolicy", request, api.GetEffectivePolicyResponse, context)
