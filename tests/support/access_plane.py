"""Roles, applications and tokens of the control plane in memory, for the client's tests.

Holds: where a secret is known (`secrets`), every call needs a token that was given out for it.
"""

from __future__ import annotations

from typing import Any

import grpc

from muster.api.v1 import access_pb2 as api
from muster.api.v1 import access_pb2_grpc

Context = Any


class AccessPlane(access_pb2_grpc.AccessServiceServicer, access_pb2_grpc.TokenServiceServicer):
    """Both services. `calls` takes in every request with its method."""

    def __init__(self, calls: list[tuple[str, Any]]) -> None:
        self._calls = calls
        self.rules: dict[int, api.AccessRule] = {}
        self.applications: dict[str, str] = {}
        self.secrets: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.entries: list[api.AuditEntry] = []

    async def _asked(self, method: str, request: Any, context: Context) -> None:
        self._calls.append((method, request))
        shown = dict(context.invocation_metadata() or ()).get("authorization", "").removeprefix("Bearer ")
        if self.secrets and shown not in self.tokens:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not accepted")

    async def IssueToken(self, request: api.IssueTokenRequest, context: Context) -> api.IssueTokenResponse:
        self._calls.append(("IssueToken", request))
        if self.secrets.get(request.application) != request.secret:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the application's id or its secret is wrong")
        token = f"token-{len(self.tokens)}"
        self.tokens.add(token)
        return api.IssueTokenResponse(access_token=token, expires_in=3600, refresh_token="r")

    async def GrantRole(self, request: api.GrantRoleRequest, context: Context) -> api.GrantRoleResponse:
        await self._asked("GrantRole", request, context)
        rule = api.AccessRule()
        rule.CopyFrom(request.rule)
        rule.id = len(self.rules) + 1
        rule.created_at.GetCurrentTime()
        self.rules[rule.id] = rule
        return api.GrantRoleResponse(rule=rule)

    async def RevokeRole(self, request: api.RevokeRoleRequest, context: Context) -> api.RevokeRoleResponse:
        await self._asked("RevokeRole", request, context)
        if request.id not in self.rules:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"rule {request.id} does not exist")
        return api.RevokeRoleResponse(rule=self.rules.pop(request.id))

    async def ListAccessRules(
        self, request: api.ListAccessRulesRequest, context: Context
    ) -> api.ListAccessRulesResponse:
        await self._asked("ListAccessRules", request, context)
        return api.ListAccessRulesResponse(rules=self.rules.values())

    async def WhoAmI(self, request: api.WhoAmIRequest, context: Context) -> api.WhoAmIResponse:
        await self._asked("WhoAmI", request, context)
        return api.WhoAmIResponse(
            subject="anna", issuer="https://one", groups=["team"], rules=self.rules.values(), open=not self.secrets
        )

    async def CanI(self, request: api.CanIRequest, context: Context) -> api.CanIResponse:
        await self._asked("CanI", request, context)
        return api.CanIResponse(allowed=request.verb.endswith(".read"))

    async def CreateApplication(
        self, request: api.CreateApplicationRequest, context: Context
    ) -> api.CreateApplicationResponse:
        await self._asked("CreateApplication", request, context)
        self.applications[request.name] = "id-1"
        return api.CreateApplicationResponse(application=self._shown(request.name), secret="the secret")

    async def ListApplications(
        self, request: api.ListApplicationsRequest, context: Context
    ) -> api.ListApplicationsResponse:
        await self._asked("ListApplications", request, context)
        return api.ListApplicationsResponse(applications=[self._shown(name) for name in self.applications])

    async def RotateApplication(
        self, request: api.RotateApplicationRequest, context: Context
    ) -> api.RotateApplicationResponse:
        await self._asked("RotateApplication", request, context)
        return api.RotateApplicationResponse(application=self._shown(request.application), secret="another secret")

    async def RevokeApplication(
        self, request: api.RevokeApplicationRequest, context: Context
    ) -> api.RevokeApplicationResponse:
        await self._asked("RevokeApplication", request, context)
        return api.RevokeApplicationResponse(application=self._shown(request.application))

    async def ListAudit(self, request: api.ListAuditRequest, context: Context) -> api.ListAuditResponse:
        await self._asked("ListAudit", request, context)
        return api.ListAuditResponse(entries=self.entries)

    def _shown(self, name: str) -> api.Application:
        return api.Application(id="id-1", name=name, enabled=True, created_by="anna")
