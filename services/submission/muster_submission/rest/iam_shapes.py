"""Roles, rules, applications and the audit as the API shows them: their schemas, and the words of both sides.

Called by their routes. Holds: every role has a number that never changes, since clients keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster_submission.domain.access import VERBS, Role, ScopeKind, Verb
from muster_submission.domain.bindings import HolderKind
from muster_submission.rest.operation import Shape, array_of, record

_TEXT: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_TIME_OR_NONE: Final = {"type": ["string", "null"], "format": "date-time"}
_NUMBER: Final = {"type": "integer"}
ROLE_IDS: Final[Mapping[Role, int]] = {role: number for number, role in enumerate(Role, start=1)}
ROLES: Final[Mapping[int, Role]] = {number: role for role, number in ROLE_IDS.items()}
SUBJECTS: Final[Mapping[str, HolderKind]] = {
    "user": HolderKind.SUBJECT,
    "app": HolderKind.APPLICATION,
    "group": HolderKind.GROUP,
}
SUBJECT_WORDS: Final[Mapping[HolderKind, str]] = {kind: word for word, kind in SUBJECTS.items()}
SCOPES: Final[Mapping[str, ScopeKind]] = {"system": ScopeKind.TENANT, **{str(kind): kind for kind in ScopeKind}}
DESCRIPTIONS: Final[Mapping[Role, str]] = {
    Role.VIEWER: "Sees workloads with their logs, and what surrounds them",
    Role.RESEARCHER: "Runs workloads and keeps templates",
    Role.PROJECT_ADMIN: "Researcher who also keeps triggers, gives roles and reads the audit",
    Role.DEPARTMENT_ADMIN: "Project admin who also makes, changes and removes projects",
    Role.SYSTEM_ADMIN: "May do everything",
    Role.CLUSTER_AGENT: "For the agents of clusters, never for people",
}
_RESOURCES: Final[Mapping[str, tuple[str, str, str]]] = {
    "workloads": ("workloads", "Workloads", "workload"),
    "templates": ("templates", "Templates", "workload-asset"),
    "secrets": ("credentials", "Credentials", "workload-asset"),
    "policies": ("policies", "Policies", "workload"),
    "projects": ("project", "Projects", "organization"),
    "departments": ("department", "Departments", "organization"),
    "clusters": ("cluster", "Clusters", "physical-resource"),
    "node-pools": ("nodepools", "Node pools", "physical-resource"),
    "access": ("access_rules", "Access rules", "iam"),
    "applications": ("apps", "Applications", "iam"),
    "audit": ("events-history", "Audit", "iam"),
}
_ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("read",),
    "create": ("create",),
    "change": ("update",),
    "delete": ("delete",),
    "write": ("create", "update", "delete"),
}


def permissions(verbs: Iterable[Verb]) -> list[dict[str, Any]]:
    """Verbs as the API's permissions: what it has no word for is left out."""
    actions: dict[str, list[str]] = {}
    for verb in verbs:
        resource, _, action = verb.partition(".")
        if resource in _RESOURCES:
            actions.setdefault(resource, []).extend(_ACTIONS.get(action, ()))
    return [
        {"resourceType": kind, "displayName": name, "groupId": group, "actions": sorted(set(actions[resource]))}
        for resource, (kind, name, group) in _RESOURCES.items()
        if actions.get(resource)
    ]


def shown_role(role: Role, made: str) -> dict[str, Any]:
    """A role. made: the time shown as that of its making, since roles are part of the program."""
    return {
        "id": ROLE_IDS[role],
        "name": role,
        "description": DESCRIPTIONS[role],
        "permissions": permissions(verb for verb in Verb if verb in VERBS[role]),
        "createdAt": made,
        "updatedAt": made,
        "deletedAt": None,
        "createdBy": "muster",
    }


