"""The policies that stand in a test's control plane, and what the engine says by them, as the API's messages.

Used by policy_plane and by tests. Holds: every document can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import muster_language as language
from muster.api.v1 import policies_pb2 as api
from muster.events.v1 import policy_pb2
from muster.policy.v1.policy_pb2 import ComplianceIssue, PolicyRef, Source
from muster_language import LayerName
from muster_policy_engine.composing import Composed, compose
from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.judging.judge import Admitted, Rejected
from muster_policy_engine.policy import Branch, Policy

DEPARTMENTS = {"team-a": "research", "vision": "research", "ads": "sales"}
"""The department of each project."""


@dataclass
class Shelf:
    """The policies that stand, by id, and all their versions."""

    policies: dict[str, api.Policy] = field(default_factory=dict)
    versions: dict[str, list[api.PolicyVersion]] = field(default_factory=dict)
    revision: int = 0
    base: language.WorkloadSpec | None = None
    """The template of every workload that is judged."""
    ids: int = 0

    def fresh_id(self) -> str:
        """The id of a new policy."""
        self.ids += 1
        return f"0192d3c4-5a3e-7000-8000-{self.ids:012x}"

    def at(self, workload: str, scope: api.PolicyScope) -> api.Policy | None:
        """The policy of a kind and scope."""
        return next((one for one in self.policies.values() if (one.workload, one.scope) == (workload, scope)), None)

    def compiled(self) -> list[Policy]:
        """All of them as the engine has them."""
        return [compiled(each) for each in self.policies.values()]

    def composed(self, kind: language.Kind, branch: Branch) -> Composed | None:
        """What holds for a kind on a branch."""
        scopes = branch.scopes()
        found = [each for each in self.compiled() if each.kind is kind and each.scope in scopes]
        return compose(kind, found) if found else None


def compiled(policy: api.Policy) -> Policy:
    (document,) = read_policies(policy.document)
    assert document.policy is not None
    read = document.policy
    return Policy(read.kind, read.scope, read.body, policy.name, read.dialect, policy.id, policy.version)


def newer(policy: api.Policy) -> api.Policy:
    made = api.Policy()
    made.CopyFrom(policy)
    made.version += 1
    return made


def ref_of(policy: Policy) -> PolicyRef:
    scope, word = policy.scope, policy.kind.word
    return PolicyRef(
        name=policy.name, scope=scope.level, id=policy.id, workload=word, unit=scope.unit, version=policy.version
    )


def judgement(
    verdict: Admitted | Rejected, composed: Composed | None, *, name: str, project: str, revision: int
) -> api.Judgement:
    """A verdict as the API tells it."""
    policies = [ref_of(each) for each in composed.policies] if composed else []
    common: dict[str, Any] = {"name": name, "project": project, "policies": policies, "policy_revision": revision}
    common["warnings"] = verdict.warnings
    if isinstance(verdict, Admitted):
        sources = [_source(path, layer, composed) for path, layer in verdict.sources]
        admitted = policy_pb2.WorkloadAdmitted(effective_spec=verdict.effective, sources=sources, **common)
        admitted.effective_spec.name = name
        return api.Judgement(admitted=admitted)
    issues = [
        ComplianceIssue(
            path=each.path,
            rule=each.rule,
            given=each.given,
            allowed=each.allowed,
            details=each.details,
            item=each.item,
            policy=each.policy.name if each.policy else "",
            scope=each.policy.scope.level if each.policy else "",
            version=each.policy.version if each.policy else 0,
        )
        for each in verdict.issues
    ]
    return api.Judgement(rejected=policy_pb2.WorkloadRejected(issues=issues, **common))


def _source(path: str, layer: LayerName, composed: Composed | None) -> Source:
    policy = composed.of_layer(layer) if composed else None
    if policy is None:
        return Source(path=path, layer=layer.value)
    return Source(path=path, layer=layer.value, policy=policy.name, version=policy.version)
