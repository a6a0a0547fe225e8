"""Who may do what, as data: the verbs, the roles with their verbs, and where a binding of a role reaches.

Called by handlers/access.py for every call on every channel, and by the tests, which are generated from these tables.
Holds: nothing is allowed that no binding allows; what someone may not even see is HIDDEN, never FORBIDDEN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final


class Level(Enum):
    """Where a verb takes place.

    PROJECT and DEPARTMENT: in the one that is named. FLEET: at a cluster, which everyone with a role outside of a
    cluster shares. TENANT: nowhere in particular, so that only a binding to the whole tenant reaches it.
    """

    PROJECT = "project"
    DEPARTMENT = "department"
    FLEET = "fleet"
    TENANT = "tenant"


class Verb(StrEnum):
    """A kind of action, RESOURCE.ACTION."""

    WORKLOADS_READ = "workloads.read"
    WORKLOADS_LOGS = "workloads.logs"
    WORKLOADS_CREATE = "workloads.create"
    WORKLOADS_CHANGE = "workloads.change"  # suspend, resume and update
    WORKLOADS_DELETE = "workloads.delete"
    TEMPLATES_READ = "templates.read"
    TEMPLATES_WRITE = "templates.write"
    TRIGGERS_READ = "triggers.read"
    TRIGGERS_WRITE = "triggers.write"
    POLICIES_READ = "policies.read"
    POLICIES_WRITE = "policies.write"  # in the place of the policy's scope
    SECRETS_WRITE = "secrets.write"
    PROJECTS_READ = "projects.read"
    PROJECTS_CREATE = "projects.create"
    PROJECTS_CHANGE = "projects.change"  # quotas and rules included
    PROJECTS_DELETE = "projects.delete"
    DEPARTMENTS_READ = "departments.read"
    DEPARTMENTS_CHANGE = "departments.change"
    DEPARTMENTS_CREATE = "departments.create"
    DEPARTMENTS_DELETE = "departments.delete"
    CLUSTERS_READ = "clusters.read"
    CLUSTERS_WRITE = "clusters.write"
    NODE_POOLS_READ = "node-pools.read"
    NODE_POOLS_WRITE = "node-pools.write"
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"
    APPLICATIONS_READ = "applications.read"
    APPLICATIONS_WRITE = "applications.write"
    AUDIT_READ = "audit.read"
    DEAD_LETTERS_READ = "dead-letters.read"
    DEAD_LETTERS_WRITE = "dead-letters.write"
    AGENTS_CONNECT = "agents.connect"

    @property
    def level(self) -> Level:
        """Where it takes place."""
        return _LEVELS.get(self, Level.PROJECT)

    @property
    def sight(self) -> Verb:
        """The verb that decides whether someone sees what this one acts on."""
        return _SIGHTS.get(self.value.partition(".")[0], self)


_LEVELS: Final = {
    # A project is made in a department: the one who makes it has no right in the project yet.
    Verb.PROJECTS_CREATE: Level.DEPARTMENT,
    Verb.PROJECTS_DELETE: Level.DEPARTMENT,
    Verb.PROJECTS_CHANGE: Level.DEPARTMENT,
    Verb.DEPARTMENTS_READ: Level.DEPARTMENT,
    Verb.DEPARTMENTS_CHANGE: Level.DEPARTMENT,
    Verb.DEPARTMENTS_CREATE: Level.TENANT,
    Verb.DEPARTMENTS_DELETE: Level.TENANT,
    Verb.CLUSTERS_READ: Level.FLEET,
    Verb.CLUSTERS_WRITE: Level.FLEET,
    Verb.NODE_POOLS_READ: Level.FLEET,
    Verb.NODE_POOLS_WRITE: Level.FLEET,
    Verb.AGENTS_CONNECT: Level.FLEET,
    Verb.APPLICATIONS_READ: Level.TENANT,
    Verb.APPLICATIONS_WRITE: Level.TENANT,
    Verb.DEAD_LETTERS_READ: Level.TENANT,
    Verb.DEAD_LETTERS_WRITE: Level.TENANT,
}
_SIGHTS: Final = {
    "workloads": Verb.WORKLOADS_READ,
    "templates": Verb.TEMPLATES_READ,
    "triggers": Verb.TRIGGERS_READ,
    "policies": Verb.PROJECTS_READ,
    "secrets": Verb.PROJECTS_READ,
    "projects": Verb.PROJECTS_READ,
    "departments": Verb.DEPARTMENTS_READ,
    "clusters": Verb.CLUSTERS_READ,
    "node-pools": Verb.NODE_POOLS_READ,
    "access": Verb.PROJECTS_READ,
    "audit": Verb.PROJECTS_READ,
}


class Role(StrEnum):
    """What a binding gives: VERBS says which verbs. Each of the first four has all of those before it."""

    VIEWER = "viewer"
    RESEARCHER = "researcher"
    PROJECT_ADMIN = "project-admin"
    DEPARTMENT_ADMIN = "department-admin"
    SYSTEM_ADMIN = "system-admin"
    CLUSTER_AGENT = "cluster-agent"
    """For the agents of clusters, never for people."""


_VIEWER: Final = frozenset(
    {
        Verb.WORKLOADS_READ,
        Verb.WORKLOADS_LOGS,
        Verb.TEMPLATES_READ,
        Verb.TRIGGERS_READ,
        Verb.POLICIES_READ,
        Verb.PROJECTS_READ,
        Verb.DEPARTMENTS_READ,
        Verb.CLUSTERS_READ,
        Verb.NODE_POOLS_READ,
    }
)
_RESEARCHER: Final = _VIEWER | {
    Verb.WORKLOADS_CREATE,
    Verb.WORKLOADS_CHANGE,
    Verb.WORKLOADS_DELETE,
    Verb.TEMPLATES_WRITE,
    Verb.SECRETS_WRITE,
}
_PROJECT_ADMIN: Final = _RESEARCHER | {
    Verb.TRIGGERS_WRITE,
    Verb.POLICIES_WRITE,
    Verb.ACCESS_READ,
    Verb.ACCESS_WRITE,
    Verb.AUDIT_READ,
}
_DEPARTMENT_ADMIN: Final = _PROJECT_ADMIN | {
    Verb.PROJECTS_CREATE,
    Verb.PROJECTS_CHANGE,
    Verb.PROJECTS_DELETE,
    Verb.DEPARTMENTS_CHANGE,
}
VERBS: Final[Mapping[Role, frozenset[Verb]]] = {
    Role.VIEWER: _VIEWER,
    Role.RESEARCHER: _RESEARCHER,
    Role.PROJECT_ADMIN: _PROJECT_ADMIN,
    Role.DEPARTMENT_ADMIN: _DEPARTMENT_ADMIN,
    Role.SYSTEM_ADMIN: frozenset(Verb),
    Role.CLUSTER_AGENT: frozenset({Verb.AGENTS_CONNECT, Verb.CLUSTERS_READ}),
}


class ScopeKind(StrEnum):
    """How far a binding reaches. A department reaches into its projects, the tenant everywhere."""

    TENANT = "tenant"
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a binding holds; the tenant has no name."""

    kind: ScopeKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.name else str(self.kind)

    @property
    def place(self) -> Place:
        """The scope as the place of a question; the tenant is none in particular."""
        return Place(**{self.kind.value: self.name}) if self.kind is not ScopeKind.TENANT else Place()