PERMISSION: Final = record(
    "Permission",
    ["resourceType", "displayName", "groupId", "actions"],
    "What may be done with one kind of resource.",
    resourceType=_TEXT,
    displayName=_TEXT,
    groupId=_TEXT,
    actions={"type": "array", "items": {"type": "string", "enum": ["create", "read", "update", "delete"]}},
)
ROLE: Final = record(
    "Role",
    ["id", "name", "description", "permissions", "createdAt", "updatedAt", "createdBy"],
    "A role.",
    id=_NUMBER,
    name={"type": "string", "enum": [str(role) for role in Role]},
    description=_TEXT,
    permissions=array_of(PERMISSION),
    createdAt=_TIME,
    updatedAt=_TIME,
    deletedAt=_TIME_OR_NONE,
    createdBy=_TEXT,
)
_RULE: Final = {
    "subjectId": {"type": "string", "description": "The user or group as tokens name it, or the application's id."},
    "subjectType": {"type": "string", "enum": list(SUBJECTS)},
    "roleId": {"type": "integer", "minimum": 1, "maximum": len(ROLES)},
    "scopeId": {"type": "string", "description": "The id of the tenant, cluster, department or project."},
    "scopeType": {"type": "string", "enum": list(SCOPES)},
    "clusterId": {"type": ["string", "null"], "description": "The cluster, where the scope is one."},
}
RULE_CREATION: Final = record(
    "AccessRuleCreation",
    ["subjectId", "subjectType", "roleId", "scopeId", "scopeType"],
    "A role to give.",
    **_RULE,
)
RULE: Final = record(
    "AccessRule",
    [*_RULE, "roleName", "scopeName", "id", "createdAt", "updatedAt", "tenantId", "createdBy"],
    "A role that someone has somewhere.",
    **_RULE,
    roleName=_TEXT,
    scopeName=_TEXT,
    id=_NUMBER,
    createdAt=_TIME,
    updatedAt=_TIME,
    deletedAt=_TIME_OR_NONE,
    tenantId=_NUMBER,
    createdBy=_TEXT,
)
RULES: Final = record(
    "AccessRules",
    ["totalRecords", "displayRecords", "accessRules"],
    "A page of rules.",
    totalRecords=_NUMBER,
    displayRecords=_NUMBER,
    accessRules=array_of(RULE),
)
APPLICATION: Final = record(
    "Application",
    ["id", "name", "createdBy", "createdAt", "updatedAt", "enabled", "lastLogin"],
    "A program with an id and a secret. clientId is its id, under the name that clients after 2.18 read.",
    id=_TEXT,
    clientId=_TEXT,
    name=_TEXT,
    createdBy=_TEXT,
    createdAt=_TIME,
    updatedAt=_TIME,
    enabled={"type": "boolean"},
    tenantId=_TEXT,
    lastLogin=_TIME_OR_NONE,
)
APPLICATION_CREATION: Final = record("ApplicationCreation", ["name"], "An application to make.", name=_TEXT)
APPLICATION_CHANGE: Final = record(
    "ApplicationChange", ["enabled"], "Whether an application gets tokens.", enabled={"type": "boolean"}
)
NEW_APPLICATION: Final = record(
    "NewApplication",
    ["id", "name", "secret"],
    "An application with its secret, which is in this answer and nowhere else.",
    id=_TEXT,
    clientId=_TEXT,
    name=_TEXT,
    secret=_TEXT,
)
NEW_SECRET: Final = record("NewSecret", ["secret"], "A new secret.", secret=_TEXT)
AUDIT_LINE: Final = record(
    "AuditRecord",
    ["id", "happenedAt", "action", "entityType", "entityId", "sourceType", "sourceId"],
    "One line of the audit.",
    id=_NUMBER,
    tenantId=_NUMBER,
    happenedAt=_TIME,
    action={"type": "string", "description": "The verb, such as workloads.create."},
    version=_TEXT,
    entityId=_TEXT,
    entityType=_TEXT,
    entityName=_TEXT,
    sourceType={"type": "string", "enum": ["User", "Application"]},
    sourceId=_TEXT,
    sourceName=_TEXT,
    error={"type": ["string", "null"], "description": "Why it was refused; null where it was done."},
    context={"type": "object"},
)
AUDIT: Final = Shape("AuditRecords", {"type": "array", "description": "Lines, newest first.", "items": AUDIT_LINE})
