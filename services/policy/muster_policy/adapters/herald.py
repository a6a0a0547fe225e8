"""Verdicts as messages on muster.admissions: the one place where policy's values become protobuf."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

from muster.events.v1.policy_pb2 import ExcludedCluster, WorkloadAdmitted, WorkloadRejected
from muster.policy.v1.policy_pb2 import ComplianceIssue, PolicyRef, Source
from muster_chassis.topics import ADMISSIONS
from muster_chassis.unit import Unit
from muster_language import LayerName
from muster_policy.ports import Judged, Key, Submission, Told
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.judge import Admitted, Rejected
from muster_policy_engine.judging.rules import Objection
from muster_policy_engine.policy import Policy

_TYPES: Final[dict[str, type[Message]]] = {
    each.DESCRIPTOR.full_name: each for each in (WorkloadAdmitted, WorkloadRejected)
}


class KafkaHerald:
    """Publishes through the outbox of the unit."""

    def tell(self, unit: Unit, submission: Submission, judged: Judged) -> Told:
        """Publishes a verdict and says what was published."""
        message = verdict_of(submission, judged)
        _publish(unit, submission.key, message)
        return Told(submission.key, message.DESCRIPTOR.full_name, message.SerializeToString())

    def repeat(self, unit: Unit, told: Told) -> None:
        """Publishes a verdict once more as it was."""
        _publish(unit, told.key, _TYPES[told.type].FromString(told.value))


def _publish(unit: Unit, key: Key, message: Message) -> None:
    unit.publish(ADMISSIONS, key[0], message)


def verdict_of(submission: Submission, judged: Judged) -> WorkloadAdmitted | WorkloadRejected:
    """The message for a verdict."""
    if isinstance(judged.verdict, Admitted):
        return _admitted(submission, judged.verdict, judged)
    return _rejected(submission, judged.verdict, judged)


def _admitted(submission: Submission, verdict: Admitted, judged: Judged) -> WorkloadAdmitted:
    submitted = submission.submitted
    message = WorkloadAdmitted(
        workload_id=submitted.workload_id,
        generation=submitted.generation,
        effective_spec=verdict.effective,
        requests=verdict.requests,
        admissible_clusters=verdict.clusters,
        sources=[_source(path, layer, judged.composed) for path, layer in verdict.sources],
        warnings=verdict.warnings,
        policies=_policies(judged.composed),
        context_digest=judged.digest,
        project=submitted.project,
        department=submitted.department,
        name=submitted.name,
        namespace=submitted.namespace,
        owner=submitted.owner,
        submitted_at=submitted.submitted_at,
        node_pools=verdict.node_pools,
        preemptible=verdict.preemptible,
        priority=verdict.priority,
        policy_revision=judged.revision,
        excluded_clusters=[
            ExcludedCluster(cluster=each.cluster, issues=[_issue(issue) for issue in each.issues])
            for each in verdict.excluded
        ],
    )
    # The verdict is shared by all that ask the same; the name is this workload's own, made from its prefix.
    message.effective_spec.name = submitted.name
    return message


def _rejected(submission: Submission, verdict: Rejected, judged: Judged) -> WorkloadRejected:
    submitted = submission.submitted
    return WorkloadRejected(
        workload_id=submitted.workload_id,
        generation=submitted.generation,
        issues=[_issue(each) for each in verdict.issues],
        warnings=verdict.warnings,
        policies=_policies(judged.composed),
        project=submitted.project,
        name=submitted.name,
        submitted_at=submitted.submitted_at,
        policy_revision=judged.revision,
    )


def _issue(objection: Objection) -> ComplianceIssue:
    policy = objection.policy
    return ComplianceIssue(
        path=objection.path,
        rule=objection.rule,
        given=objection.given,
        allowed=objection.allowed,
        details=objection.details,
        item=objection.item,
        policy=policy.name if policy is not None else "",
        scope=policy.scope.level if policy is not None else "",
        version=policy.version if policy is not None else 0,
    )


def _source(path: str, layer: LayerName, composed: Composed | None) -> Source:
    policy = composed.of_layer(layer) if composed is not None else None
    if policy is None:
        return Source(path=path, layer=layer.value)
    return Source(path=path, layer=layer.value, policy=policy.name, version=policy.version)


def _policies(composed: Composed | None) -> list[PolicyRef]:
    return [policy_ref(each) for each in composed.policies] if composed is not None else []


def policy_ref(policy: Policy) -> PolicyRef:
    """A policy as messages name it."""
    return PolicyRef(
        name=policy.name,
        scope=policy.scope.level,
        id=policy.id,
        workload=policy.kind.word,
        unit=policy.scope.unit,
        version=policy.version,
    )
