"""PoliciesService, passed on to policy, which owns the policies and judges.

Who may read and write is judged here. A write is entered in the audit before it is passed on, and goes with its author
and with where the author may write; policy compares that with the scopes that the documents name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from muster.api.v1 import policies_pb2 as api
from muster.api.v1 import policies_pb2_grpc
from muster_chassis import identity
from muster_chassis.database import Database
from muster_chassis.errors import NotFound
from muster_chassis.rpc import Caller, caller
from muster_chassis.rpc.idempotency import check_key
from muster_submission.adapters.owners import Owner
from muster_submission.audit import Entry, passed_on
from muster_submission.domain.access import Place, Verb
from muster_submission.handlers.access import Access, Rights
from muster_submission.handlers.asking import Asking
from muster_submission.rpc.reading import owner

_STUB: Final = policies_pb2_grpc.PoliciesServiceStub
_Written = TypeVar("_Written", api.ApplyPoliciesResponse, api.DeletePolicyResponse, api.RollbackPolicyResponse)
_Write = api.ApplyPoliciesRequest | api.DeletePolicyRequest | api.RollbackPolicyRequest
_Read = TypeVar("_Read", bound=Message)


class Policies(policies_pb2_grpc.PoliciesServiceServicer):
    """The servicer."""

    def __init__(self, database: Database, access: Access, policy: Owner, asking: Asking) -> None:
        self._database = database
        self._access = access
        self._policy = policy
        self._asking = asking

    async def ApplyPolicies(self, request: api.ApplyPoliciesRequest, context: Any) -> api.ApplyPoliciesResponse:
        """Makes and changes policies, all of the call or none."""
        target = f"policies of {request.source}" if request.source else "policies"
        scopes = [each.scope for each in request.texts if each.workload]
        return await self._write("ApplyPolicies", request, api.ApplyPoliciesResponse, target, scopes, context)

    async def DeletePolicy(self, request: api.DeletePolicyRequest, context: Any) -> api.DeletePolicyResponse:
        """Removes a policy."""
        scopes = [] if request.key.id else [request.key.scope]
        return await self._write(
            "DeletePolicy", request, api.DeletePolicyResponse, _named(request.key), scopes, context
        )

    async def RollbackPolicy(self, request: api.RollbackPolicyRequest, context: Any) -> api.RollbackPolicyResponse:
        """Writes the text of an older version as a new one."""
        scopes = [] if request.key.id else [request.key.scope]
        return await self._write(
            "RollbackPolicy", request, api.RollbackPolicyResponse, _named(request.key), scopes, context
        )

    async def GetPolicy(self, request: api.GetPolicyRequest, context: Any) -> api.GetPolicyResponse:
        """One policy. Raises NotFound where the caller may not see what is at its scope."""
        rights = await self._reader(request.key.scope)
        answer = await self._asked("GetPolicy", request, api.GetPolicyResponse, context)
        _require_seen(rights, answer.policy, request.key)
        return answer

    async def ListPolicies(self, request: api.ListPoliciesRequest, context: Any) -> api.ListPoliciesResponse:
        """The policies at scopes that the caller may see; a page may have fewer than it was asked for."""
        rights = await self._reader(request.scope)
        answer = await self._asked("ListPolicies", request, api.ListPoliciesResponse, context)
        shown = [each for each in answer.policies if _is_seen(rights, each.scope)]
        del answer.policies[:]
        answer.policies.extend(shown)
        return answer

    async def ListPolicyVersions(
        self, request: api.ListPolicyVersionsRequest, context: Any
    ) -> api.ListPolicyVersionsResponse:
        """The versions of a policy, the newest first."""
        rights = await self._reader(request.key.scope)
        answer = await self._asked("ListPolicyVersions", request, api.ListPolicyVersionsResponse, context)
        _require_seen(rights, answer.policy, request.key)
        return answer

    async def GetEffectivePolicy(
        self, request: api.GetEffectivePolicyRequest, context: Any
    ) -> api.GetEffectivePolicyResponse:
        """What holds in a project, in a department, or for the whole tenant, which everyone with a role may know."""
        rights = await self._access.rights(caller())
        if request.project or request.department or not rights.anywhere(Verb.POLICIES_READ):
            rights.require(Verb.POLICIES_READ, project=request.project, department=request.department)
        return await self._asked("GetEffectivePolicy", request, api.GetEffectivePolicyResponse, context)

    async def JudgeWorkloads(self, request: api.JudgeWorkloadsRequest, context: Any) -> api.JudgeWorkloadsResponse:
        """What policy would say of drafts that the caller could submit."""
        rights = await self._access.rights(caller())
        asked_for = await self._asking.submitted(request.drafts, rights, owner(), identity.now())
        asked = api.JudgeWorkloadsRequest(submitted=[each.told for each in asked_for])
        return await self._asked("JudgeWorkloads", asked, api.JudgeWorkloadsResponse, context)

    async def _reader(self, scope: api.PolicyScope) -> Rights:
        """The rights of a caller who may read policies somewhere, and at the scope where one is named."""
        rights = await self._access.rights(caller())
        place = _place(scope)
        if place.project or place.department:
            rights.require_at(Verb.POLICIES_READ, place)
        elif not rights.anywhere(Verb.POLICIES_READ):
            rights.require(Verb.POLICIES_READ)
        return rights

    async def _asked(self, method: str, request: Message, response: type[_Read], context: Any) -> _Read:
        return await self._policy.ask(_STUB, method, request, response, context)

    async def _write(
        self,
        method: str,
        request: _Write,
        response: type[_Written],
        target: str,
        scopes: Sequence[api.PolicyScope],
        context: Any,
    ) -> _Written:
        """scopes: those that the call names itself; those in documents are judged by policy, which reads them."""
        who = caller()
        rights = await self._access.rights(who)
        for scope in scopes:
            rights.require_at(Verb.POLICIES_WRITE, _place(scope))
        if not rights.anywhere(Verb.POLICIES_WRITE):
            rights.require(Verb.POLICIES_WRITE)
        request.author.CopyFrom(_author(who, rights))
        if request.validate_only:
            return await self._policy.ask(_STUB, method, request, response, context)
        check_key(request.idempotency_key)
        request.idempotency_key = _key_of(who, request.idempotency_key)
        return await passed_on(
            self._database,
            Entry(Verb.POLICIES_WRITE, target, detail=method),
            lambda: self._policy.ask(_STUB, method, request, response, context),
        )


def _place(scope: api.PolicyScope) -> Place:
    """Where a policy is written: a cluster's and the tenant's are everyone's, so that it takes the whole tenant."""
    match scope.level:
        case "project":
            return Place(project=scope.unit)
        case "department":
            return Place(department=scope.unit)
        case _:
            return Place()


