"""AccessService: roles, applications, the audit, and what the caller may do."""

from __future__ import annotations

from typing import Any, Final

from muster.api.v1 import access_pb2 as api
from muster.api.v1 import access_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.moments import moment_of
from muster_chassis.rpc import LOCAL, Caller, caller, once
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_submission.access_ports import Application, GivenRule
from muster_submission.adapters.access_rules import PostgresRules
from muster_submission.adapters.applications import PostgresApplications
from muster_submission.adapters.audit import PostgresAudit, Wanted
from muster_submission.domain.access import Place, ScopeKind, Verb
from muster_submission.domain.bindings import HolderKind
from muster_submission.domain.cursors import page_token
from muster_submission.errors import BadQuestion
from muster_submission.handlers.access import Access, Rights
from muster_submission.handlers.applications import Applications
from muster_submission.handlers.grants import Grants, visible
from muster_submission.rpc.reading import number_of, page_of

_VERBS: Final = {str(verb): verb for verb in Verb}
_LONGEST: Final = 500


class AccessRoom(access_pb2_grpc.AccessServiceServicer):
    """The servicer."""

    def __init__(
        self,
        database: Database,
        access: Access,
        grants: Grants,
        rules: PostgresRules,
        applications: Applications,
        application_books: PostgresApplications,
        audit: PostgresAudit,
    ) -> None:
        self._database = database
        self._access = access
        self._grants = grants
        self._rules = rules
        self._applications = applications
        self._application_books = application_books
        self._audit = audit

    async def GrantRole(self, request: api.GrantRoleRequest, context: Any) -> api.GrantRoleResponse:
        """Gives a role."""
        rights, asked = await self._rights(), request.rule

        async def work(unit: Unit) -> api.GrantRoleResponse:
            rule = await self._grants.give(
                unit, rights, asked.holder_kind, asked.holder, asked.issuer, asked.role, asked.scope_kind, asked.scope
            )
            return api.GrantRoleResponse(rule=_rule(rule))

        return await once(self._database, "GrantRole", request, api.GrantRoleResponse, work)

    async def RevokeRole(self, request: api.RevokeRoleRequest, context: Any) -> api.RevokeRoleResponse:
        """Takes a role away."""
        rights = await self._rights()

        async def work(unit: Unit) -> api.RevokeRoleResponse:
            return api.RevokeRoleResponse(rule=_rule(await self._grants.take(unit, rights, request.id)))

        return await once(self._database, "RevokeRole", request, api.RevokeRoleResponse, work)

    async def ListAccessRules(self, request: api.ListAccessRulesRequest, context: Any) -> api.ListAccessRulesResponse:
        """The rules that the caller may see, by number."""
        rights = await self._rights()
        bound = f"rules\x00{request.holder}\x00{request.project}".encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        last = number_of(after)
        found = [
            rule for rule in visible(rights, await self._rules.all()) if rule.number > last and _wanted(rule, request)
        ]
        token = page_token(str(found[size - 1].number), bound) if len(found) > size else ""
        return api.ListAccessRulesResponse(rules=[_rule(rule) for rule in found[:size]], next_page_token=token)

    async def WhoAmI(self, request: api.WhoAmIRequest, context: Any) -> api.WhoAmIResponse:
        """The caller and their rules."""
        who = caller()
        await self._rights()  # one whose application was revoked is nobody
        own = [_rule(rule) for rule in await self._rules.all() if _holds(rule, who)]
        application = None if who.credential is None else await self._application_books.find(who.subject)
        return api.WhoAmIResponse(
            subject=who.subject,
            issuer=who.issuer,
            groups=who.groups,
            rules=own,
            open=who == LOCAL,
            subject_name=application.name if application else "",
        )

    async def CanI(self, request: api.CanIRequest, context: Any) -> api.CanIResponse:
        """Whether the caller may do something somewhere; that a place is not there is told to who may do it there."""
        verb = _VERBS.get(request.verb)
        if verb is None:
            raise BadQuestion(f"{clean(request.verb, 60)!r} is no verb; there are {', '.join(_VERBS)}")
        place = Place(request.project, request.department, request.cluster)
        allowed = (await self._rights()).allows_at(verb, place)
        if allowed:
            async with self._database.unit() as unit:
                await self._grants.require_place(unit, place)
        return api.CanIResponse(allowed=allowed)

    async def CreateApplication(
        self, request: api.CreateApplicationRequest, context: Any
    ) -> api.CreateApplicationResponse:
        """Makes an application."""
        rights = await self._may(Verb.APPLICATIONS_WRITE)
        async with self._database.unit() as unit:
            made, secret = await self._applications.create(unit, request.name, rights.who.subject)
        return api.CreateApplicationResponse(application=_application(made), secret=secret)

    async def ListApplications(
        self, request: api.ListApplicationsRequest, context: Any
    ) -> api.ListApplicationsResponse:
        """The applications, by name."""
        await self._may(Verb.APPLICATIONS_READ)
        size, after = page_of(request.page_size, request.page_token, b"applications")
        found = await self._application_books.page(size, after)
        token = page_token(found[-1].name, b"applications") if len(found) == size else ""
        return api.ListApplicationsResponse(applications=[_application(one) for one in found], next_page_token=token)

    async def RotateApplication(
        self, request: api.RotateApplicationRequest, context: Any
    ) -> api.RotateApplicationResponse:
        """Gives an application a new secret."""
        await self._may(Verb.APPLICATIONS_WRITE)
        async with self._database.unit() as unit:
            found, secret = await self._applications.rotate(unit, request.application)
        return api.RotateApplicationResponse(application=_application(found), secret=secret)

    async def RevokeApplication(
        self, request: api.RevokeApplicationRequest, context: Any
    ) -> api.RevokeApplicationResponse:
        """Ends an application."""
        await self._may(Verb.APPLICATIONS_WRITE)

        async def work(unit: Unit) -> api.RevokeApplicationResponse:
            ended = await self._applications.end(unit, request.application)
            return api.RevokeApplicationResponse(application=_application(ended))

        return await once(self._database, "RevokeApplication", request, api.RevokeApplicationResponse, work)

    async def ListAudit(self, request: api.ListAuditRequest, context: Any) -> api.ListAuditResponse:
        """The audit, newest first."""
        rights = await self._rights()
        wanted = wanted_of(request, rights)
        bound = f"audit\x00{request.who}\x00{request.what}\x00{request.project}\x00{wanted.since}".encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        found = await self._audit.page(wanted, size, number_of(after) or None)
        token = page_token(str(found[-1]["id"]), bound) if len(found) == size else ""
        return api.ListAuditResponse(entries=[_entry(row) for row in found], next_page_token=token)

    async def _rights(self) -> Rights:
        return await self._access.rights(caller())

    async def _may(self, verb: Verb) -> Rights:
        rights = await self._rights()
        rights.require(verb)
        return rights


