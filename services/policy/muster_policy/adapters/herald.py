"""Verdicts as messages on muster.admissions: the one place where policy's values become protobuf."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

from muster.events.v1.policy_pb2 import WorkloadAdmitted, WorkloadRejected
from muster.policy.v1.policy_pb2 import ComplianceIssue, PolicyRef, Source
from muster_chassis.topics import ADMISSIONS
from muster_chassis.unit import Unit
from muster_policy_engine.judging.judge import Admitted, Rejected, Verdict
from muster_policy_engine.policy import NO_POLICY, Policy
from muster_policy.ports import Key, Submission, Told

_TYPES: Final[dict[str, type[Message]]] = {
    each.DESCRIPTOR.full_name: each for each in (WorkloadAdmitted, WorkloadRejected)
}


class KafkaHerald:
    """Publishes through the outbox of the unit."""

    def tell(self, unit: Unit, submission: Submission, verdict: Verdict, policy: Policy, digest: str) -> Told:
        """Publishes a verdict and says what was published."""
        message: WorkloadAdmitted | WorkloadRejected
        if isinstance(verdict, Admitted):
            message = admitted(submission, verdict, policy, digest)
        else:
            message = rejected(submission, verdict, policy)
        _publish(unit, submission.key, message)
        return Told(submission.key, message.DESCRIPTOR.full_name, message.SerializeToString())

    def repeat(self, unit: Unit, told: Told) -> None:
        """Publishes a verdict once more as it was."""
        _publish(unit, told.key, _TYPES[told.type].FromString(told.value))


def _publish(unit: Unit, key: Key, message: Message) -> None:
    unit.publish(ADMISSIONS, key[0], message)


def admitted(submission: Submission, verdict: Admitted, policy: Policy, digest: str) -> WorkloadAdmitted:
    """The message for a workload that may run."""
    submitted = submission.submitted
    message = WorkloadAdmitted(
        workload_id=submitted.workload_id,
        generation=submitted.generation,
        effective_spec=verdict.effective,
        requests=verdict.requests,
        admissible_clusters=verdict.clusters,
        sources=[Source(path=path, layer=layer.value) for path, layer in verdict.sources],
        warnings=verdict.warnings,
        policies=_policies(policy),
        context_digest=digest,
        project=submitted.project,
        department=submitted.department,
        name=submitted.name,
        namespace=submitted.namespace,
        owner=submitted.owner,
        submitted_at=submitted.submitted_at,
        node_pools=verdict.node_pools,
        preemptible=verdict.preemptible,
        priority=verdict.priority,
    )
    # The verdict is shared by all that ask the same; the name is this workload's own, made from its prefix.
    message.effective_spec.name = submitted.name
    return message


def rejected(submission: Submission, verdict: Rejected, policy: Policy) -> WorkloadRejected:
    """The message for a workload that may not run."""
    submitted = submission.submitted
    return WorkloadRejected(
        workload_id=submitted.workload_id,
        generation=submitted.generation,
        issues=[
            ComplianceIssue(
                path=each.path,
                rule=each.rule,
                given=each.given,
                allowed=each.allowed,
                policy=each.policy,
                scope=each.scope,
                details=each.details,
            )
            for each in verdict.issues
        ],
        warnings=verdict.warnings,
        policies=_policies(policy),
        project=submitted.project,
        name=submitted.name,
        submitted_at=submitted.submitted_at,
    )


def _policies(policy: Policy) -> list[PolicyRef]:
    if policy is NO_POLICY:
        return []
    return [PolicyRef(name=policy.name, version=policy.version, scope=policy.scope)]