TENANT: Final = Scope(ScopeKind.TENANT)


@dataclass(frozen=True, slots=True)
class Binding:
    """A role in a scope, as someone holds it."""

    role: Role
    scope: Scope


class Answer(Enum):
    """What a question gets: FORBIDDEN where the thing may be seen, HIDDEN where it may not."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an action takes place; empty: nowhere in particular. A project brings its department where it is known."""

    project: str = ""
    department: str = ""
    cluster: str = ""

    @property
    def named(self) -> bool:
        """Whether it is somewhere in particular."""
        return bool(self.project or self.department or self.cluster)


_NOBODY: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a verb is allowed: everywhere, or in these."""

    tenant: bool = False
    clusters: frozenset[str] = _NOBODY
    departments: frozenset[str] = _NOBODY
    projects: frozenset[str] = _NOBODY

    @property
    def anywhere(self) -> bool:
        """Whether there is a place where the verb is allowed."""
        return self.tenant or bool(self.clusters or self.departments or self.projects)


class Grants:
    """What someone may do, from the bindings that hold for them and the projects that there are."""

    def __init__(self, bindings: Iterable[Binding], departments: Mapping[str, str]) -> None:
        """departments: project -> its department; a project that is missing there belongs to nobody's department."""
        self.bindings = tuple(bindings)
        self._departments = departments
        self._reach = {verb: _reach(verb, self.bindings) for verb in Verb}

    def reach(self, verb: Verb) -> Reach:
        """Where the verb is allowed, as the bindings say it."""
        return self._reach[verb]

    def covers(self, outer: Scope, inner: Scope) -> bool:
        """Whether everything in one scope is in the other one too."""
        if outer.kind is ScopeKind.TENANT or outer == inner:
            return True
        return (
            outer.kind is ScopeKind.DEPARTMENT
            and inner.kind is ScopeKind.PROJECT
            and self._departments.get(inner.name) == outer.name
        )

    def judge(self, verb: Verb, place: Place) -> Answer:
        """Whether the verb is allowed there, and whether what is there may be seen."""
        if self._allows(verb, place):
            return Answer.ALLOWED
        if not place.named or self._allows(verb.sight, place):
            return Answer.FORBIDDEN
        return Answer.HIDDEN

    def projects(self, verb: Verb) -> frozenset[str] | None:
        """The projects in which the verb is allowed; None: in all of them."""
        reach = self._reach[verb]
        if reach.tenant:
            return None
        if not reach.departments:
            return reach.projects
        inside = {name for name, department in self._departments.items() if department in reach.departments}
        return reach.projects | inside

    def departments(self, verb: Verb) -> frozenset[str] | None:
        """The departments in which the verb is allowed; None: in all of them."""
        reach = self._reach[verb]
        return None if reach.tenant else reach.departments

    def clusters(self, verb: Verb) -> frozenset[str] | None:
        """The clusters at which the verb is allowed; None: at all of them."""
        reach = self._reach[verb]
        shared = verb in _VIEWER and (reach.departments or reach.projects)
        return None if reach.tenant or shared else reach.clusters

    def _allows(self, verb: Verb, place: Place) -> bool:
        reach = self._reach[verb]
        if reach.tenant:
            return True
        if verb.level is Level.FLEET:
            at = self.clusters(verb)
            return at is None or place.cluster in at
        department = place.department or self._departments.get(place.project, "")
        return (verb.level is not Level.TENANT and department in reach.departments) or place.project in reach.projects


