"""PoliciesService: which policy is in force, and what it would say."""

from __future__ import annotations

from typing import Any, Final

from muster.api.v1 import policies_pb2 as pb
from muster.api.v1 import policies_pb2_grpc
from muster.policy.v1.policy_pb2 import PolicyRef
from muster_chassis.database import Database
from muster_chassis.errors import Violation
from muster_chassis.rpc import Service, service
from muster_policy.adapters.herald import admitted, rejected
from muster_policy.domain.bench import Bench
from muster_policy_engine.judging.judge import Admitted, Verdict
from muster_policy_engine.policy import NO_POLICY
from muster_policy.errors import InvalidArgument
from muster_policy.handlers import Handlers
from muster_policy.ports import Submission

_MOST: Final = 100


class Policies(policies_pb2_grpc.PoliciesServiceServicer):
    """Answers from the bench."""

    def __init__(self, bench: Bench, handlers: Handlers, database: Database) -> None:
        self._bench = bench
        self._handlers = handlers
        self._database = database

    async def GetEffectivePolicy(
        self, request: pb.GetEffectivePolicyRequest, context: Any
    ) -> pb.GetEffectivePolicyResponse:
        """The one document that is in force for everybody; empty where no file is named."""
        policy = self._bench.policy
        if policy is NO_POLICY:
            return pb.GetEffectivePolicyResponse()
        ref = PolicyRef(name=policy.name, version=policy.version, scope=policy.scope)
        return pb.GetEffectivePolicyResponse(policies=[ref], document=policy.text)

    async def JudgeWorkloads(self, request: pb.JudgeWorkloadsRequest, context: Any) -> pb.JudgeWorkloadsResponse:
        """The verdicts about workloads that nobody made, in order."""
        if not 1 <= len(request.submitted) <= _MOST:
            said = f"{len(request.submitted)} workloads are asked about; 1 to {_MOST} are allowed"
            raise InvalidArgument(said, violations=[Violation("submitted", said)])
        submissions = [Submission(each) for each in request.submitted]
        async with self._database.unit() as unit:
            verdicts = await self._handlers.consider(unit, submissions)
        return pb.JudgeWorkloadsResponse(
            judgements=[
                self._judgement(submission, verdict, digest)
                for submission, (verdict, digest) in zip(submissions, verdicts, strict=True)
            ]
        )

    def _judgement(self, submission: Submission, verdict: Verdict, digest: str) -> pb.Judgement:
        if isinstance(verdict, Admitted):
            return pb.Judgement(admitted=admitted(submission, verdict, self._bench.policy, digest))
        return pb.Judgement(rejected=rejected(submission, verdict, self._bench.policy))


def policies_service(bench: Bench, handlers: Handlers, database: Database) -> Service:
    """What the composition root mounts."""
    return service(
        pb.DESCRIPTOR.services_by_name["PoliciesService"],
        policies_pb2_grpc.add_PoliciesServiceServicer_to_server,
        Policies(bench, handlers, database),
    )
