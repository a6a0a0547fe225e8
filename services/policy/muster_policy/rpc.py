"""PoliciesService: which policy is in force."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import policies_pb2 as pb
from muster.api.v1 import policies_pb2_grpc
from muster.policy.v1.policy_pb2 import PolicyRef
from muster_chassis.rpc import Service, service
from muster_policy.domain.bench import Bench
from muster_policy.domain.policy import NO_POLICY


class Policies(policies_pb2_grpc.PoliciesServiceServicer):
    """Answers from the bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def GetEffectivePolicy(
        self, request: pb.GetEffectivePolicyRequest, context: Any
    ) -> pb.GetEffectivePolicyResponse:
        """The one document that is in force for everybody; empty where no file is named."""
        policy = self._bench.policy
        if policy is NO_POLICY:
            return pb.GetEffectivePolicyResponse()
        ref = PolicyRef(name=policy.name, version=policy.version, scope=policy.scope)
        return pb.GetEffectivePolicyResponse(policies=[ref], document=policy.text)


def policies_service(bench: Bench) -> Service:
    """What the composition root mounts."""
    return service(
        pb.DESCRIPTOR.services_by_name["PoliciesService"],
        policies_pb2_grpc.add_PoliciesServiceServicer_to_server,
        Policies(bench),
    )
