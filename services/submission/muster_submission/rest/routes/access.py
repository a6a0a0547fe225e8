"""/api/v1/authorization: access rules, roles, permissions."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.errors import NotFound
from muster_chassis.rpc import caller
from muster_submission.access_ports import GivenRule
from muster_submission.domain.access import Scope, ScopeKind, Verb
from muster_submission.domain.fleet import cluster_uuid
from muster_submission.handlers.access import Rights
from muster_submission.handlers.grants import visible
from muster_submission.rest import iam_shapes as iam
from muster_submission.rest import org_lists, org_shapes
from muster_submission.rest.answers import answer, nothing
from muster_submission.rest.bodies import read_object
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Answer, Body, Operation, Parameter, array_of, path_id, refusal
from muster_submission.rest.org_lists import Listing
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import number_of

RULES: Final = "/api/v1/authorization/access-rules"
ROLES: Final = "/api/v1/authorization/roles"
_TAG: Final = "Access"
_MEMBERS: Final = ("subjectId", "subjectType", "roleId", "scopeId", "scopeType", "clusterId")
_ROLES_SINCE: Final = "2024-01-01T00:00:00Z"
_RULE_ID: Final = path_id("accessRuleId", "The rule's number.", form="")
_ROLE_ID: Final = path_id("roleId", "The role's number.", form="")
_FILTERS: Final = ("subjectType", "subjectIdFilter", "scopeType", "scopeId", "roleId", "clusterId")
Shown = dict[str, Any]


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    return Rules(parts).operations()


class Rules:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._listing: Listing[Shown] = Listing(
            [
                *(_column(name) for name in ("subjectId", "subjectType", "scopeId", "scopeType")),
                *(_column(name) for name in ("roleName", "scopeName", "createdBy", "createdAt", "roleId", "id")),
            ],
            lambda row: int(row["id"]),
            order="createdAt",
        )

    def operations(self) -> list[Operation]:
        """What is served."""
        role, roles = Answer("The role.", iam.ROLE), Answer("The roles.", array_of(iam.ROLE))
        may = Answer("What the caller may do somewhere.", array_of(iam.PERMISSION))
        of_caller = "/api/v1/authorization/permissions"
        return [
            *self._of_all_rules(),
            *self._of_one_rule(),
            Operation("GET", ROLES, "get_roles", _TAG, "The roles", self.roles, {200: roles}),
            Operation("GET", f"{ROLES}/{{roleId}}", "get_role", _TAG, "One role", self.role, {200: role}, [_ROLE_ID]),
            Operation("GET", of_caller, "get_permissions", _TAG, "What the caller may do", self.may, {200: may}),
        ]

    def _of_all_rules(self) -> list[Operation]:
        page, number = {200: Answer("A page.", iam.RULES)}, {200: Answer("The number.", org_shapes.COUNT)}
        asked = [*(Parameter(name, "Only rules with this value.") for name in _FILTERS), *self._listing.parameters()]
        counted, count = self._listing.count_parameters(), f"{RULES}/count"
        given = {
            201: Answer("The rule.", iam.RULE),
            404: refusal("The application or the scope does not exist, or not for the caller."),
        }
        body = Body(iam.RULE_CREATION)
        return [
            Operation("GET", RULES, "get_access_rules", _TAG, "The rules", self.page, page, asked),
            Operation("GET", count, "count_access_rules", _TAG, "How many there are", self.count, number, counted),
            Operation("POST", RULES, "create_access_rule", _TAG, "Give a role", self.give, given, body=body),
        ]

    def _of_one_rule(self) -> list[Operation]:
        at, number = f"{RULES}/{{accessRuleId}}", [_RULE_ID]
        shown = {200: Answer("The rule.", iam.RULE)}
        taken = {204: Answer("Taken."), 409: refusal("It is the last system admin.")}
        return [
            Operation("GET", at, "get_access_rule", _TAG, "One rule", self.get, shown, number),
            Operation("DELETE", at, "delete_access_rule", _TAG, "Take a role away", self.take, taken, number),
        ]

    async def page(self, request: Request) -> Response:
        """The rules that the caller may see."""
        rows = [row for row in await self._rows() if _passes(request, row)]
        found, _ = self._listing.page(request, rows)
        return answer({"totalRecords": len(rows), "displayRecords": len(found), "accessRules": found})

    async def count(self, request: Request) -> Response:
        """How many rules the caller may see."""
        return answer({"count": self._listing.count(request, await self._rows())})

    async def get(self, request: Request) -> Response:
        """One rule."""
        number = number_of(request.path_params["accessRuleId"])
        found = next((row for row in await self._rows() if row["id"] == number), None)
        if found is None:
            raise _no_rule(request)
        return answer(found)

    async def give(self, request: Request) -> Response:
        """Gives a role."""
        rights = await self._rights()
        given = Findings()
        body = given.object(await read_object(request), "", _MEMBERS)
        kind = given.text(body.get("subjectType"), "subjectType")
        role = given.integer(body.get("roleId"), "roleId", 1, len(iam.ROLES))
        scope_type = given.text(body.get("scopeType"), "scopeType")
        subject = given.text(body.get("subjectId"), "subjectId")
        for name, value, words in (("subjectType", kind, iam.SUBJECTS), ("scopeType", scope_type, iam.SCOPES)):
            if value not in words:
                given.add(name, f"is one of {', '.join(words)}")
        if role is None:
            given.add("roleId", f"is one of {', '.join(f'{number} ({word})' for number, word in iam.ROLES.items())}")
        scope_id = given.text(body.get("scopeId"), "scopeId")
        given.raise_any("the rule")
        scope = await self._scope(rights, iam.SCOPES[scope_type], scope_id)
        async with self._parts.database.unit() as unit:
            rule = await self._parts.gates.grants.give(
                unit, rights, iam.SUBJECTS[kind], subject, "", iam.ROLES[role or 0], scope.kind, scope.name
            )
        return answer(await self._shown(rule), 201)

    async def take(self, request: Request) -> Response:
        """Takes a role away."""
        number = number_of(request.path_params["accessRuleId"])
        if number is None:
            raise _no_rule(request)
        rights = await self._rights()
        async with self._parts.database.unit() as unit:
            await self._parts.gates.grants.take(unit, rights, number)
        return nothing()

    async def roles(self, request: Request) -> Response:
        """The roles."""
        return answer([iam.shown_role(role, _ROLES_SINCE) for role in iam.ROLES.values()])

    async def role(self, request: Request) -> Response:
        """One role."""
        role = iam.ROLES.get(number_of(request.path_params["roleId"]) or 0)
        if role is None:
            raise NotFound(f"there is no such role; their numbers are 1 to {len(iam.ROLES)}")
        return answer(iam.shown_role(role, _ROLES_SINCE))

    async def may(self, request: Request) -> Response:
        """What the caller may do in at least one place."""
        rights = await self._rights()
        return answer(iam.permissions(verb for verb in Verb if rights.anywhere(verb)))

    async def _rights(self) -> Rights:
        return await self._parts.access.rights(caller())

    async def _rows(self) -> list[Shown]:
        rules = visible(await self._rights(), await self._parts.gates.rules.all())
        return [await self._shown(rule) for rule in rules]

    async def _scope(self, rights: Rights, kind: ScopeKind, given: str) -> Scope:
        """The scope that an id names. Raises NotFound."""
        found: Any = None
        match kind:
            case ScopeKind.TENANT:
                return Scope(kind)
            case ScopeKind.PROJECT:
                found = await self._parts.tenancy.project_by_id(number_of(given) or 0)
            case ScopeKind.DEPARTMENT:
                found = await self._parts.tenancy.department_by_id(number_of(given) or 0)
            case ScopeKind.CLUSTER:
                name = await self._parts.fleet.cluster_of_uuid(given)
                found = None if name is None else Scope(kind, name)
        absent = NotFound(f"there is no {kind} with the id {given[:80]!r}")
        if found is None:
            raise absent
        scope = Scope(kind, found.name)
        rights.require_at(Verb.ACCESS_WRITE, scope.place, absent)
        return scope

    async def _shown(self, rule: GivenRule) -> Shown:
        scope, made = rule.binding.scope, rule.created_at.isoformat()
        scope_id = await self._scope_id(scope)
        return {
            "id": rule.number,
            "subjectId": rule.holder.name,
            "subjectType": iam.SUBJECT_WORDS[rule.holder.kind],
            "roleId": iam.ROLE_IDS[rule.binding.role],
            "roleName": rule.binding.role,
            "scopeId": scope_id,
            "scopeType": scope.kind,
            "scopeName": scope.name or "tenant",
            "clusterId": scope_id if scope.kind is ScopeKind.CLUSTER else None,
            "createdAt": made,
            "updatedAt": made,
            "deletedAt": None,
            "tenantId": self._parts.tenant_id,
            "createdBy": rule.created_by,
        }

    async def _scope_id(self, scope: Scope) -> str:
        found: Any = None
        match scope.kind:
            case ScopeKind.TENANT:
                return str(self._parts.tenant_id)
            case ScopeKind.CLUSTER:
                return cluster_uuid(scope.name)
            case ScopeKind.PROJECT:
                found = await self._parts.tenancy.project(scope.name)
            case ScopeKind.DEPARTMENT:
                found = await self._parts.tenancy.known_department(scope.name)
        return str(found.id) if found is not None else ""


def _column(name: str) -> org_lists.Column[Shown]:
    return org_lists.text(name, name, lambda row: str(row[name]))


def _passes(request: Request, row: Shown) -> bool:
    asked = request.query_params
    ids = {one for part in asked.getlist("subjectIds") for one in part.split(",") if one}
    if ids and row["subjectId"] not in ids:
        return False
    wanted = {name: asked[name].rpartition(".")[2] for name in _FILTERS if asked.get(name)}
    part = wanted.pop("subjectIdFilter", "")
    return part in row["subjectId"] and all(str(row[name]).lower() == value.lower() for name, value in wanted.items())


def _no_rule(request: Request) -> NotFound:
    return NotFound(f"there is no rule {request.path_params['accessRuleId'][:40]!r}")