def wanted_of(request: api.ListAuditRequest, rights: Rights) -> Wanted:
    """Which lines are asked for, within what the caller may see. Raises InvalidArgument and PermissionDenied."""
    if any("\x00" in text or len(text) > _LONGEST for text in (request.who, request.what, request.project)):
        raise BadQuestion(f"who, what and project are texts of at most {_LONGEST} characters without NUL")
    if request.project or not rights.anywhere(Verb.AUDIT_READ):
        rights.require(Verb.AUDIT_READ, project=request.project)
    since = moment_of(request.since, "since") if request.HasField("since") else None
    return Wanted(since, None, request.who, request.what, request.project, rights.projects(Verb.AUDIT_READ))


def _wanted(rule: GivenRule, request: api.ListAccessRulesRequest) -> bool:
    scope = rule.binding.scope
    held = not request.holder or request.holder in (rule.holder.name, rule.holder_name)
    return held and (not request.project or (scope.kind is ScopeKind.PROJECT and scope.name == request.project))


def _holds(rule: GivenRule, who: Caller) -> bool:
    holder = rule.holder
    if holder.kind is HolderKind.APPLICATION:
        return who.credential is not None and holder.name == who.subject
    names = who.groups if holder.kind is HolderKind.GROUP else (who.subject,)
    return who.credential is None and holder.name in names and holder.issuer in ("", who.issuer)


def _rule(rule: GivenRule) -> api.AccessRule:
    shown = api.AccessRule(
        id=rule.number,
        holder_kind=rule.holder.kind,
        holder=rule.holder.name,
        issuer=rule.holder.issuer,
        role=rule.binding.role,
        scope_kind=rule.binding.scope.kind,
        scope=rule.binding.scope.name,
        created_by=rule.created_by,
        holder_name=rule.holder_name,
    )
    shown.created_at.FromDatetime(rule.created_at)
    return shown


def _application(one: Application) -> api.Application:
    shown = api.Application(id=one.id, name=one.name, enabled=one.enabled, created_by=one.created_by)
    shown.created_at.FromDatetime(one.created_at)
    if one.used_at is not None:
        shown.used_at.FromDatetime(one.used_at)
    return shown


def _entry(row: Any) -> api.AuditEntry:
    values = dict(row)
    at = values.pop("at")
    shown = api.AuditEntry(**values)
    shown.at.FromDatetime(at)
    return shown