def _author(who: Caller, rights: Rights) -> api.PolicyAuthor:
    reach = rights.grants.reach(Verb.POLICIES_WRITE)
    return api.PolicyAuthor(
        subject=who.subject,
        channel=who.channel,
        reach=api.PolicyReach(
            tenant=reach.tenant, departments=sorted(reach.departments), projects=sorted(reach.projects)
        ),
    )


def _key_of(who: Caller, key: str) -> str:
    """The key as policy takes it: to policy all callers are submission, and the keys of two are never one."""
    return hashlib.sha256(f"{who.key}\n{key}".encode()).hexdigest()


def _named(key: api.PolicyKey) -> str:
    if key.id:
        return f"policy/{key.id}"
    return f"policy/{key.workload}/{key.scope.level}/{key.scope.unit}".rstrip("/")


def _is_seen(rights: Rights, scope: api.PolicyScope) -> bool:
    """Policies of the tenant and of clusters hold for everyone, so that everyone with a role may see them."""
    match scope.level:
        case "project":
            return rights.allows(Verb.POLICIES_READ, project=scope.unit)
        case "department":
            return rights.allows(Verb.POLICIES_READ, department=scope.unit)
        case _:
            return True


def _require_seen(rights: Rights, policy: api.Policy, key: api.PolicyKey) -> None:
    if not _is_seen(rights, policy.scope):
        raise NotFound(f"there is no {_named(key)}")
