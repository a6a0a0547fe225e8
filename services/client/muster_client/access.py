"""Who may do what: roles, applications, the audit. `muster.access.grant(..)` and so on.

Holds what muster.py holds: a key on every mutation that shows no secret, a deadline on every call, the API's own
messages as answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import grpc

from muster.api.v1 import access_pb2 as api
from muster.api.v1 import access_pb2_grpc
from muster_client.calls import Calls, new_key
from muster_client.pages import PAGE, pages


class Access:
    """Roles and what follows from them."""

    def __init__(self, calls: Calls, channel: grpc.aio.Channel) -> None:
        self._calls = calls
        self._stub = access_pb2_grpc.AccessServiceStub(channel)

    async def grant(self, rule: api.AccessRule, *, key: str | None = None) -> api.AccessRule:
        """Gives a role. Raises InvalidInput, NotFound, NotAllowed."""
        request = api.GrantRoleRequest(rule=rule, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub.GrantRole, request)).rule

    async def revoke(self, number: int, *, key: str | None = None) -> api.AccessRule:
        """Takes a role away. Raises NotFound, NotAllowed, and NotNow for the last system admin."""
        request = api.RevokeRoleRequest(id=number, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub.RevokeRole, request)).rule

    def rules(self, *, holder: str = "", project: str = "") -> AsyncIterator[api.AccessRule]:
        """The rules that the caller may see."""

        async def page(token: str) -> tuple[Sequence[api.AccessRule], str]:
            request = api.ListAccessRulesRequest(holder=holder, project=project, page_size=PAGE, page_token=token)
            answer = await self._calls.unary(self._stub.ListAccessRules, request)
            return answer.rules, answer.next_page_token

        return pages(page)

    async def who_am_i(self) -> api.WhoAmIResponse:
        """The caller as the control plane sees them."""
        return await self._calls.unary(self._stub.WhoAmI, api.WhoAmIRequest())

    async def can(self, verb: str, *, project: str = "", department: str = "", cluster: str = "") -> bool:
        """Whether the caller may do that there. Raises InvalidInput for a verb that there is not."""
        request = api.CanIRequest(verb=verb, project=project, department=department, cluster=cluster)
        return (await self._calls.unary(self._stub.CanI, request)).allowed

    def audit(
        self, *, since: datetime | None = None, who: str = "", what: str = "", project: str = ""
    ) -> AsyncIterator[api.AuditEntry]:
        """The audit, newest first."""

        async def page(token: str) -> tuple[Sequence[api.AuditEntry], str]:
            request = api.ListAuditRequest(who=who, what=what, project=project, page_size=PAGE, page_token=token)
            if since is not None:
                request.since.FromDatetime(since)
            answer = await self._calls.unary(self._stub.ListAudit, request)
            return answer.entries, answer.next_page_token

        return pages(page)


class Applications:
    """Programs with an id and a secret."""

    def __init__(self, calls: Calls, channel: grpc.aio.Channel) -> None:
        self._calls = calls
        self._stub = access_pb2_grpc.AccessServiceStub(channel)

    async def create(self, name: str) -> api.CreateApplicationResponse:
        """Makes an application; its secret is in this answer and nowhere else. Raises AlreadyExists."""
        return await self._calls.unary(self._stub.CreateApplication, api.CreateApplicationRequest(name=name))

    def list(self) -> AsyncIterator[api.Application]:
        """The applications, by name."""

        async def page(token: str) -> tuple[Sequence[api.Application], str]:
            request = api.ListApplicationsRequest(page_size=PAGE, page_token=token)
            answer = await self._calls.unary(self._stub.ListApplications, request)
            return answer.applications, answer.next_page_token

        return pages(page)

    async def rotate(self, application: str) -> api.RotateApplicationResponse:
        """Gives an application, by id or name, a new secret. Raises NotFound."""
        return await self._calls.unary(
            self._stub.RotateApplication, api.RotateApplicationRequest(application=application)
        )

    async def revoke(self, application: str, *, key: str | None = None) -> api.Application:
        """Ends an application, by id or name. Raises NotFound."""
        request = api.RevokeApplicationRequest(application=application, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub.RevokeApplication, request)).application
