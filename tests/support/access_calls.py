"""One list of calls for every way in, with what each needs, and the house that they are made in.

Called by test_access_channels.py. What is expected of a call comes from muster_submission.domain.access alone.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import jwt
from google.protobuf.message_factory import GetMessageClass

from muster.api.v1 import (
    access_pb2,
    agent_gateway_pb2,
    cluster_agents_pb2,
    dead_letters_pb2,
    explain_pb2,
    fleet_pb2,
    policies_pb2,
    templates_pb2,
    tenancy_pb2,
    triggers_pb2,
    usage_pb2,
)
from muster.api.v1 import workloads_pb2 as api
from muster.tenancy.v1.tenancy_pb2 import Department, PoolQuota
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.settings import AuthMode, IssuerSettings
from muster_submission.domain.access import TENANT, Binding, Grants, Place, Role, Scope, ScopeKind, Verb
from muster_submission.domain.grants import SCOPES
from tests.support.doors import Door, door, draft, key, training

SECRET: Final = "0123456789abcdef0123456789abcdef"
DEPARTMENTS: Final = {"vision": "research", "web": "product"}
_SCOPES: Final = (
    TENANT,
    Scope(ScopeKind.DEPARTMENT, "research"),
    Scope(ScopeKind.PROJECT, "vision"),
    Scope(ScopeKind.PROJECT, "web"),
    Scope(ScopeKind.CLUSTER, "east"),
)
CALLERS: Final = {
    f"{role}@{scope}": Binding(role, scope)
    for role in Role
    for scope in _SCOPES
    if role is not Role.CLUSTER_AGENT and scope.kind in SCOPES[role]
}
VISION, RESEARCH, EAST, NOWHERE = Place("vision"), Place("", "research"), Place("", "", "east"), Place()
Metadata = tuple[tuple[str, str], ...]


@dataclass
class House:
    """A service with two projects in two departments, a workload in each, and callers with one rule each."""

    door: Door
    seen: wl.Workload
    other: wl.Workload
    project: str
    tokens: dict[str, str] = field(default_factory=dict)

    def metadata(self, who: str) -> Metadata:
        return (("authorization", f"Bearer {token(who)}"),)

    def headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token(who)}"}


def token(who: str) -> str:
    """A token of the tests' issuer."""
    claims = {"iss": "tests", "aud": "muster", "sub": who, "exp": time.time() + 3600}
    return jwt.encode(claims, SECRET, algorithm="HS256")


def grants_of(who: str) -> Grants:
    """What the domain says of a caller."""
    return Grants([CALLERS[who]] if who in CALLERS else [], DEPARTMENTS)


@asynccontextmanager
async def house(database: Any, kafka: str, folder: Path) -> AsyncIterator[House]:
    """The house, built by the tests' administrator."""
    (folder / "key").write_text(SECRET)
    issuer = IssuerSettings(issuer="tests", audience="muster", key_file=folder / "key", algorithms=("HS256",))
    async with door(database, kafka, auth=AuthMode.JWT, auth_issuers=(issuer,)) as here:
        await here.app.database.pool.executemany(
            "INSERT INTO access_rules (holder_kind, holder, issuer, role, scope_kind, scope, created_at, created_by) "
            "VALUES ('subject', $1, 'tests', $2, $3, $4, now(), 'test')",
            [(who, one.role, one.scope.kind, one.scope.name) for who, one in CALLERS.items()],
        )
        admin: Metadata = (("authorization", f"Bearer {token('system-admin@tenant')}"),)
        made = []
        for project, department in DEPARTMENTS.items():
            asked = tenancy_pb2.CreateDepartmentRequest(department=Department(name=department), idempotency_key=key())
            await here.tenancy.CreateDepartment(asked, metadata=admin)
            wanted = tenancy_pb2.CreateProjectRequest(name=project, department=department, idempotency_key=key())
            numbered = (await here.tenancy.CreateProject(wanted, metadata=admin)).project
            made.append((await submit(here, project, "seen", admin), numbered))
        answer = await here.http.post(K8S, json=_OBJECT, headers={"Authorization": admin[0][1]})
        assert answer.status_code == 201, answer.text
        yield House(here, made[0][0], made[1][0], str(made[0][1].id))