def _reach(verb: Verb, bindings: Iterable[Binding]) -> Reach:
    places: dict[ScopeKind, set[str]] = {kind: set() for kind in ScopeKind}
    for binding in bindings:
        if verb in VERBS[binding.role] and (binding.scope.kind, verb.level) not in _BEYOND:
            places[binding.scope.kind].add(binding.scope.name)
    return Reach(
        bool(places[ScopeKind.TENANT]),
        frozenset(places[ScopeKind.CLUSTER]),
        frozenset(places[ScopeKind.DEPARTMENT]),
        frozenset(places[ScopeKind.PROJECT]),
    )


# A project's binding does not reach its department, a cluster's neither, and nothing below the tenant reaches it.
_BEYOND: Final = {
    (ScopeKind.PROJECT, Level.DEPARTMENT),
    (ScopeKind.CLUSTER, Level.DEPARTMENT),
    (ScopeKind.CLUSTER, Level.PROJECT),
    (ScopeKind.PROJECT, Level.TENANT),
    (ScopeKind.DEPARTMENT, Level.TENANT),
    (ScopeKind.CLUSTER, Level.TENANT),
}
EVERYTHING: Final = Grants([Binding(Role.SYSTEM_ADMIN, TENANT)], {})
"""What `local` may do where authentication is switched off."""
