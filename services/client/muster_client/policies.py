"""Policies: writing and reading them, their versions, what holds at a place, and what they would say of workloads.

`muster.policies` of a client. Holds what muster.py holds: a key on every mutation, a deadline on every call, the API's
own messages as answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api.v1 import policies_pb2, policies_pb2_grpc
from muster.api.v1.workloads_pb2 import WorkloadDraft
from muster_client.calls import new_key
from muster_client.pages import PAGE, pages
from muster_client.resources import Resource
from muster_kernel.ids import is_uuid

_WRITE_SECONDS: Final = 60.0  # a write of 1,000 documents waits for the verdicts under way, and compiles all of them
_TENANT: Final = "tenant"


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How policies are applied.

    source: what applies them, such as the name of a git repository; empty: a person. prune: remove the policies that
    the source applied before and the texts no longer have. allow_empty: let prune remove all of them. take_over: take
    rules over from policies of other levels. take_ownership: take policies over from another source. validate_only:
    say what would be done and do nothing. reason: for the history. expected_version: of the only policy of the call;
    0: any.
    """

    source: str = ""
    prune: bool = False
    allow_empty: bool = False
    take_over: bool = False
    take_ownership: bool = False
    validate_only: bool = False
    reason: str = ""
    expected_version: int = 0


_AS_USUAL: Final = ApplyOptions()


def policy_scope(*, cluster: str = "", department: str = "", project: str = "") -> policies_pb2.PolicyScope:
    """Return the scope of a cluster, a department or a project; of the tenant if none is named.

    Raises ValueError where several are named.
    """
    units = {"cluster": cluster, "department": department, "project": project}
    named = {level: unit for level, unit in units.items() if unit}
    if len(named) > 1:
        raise ValueError(f"a policy has one scope, and {' and '.join(named)} are given")
    level, unit = next(iter(named.items()), (_TENANT, ""))
    return policies_pb2.PolicyScope(level=level, unit=unit)


def policy_key(policy: str, scope: policies_pb2.PolicyScope | None = None) -> policies_pb2.PolicyKey:
    """Return which policy is meant: by its id if `policy` is one, else by that kind of workload and the scope.

    scope: left out: the tenant.
    """
    if is_uuid(policy):
        return policies_pb2.PolicyKey(id=policy)
    return policies_pb2.PolicyKey(workload=policy, scope=scope or policy_scope())


class Policies(Resource):
    """Policies of the tenant, its clusters, departments and projects."""

    async def apply(
        self,
        texts: Iterable[str | policies_pb2.PolicyText],
        options: ApplyOptions = _AS_USUAL,
        *,
        key: str | None = None,
    ) -> policies_pb2.ApplyPoliciesResponse:
        """Make and change policies, all of the call or none.

        texts: each holds one or more documents. The answer has the policies in the order of the documents, then those
        that were removed. Raises InvalidInput with every violation, NotNow where another level or source is against
        it, Conflict for another version than the expected one, NotAllowed, NotFound for a department or project.
        """
        request = policies_pb2.ApplyPoliciesRequest(
            texts=[policies_pb2.PolicyText(text=each) if isinstance(each, str) else each for each in texts],
            source=options.source,
            prune=options.prune,
            allow_empty=options.allow_empty,
            take_over=options.take_over,
            take_ownership=options.take_ownership,
            validate_only=options.validate_only,
            reason=options.reason,
            expected_version=options.expected_version,
            idempotency_key=key or new_key(),
        )
        return await self._calls.unary(self._stub().ApplyPolicies, request, attempt=_WRITE_SECONDS)

    async def get(self, policy: policies_pb2.PolicyKey) -> policies_pb2.Policy:
        """Return one policy; `policy_key` makes a key. Raises NotFound."""
        request = policies_pb2.GetPolicyRequest(key=policy)
        return (await self._calls.unary(self._stub().GetPolicy, request)).policy

    def list(
        self, *, workload: str = "", scope: policies_pb2.PolicyScope | None = None, source: str = ""
    ) -> AsyncIterator[policies_pb2.Policy]:
        """Iterate over the policies, by kind of workload and scope.

        workload: of this kind. scope: of this scope; a level without a unit: of that level. source: applied by this
        source.
        """

        async def page(token: str) -> tuple[Sequence[policies_pb2.Policy], str]:
            request = policies_pb2.ListPoliciesRequest(
                workload=workload, scope=scope, source=source, page_size=PAGE, page_token=token
            )
            answer = await self._calls.unary(self._stub().ListPolicies, request)
            return answer.policies, answer.next_page_token

        return pages(page)

    async def delete(
        self,
        policy: policies_pb2.PolicyKey,
        *,
        expected_version: int = 0,
        reason: str = "",
        validate_only: bool = False,
        key: str | None = None,
    ) -> policies_pb2.DeletePolicyResponse:
        """Remove a policy; workloads that run are not judged again.

        The answer has the last text of the policy and the version of the removal.
        Raises NotFound, NotAllowed, Conflict for another version than the expected one.
        """
        request = policies_pb2.DeletePolicyRequest(
            key=policy,
            expected_version=expected_version,
            reason=reason,
            validate_only=validate_only,
            idempotency_key=key or new_key(),
        )
        return await self._calls.unary(self._stub().DeletePolicy, request, attempt=_WRITE_SECONDS)

    async def versions(self, policy: policies_pb2.PolicyKey) -> policies_pb2.ListPolicyVersionsResponse:
        """Return a policy and its versions, the newest first; by an id also of a removed policy. Raises NotFound."""
        request = policies_pb2.ListPolicyVersionsRequest(key=policy)
        return await self._calls.unary(self._stub().ListPolicyVersions, request)

    async def rollback(
        self,
        policy: policies_pb2.PolicyKey,
        version: int,
        *,
        reason: str = "",
        validate_only: bool = False,
        key: str | None = None,
    ) -> policies_pb2.RollbackPolicyResponse:
        """Write the text of an older version as a new version. Raises NotFound, and what `apply` raises."""
        request = policies_pb2.RollbackPolicyRequest(
            key=policy,
            version=version,
            reason=reason,
            validate_only=validate_only,
            idempotency_key=key or new_key(),
        )
        return await self._calls.unary(self._stub().RollbackPolicy, request, attempt=_WRITE_SECONDS)

    async def effective(
        self, workload: str, *, project: str = "", department: str = "", cluster: str = ""
    ) -> policies_pb2.GetEffectivePolicyResponse:
        """Return the rules and defaults that hold for a kind of workload, each with the policy that it is from.

        project: left out: what holds above it, in the department where one is named. cluster: left out: the project's
        home cluster. Raises NotFound, InvalidInput.
        """
        request = policies_pb2.GetEffectivePolicyRequest(
            workload=workload, project=project, department=department, cluster=cluster
        )
        return await self._calls.unary(self._stub().GetEffectivePolicy, request)

    async def judge(self, drafts: Iterable[WorkloadDraft]) -> Sequence[policies_pb2.Judgement]:
        """Return the verdicts about 1 to 100 workloads if they were submitted now, in order; nothing is made.

        `drafts.draft_of` makes a draft of a document or a spec. Raises what `Muster.submit` raises; what policy refuses
        is part of the answer.
        """
        request = policies_pb2.JudgeWorkloadsRequest(drafts=drafts)
        return (await self._calls.unary(self._stub().JudgeWorkloads, request)).judgements

    def _stub(self) -> policies_pb2_grpc.PoliciesServiceStub:
        return policies_pb2_grpc.PoliciesServiceStub(self._channel)