async def submit(here: Door, project: str, name: str, who: Metadata) -> wl.Workload:
    asked = api.SubmitWorkloadRequest(draft=draft(project, name=name), idempotency_key=key())
    found: wl.Workload = (await here.workloads.SubmitWorkload(asked, metadata=who)).workload
    return found


SERVICES: Final = (
    *(access_pb2, agent_gateway_pb2, cluster_agents_pb2, dead_letters_pb2, explain_pb2, fleet_pb2, policies_pb2),
    *(templates_pb2, tenancy_pb2, triggers_pb2, usage_pb2, api),
)
_REQUESTS: Final = {
    method.name: GetMessageClass(method.input_type)
    for module in SERVICES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
SEEN: Final = object()
"""In a request: the workload that is there."""


@dataclass(frozen=True)
class Rpc:
    """One method, what it needs, and the members of its request.

    Where it is allowed it ends in INVALID_ARGUMENT or has been done before: no call changes what the next one finds.
    """

    service: str
    name: str
    verb: Verb
    place: Place
    members: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The method's name; a second row of one has words behind it."""
        return self.name.partition(" ")[0]

    async def call(self, here: House, who: str) -> None:
        """Makes the call."""
        called = getattr(getattr(here.door, self.service), self.method)
        seen = {"workload": api.WorkloadRef(id=here.seen.id), "workload_id": here.seen.id}
        members = {name: seen[name] if value is SEEN else value for name, value in self.members.items()}
        answer = called(_REQUESTS[self.method](**members), metadata=here.metadata(who))
        if isinstance(answer, grpc.aio.UnaryStreamCall):
            await answer.read()
            answer.cancel()
        else:
            await answer


def _rpc(stub: str, name: str, verb: Verb, place: Place, /, **members: Any) -> Rpc:
    return Rpc(stub, name, verb, place, members)


_TEMPLATE: Final = training(name="base", usage=wl.USAGE_TEMPLATE)
_NEW: Final = draft("vision", name="new")
_QUOTA: Final = PoolQuota(node_pool="default")
_TRIGGER: Final = triggers_pb2.Trigger(project="vision", name="t")
_VIEWER: Final = access_pb2.AccessRule(
    holder_kind="subject", holder="new", role="viewer", scope_kind="project", scope="vision"
)
_POLICY: Final = policies_pb2.PolicyKey(
    workload="training", scope=policies_pb2.PolicyScope(level="project", unit="vision")
)


def _text(level: str, unit: str) -> policies_pb2.PolicyText:
    scope = policies_pb2.PolicyScope(level=level, unit=unit)
    return policies_pb2.PolicyText(text="rules: {}", workload="training", scope=scope)


_EVERYWHERE: Final = {"global": True}  # a word of Python's own
RPCS: Final[Sequence[Rpc]] = (
    _rpc("workloads", "GetWorkload", Verb.WORKLOADS_READ, VISION, workload=SEEN),
    _rpc(
        "workloads",
        "GetWorkload by name",
        Verb.WORKLOADS_READ,
        VISION,
        workload=api.WorkloadRef(project="vision", name="seen"),
    ),
    _rpc("workloads", "ListWorkloadEvents", Verb.WORKLOADS_READ, VISION, workload=SEEN),
    _rpc("explain", "Why", Verb.WORKLOADS_READ, VISION, workload_id=SEEN),
    _rpc("workloads", "StreamLogs", Verb.WORKLOADS_LOGS, VISION, workload=SEEN),
    _rpc("workloads", "WatchWorkloads of one", Verb.WORKLOADS_READ, VISION, workload=SEEN),
    _rpc("workloads", "SubmitWorkload", Verb.WORKLOADS_CREATE, VISION, draft=_NEW),
    _rpc("workloads", "ApplyWorkload", Verb.WORKLOADS_CREATE, VISION, draft=_NEW),
    _rpc(
        "workloads", "UpdateWorkload", Verb.WORKLOADS_CHANGE, VISION, workload=SEEN, draft=draft("vision", name="seen")
    ),
    _rpc("workloads", "SuspendWorkload", Verb.WORKLOADS_CHANGE, VISION, workload=SEEN),
    _rpc("workloads", "ResumeWorkload", Verb.WORKLOADS_CHANGE, VISION, workload=SEEN),
    _rpc("workloads", "DeleteWorkload", Verb.WORKLOADS_DELETE, VISION, workload=SEEN),
    _rpc("templates", "ListTemplates", Verb.TEMPLATES_READ, VISION, project="vision"),
    _rpc("templates", "GetTemplate", Verb.TEMPLATES_READ, VISION, project="vision"),
    _rpc("templates", "DeleteTemplate", Verb.TEMPLATES_WRITE, VISION, project="vision"),
    _rpc("templates", "DeleteTemplate for all", Verb.TEMPLATES_WRITE, NOWHERE),
    _rpc(
        "templates",
        "ApplyTemplate",
        Verb.TEMPLATES_WRITE,
        VISION,
        draft=api.WorkloadDraft(project="vision", spec=_TEMPLATE),
    ),
    _rpc(
        "templates",
        "ApplyTemplate for all",
        Verb.TEMPLATES_WRITE,
        NOWHERE,
        draft=api.WorkloadDraft(spec=_TEMPLATE),
        **_EVERYWHERE,
    ),
    _rpc("triggers", "ListTriggers", Verb.TRIGGERS_READ, VISION, project="vision"),
    _rpc("triggers", "ListFirings", Verb.TRIGGERS_READ, VISION, project="vision"),
    _rpc("triggers", "ApplyTrigger", Verb.TRIGGERS_WRITE, VISION, trigger=_TRIGGER),
    _rpc("usage", "GetUsage", Verb.WORKLOADS_READ, VISION, project="vision"),
    _rpc("explain", "WhatIf", Verb.WORKLOADS_CREATE, VISION, drafts=[_NEW]),
    _rpc("policies", "JudgeWorkloads", Verb.WORKLOADS_CREATE, VISION, drafts=[_NEW]),
    _rpc("policies", "GetEffectivePolicy", Verb.POLICIES_READ, VISION, project="vision"),
    _rpc("policies", "GetEffectivePolicy of one", Verb.POLICIES_READ, RESEARCH, department="research"),
    _rpc("policies", "GetPolicy", Verb.POLICIES_READ, VISION, key=_POLICY),
    _rpc("policies", "ListPolicyVersions", Verb.POLICIES_READ, VISION, key=_POLICY),
    _rpc("policies", "ListPolicies", Verb.POLICIES_READ, VISION, scope=_POLICY.scope),
    _rpc("policies", "ApplyPolicies", Verb.POLICIES_WRITE, VISION, texts=[_text("project", "vision")]),
    _rpc("policies", "ApplyPolicies there", Verb.POLICIES_WRITE, RESEARCH, texts=[_text("department", "research")]),
    _rpc("policies", "ApplyPolicies at", Verb.POLICIES_WRITE, NOWHERE, texts=[_text("cluster", "east")]),
    _rpc("policies", "ApplyPolicies for all", Verb.POLICIES_WRITE, NOWHERE, texts=[_text("tenant", "")]),
    _rpc("policies", "DeletePolicy", Verb.POLICIES_WRITE, VISION, key=_POLICY),
    _rpc("policies", "RollbackPolicy", Verb.POLICIES_WRITE, VISION, key=_POLICY),
    _rpc("tenancy", "GetProject", Verb.PROJECTS_READ, VISION, name="vision"),
    _rpc("tenancy", "SetProjectQuota", Verb.PROJECTS_CHANGE, VISION, project="vision", quota=_QUOTA),
    _rpc("tenancy", "DeleteProject", Verb.PROJECTS_DELETE, VISION, name="vision"),
    _rpc("tenancy", "CreateProject", Verb.PROJECTS_CREATE, RESEARCH, name="new", department="research"),
    _rpc("tenancy", "GetDepartment", Verb.DEPARTMENTS_READ, RESEARCH, name="research"),
    _rpc("tenancy", "UpdateDepartment", Verb.DEPARTMENTS_CHANGE, RESEARCH, department=Department(name="research")),
    _rpc("tenancy", "DeleteDepartment", Verb.DEPARTMENTS_DELETE, RESEARCH, name="research"),
    _rpc("tenancy", "CreateDepartment", Verb.DEPARTMENTS_CREATE, NOWHERE, department=Department(name="new")),
    _rpc("fleet", "ListNodes", Verb.CLUSTERS_READ, EAST, cluster="east"),
    _rpc("fleet", "RegisterCluster", Verb.CLUSTERS_WRITE, EAST, cluster="east"),
    _rpc("fleet", "AdoptCluster", Verb.CLUSTERS_WRITE, EAST, cluster="east"),
    _rpc("fleet", "LeaveCluster", Verb.CLUSTERS_WRITE, EAST, cluster="east"),
    _rpc("fleet", "ForceGoneNode", Verb.CLUSTERS_WRITE, EAST, cluster="east", node="n"),
    _rpc("fleet", "ListQuarantine", Verb.DEAD_LETTERS_READ, NOWHERE),
    _rpc("fleet", "ReleaseQuarantine", Verb.DEAD_LETTERS_WRITE, NOWHERE),
    _rpc("fleet", "OrderNode", Verb.CLUSTERS_WRITE, EAST, cluster="east", node="n"),
    _rpc("fleet", "SetNodeLayout", Verb.CLUSTERS_WRITE, EAST, cluster="east", node="n", config="all-1g.10gb"),
    _rpc("cluster_agents", "CheckCluster", Verb.CLUSTERS_WRITE, EAST, cluster="east"),
    _rpc("cluster_agents", "RetireAgent", Verb.CLUSTERS_WRITE, EAST, cluster="east", dry_run=True),
    _rpc("dead_letters", "ListDeadLetters", Verb.DEAD_LETTERS_READ, NOWHERE, service="submission"),
    _rpc("dead_letters", "RedriveDeadLetters", Verb.DEAD_LETTERS_WRITE, NOWHERE, service="submission"),
    _rpc("dead_letters", "ResumeConsumer", Verb.DEAD_LETTERS_WRITE, NOWHERE, service="submission"),
    _rpc("dead_letters", "ListGaps", Verb.DEAD_LETTERS_READ, NOWHERE, service="submission"),
    _rpc("dead_letters", "Republish", Verb.DEAD_LETTERS_WRITE, NOWHERE, topic="muster.submissions", key="none"),
    _rpc("access", "GrantRole", Verb.ACCESS_WRITE, VISION, rule=_VIEWER, idempotency_key="grant"),
    _rpc("access", "ListAudit", Verb.AUDIT_READ, VISION, project="vision"),
    _rpc("access", "ListApplications", Verb.APPLICATIONS_READ, NOWHERE),
    _rpc("access", "CreateApplication", Verb.APPLICATIONS_WRITE, NOWHERE, name="-"),
)


K8S: Final = "/apis/run.ai/v2alpha1/namespaces/runai-vision/trainingworkloads"
_OBJECT: Final = {
    "apiVersion": "run.ai/v2alpha1",
    "kind": "TrainingWorkload",
    "metadata": {"name": "object"},
    "spec": {"image": {"value": "x"}, "name": {"value": "object"}},
}
# What is allowed meets a name that is taken, a workload that is suspended anyway, or a question.
PATHS: Final[Sequence[tuple[str, str, Any, Verb, Place]]] = (
    ("GET", "/api/v1/workloads/{seen}", None, Verb.WORKLOADS_READ, VISION),
    ("GET", "/api/v1/workloads/{seen}/pods", None, Verb.WORKLOADS_READ, VISION),
    ("GET", "/api/v1/workloads/{seen}/events", None, Verb.WORKLOADS_READ, VISION),
    ("GET", "/api/v1/workloads/{seen}/history", None, Verb.WORKLOADS_READ, VISION),
    ("GET", "/api/v1/workloads/trainings/{seen}", None, Verb.WORKLOADS_READ, VISION),
    ("POST", "/api/v1/workloads/trainings/{seen}/suspend", None, Verb.WORKLOADS_CHANGE, VISION),
    ("GET", "/api/v1/org-unit/projects/{project}", None, Verb.PROJECTS_READ, VISION),
    ("PATCH", "/api/v1/org-unit/projects/{project}/resources", [], Verb.PROJECTS_CHANGE, VISION),
    ("GET", "/api/v1/audit?project=vision", None, Verb.AUDIT_READ, VISION),
    ("GET", "/api/v1/apps", None, Verb.APPLICATIONS_READ, NOWHERE),
    ("POST", "/api/v1/apps", {"name": "-"}, Verb.APPLICATIONS_WRITE, NOWHERE),
    ("GET", f"{K8S}/object", None, Verb.WORKLOADS_READ, VISION),
    ("POST", K8S, _OBJECT, Verb.WORKLOADS_CREATE, VISION),
)
