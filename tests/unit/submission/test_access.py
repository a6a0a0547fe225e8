"""Who may do what: the tables of the domain, and what a call is answered with."""

from __future__ import annotations

from itertools import pairwise

import pytest

from muster_chassis.errors import NotFound, PermissionDenied, Unauthenticated
from muster_chassis.rpc import LOCAL, Caller
from muster_submission.domain.access import (
    EVERYTHING,
    TENANT,
    VERBS,
    Answer,
    Binding,
    Grants,
    Level,
    Place,
    Role,
    Scope,
    ScopeKind,
    Verb,
)
from muster_submission.domain.bindings import Holder, HolderKind, Rule, State, by_holder
from muster_submission.errors import NoSuchWorkload
from muster_submission.handlers.access import Access

_DEPARTMENTS = {"vision": "research", "speech": "research", "web": "product"}
_VISION, _RESEARCH = Scope(ScopeKind.PROJECT, "vision"), Scope(ScopeKind.DEPARTMENT, "research")
_EAST = Scope(ScopeKind.CLUSTER, "east")
_PEOPLE = tuple(role for role in Role if role is not Role.CLUSTER_AGENT)


def _grants(*bindings: Binding) -> Grants:
    return Grants(bindings, _DEPARTMENTS)


def _place(verb: Verb) -> Place:
    """The place of a verb inside of the department research, its project vision and the cluster east."""
    match verb.level:
        case Level.PROJECT:
            return Place(project="vision")
        case Level.DEPARTMENT:
            return Place(department="research")
        case Level.FLEET:
            return Place(cluster="east")
        case Level.TENANT:
            return Place()


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("verb", Verb)
def test_a_role_in_the_tenant_gives_its_verbs_and_no_other(role: Role, verb: Verb) -> None:
    allowed = _grants(Binding(role, TENANT)).judge(verb, _place(verb)) is Answer.ALLOWED
    assert allowed == (verb in VERBS[role])


@pytest.mark.parametrize("role", _PEOPLE)
@pytest.mark.parametrize("verb", Verb)
def test_a_role_in_a_department_reaches_its_projects_and_not_the_next_one(role: Role, verb: Verb) -> None:
    grants = _grants(Binding(role, _RESEARCH))
    given = verb in VERBS[role] and verb.level in {Level.PROJECT, Level.DEPARTMENT}
    given = given or verb in {Verb.CLUSTERS_READ, Verb.NODE_POOLS_READ}
    assert (grants.judge(verb, _place(verb)) is Answer.ALLOWED) == given
    if verb.level is Level.PROJECT:
        assert grants.judge(verb, Place(project="web")) is Answer.HIDDEN


@pytest.mark.parametrize("role", _PEOPLE)
@pytest.mark.parametrize("verb", Verb)
def test_a_role_in_a_project_reaches_that_project(role: Role, verb: Verb) -> None:
    grants = _grants(Binding(role, _VISION))
    given = verb in VERBS[role] and verb.level is Level.PROJECT
    given = given or verb in {Verb.CLUSTERS_READ, Verb.NODE_POOLS_READ}
    assert (grants.judge(verb, _place(verb)) is Answer.ALLOWED) == given
    if verb.level is Level.PROJECT:
        assert grants.judge(verb, Place(project="speech")) is Answer.HIDDEN
        assert grants.judge(verb, Place(department="research")) is not Answer.ALLOWED


@pytest.mark.parametrize("verb", Verb)
def test_a_role_at_a_cluster_reaches_what_belongs_to_the_cluster(verb: Verb) -> None:
    grants = _grants(Binding(Role.VIEWER, _EAST))
    assert (grants.judge(verb, _place(verb)) is Answer.ALLOWED) == (verb in {Verb.CLUSTERS_READ, Verb.NODE_POOLS_READ})
    assert grants.judge(verb, Place(cluster="west")) in {Answer.HIDDEN, Answer.FORBIDDEN}


@pytest.mark.parametrize("verb", Verb)
def test_nobody_may_do_anything(verb: Verb) -> None:
    assert _grants().judge(verb, _place(verb)) is not Answer.ALLOWED
    assert _grants().projects(verb) == frozenset()
    assert not _grants().reach(verb).anywhere


@pytest.mark.parametrize("verb", Verb)
def test_without_authentication_everything_is_allowed(verb: Verb) -> None:
    assert EVERYTHING.judge(verb, Place()) is Answer.ALLOWED
    assert EVERYTHING.projects(verb) is None
    assert EVERYTHING.departments(verb) is None
    assert EVERYTHING.clusters(verb) is None


def test_each_role_has_the_verbs_of_those_below_it() -> None:
    ladder = [VERBS[role] for role in _PEOPLE]
    assert all(lower < higher for lower, higher in pairwise(ladder))


def test_the_projects_of_a_scope_are_those_of_its_departments_and_its_own() -> None:
    grants = _grants(Binding(Role.VIEWER, _RESEARCH), Binding(Role.RESEARCHER, Scope(ScopeKind.PROJECT, "web")))
    assert grants.projects(Verb.WORKLOADS_READ) == {"vision", "speech", "web"}
    assert grants.projects(Verb.WORKLOADS_CREATE) == {"web"}
    assert grants.departments(Verb.DEPARTMENTS_READ) == {"research"}


def test_what_may_be_seen_is_forbidden_and_what_may_not_is_hidden() -> None:
    grants = _grants(Binding(Role.VIEWER, _VISION))
    assert grants.judge(Verb.WORKLOADS_DELETE, Place(project="vision")) is Answer.FORBIDDEN
    assert grants.judge(Verb.WORKLOADS_DELETE, Place(project="speech")) is Answer.HIDDEN
    assert grants.judge(Verb.WORKLOADS_DELETE, Place(project="none")) is Answer.HIDDEN
    assert grants.judge(Verb.DEPARTMENTS_CREATE, Place()) is Answer.FORBIDDEN


_ROBOT = Holder(HolderKind.APPLICATION, "robot")
_RULES = by_holder(
    [
        Rule(Holder(HolderKind.SUBJECT, "anna", "https://one"), Binding(Role.VIEWER, _VISION)),
        Rule(Holder(HolderKind.GROUP, "team"), Binding(Role.RESEARCHER, _VISION)),
        Rule(_ROBOT, Binding(Role.SYSTEM_ADMIN, TENANT)),
        Rule(_ROBOT, Binding(Role.VIEWER, _VISION)),
    ]
)


class _Books:
    def __init__(self, state: State) -> None:
        self.now = state

    async def state(self) -> State:
        return self.now


def _access(credential: int = 1, version: int = 1) -> tuple[Access, _Books]:
    books = _Books(State(version, _RULES, _DEPARTMENTS, {"robot": credential}))
    return Access(books), books


async def _verbs(access: Access, who: Caller) -> set[Verb]:
    rights = await access.rights(who)
    return {verb for verb in Verb if rights.allows(verb, project="vision")}


async def test_a_person_has_their_own_rules_and_those_of_their_groups() -> None:
    access, _ = _access()
    assert await _verbs(access, Caller("anna", (), "https://one")) >= {Verb.WORKLOADS_READ}
    assert Verb.WORKLOADS_CREATE not in await _verbs(access, Caller("anna", (), "https://one"))
    assert Verb.WORKLOADS_CREATE in await _verbs(access, Caller("boris", ("team",), "https://two"))


async def test_another_issuers_person_of_that_name_has_nothing() -> None:
    access, _ = _access()
    assert await _verbs(access, Caller("anna", (), "https://two")) == set()
    assert await _verbs(access, Caller("robot", ("robot",), "https://one")) == set()


async def test_an_application_counts_while_its_secret_does() -> None:
    access, books = _access()
    robot = Caller("robot", (), "muster", credential=1)
    assert Verb.AUDIT_READ in await _verbs(access, robot)
    books.now = State(2, _RULES, _DEPARTMENTS, {"robot": 2})
    with pytest.raises(Unauthenticated, match="robot"):
        await access.rights(robot)
    books.now = State(3, _RULES, _DEPARTMENTS, {})
    with pytest.raises(Unauthenticated, match="new token"):
        await access.rights(Caller("robot", (), "muster", credential=2))


async def test_a_rule_that_is_taken_away_counts_no_more() -> None:
    access, books = _access()
    boris = Caller("boris", ("team",), "https://two")
    assert await _verbs(access, boris)
    books.now = State(2, {}, _DEPARTMENTS, {})
    assert await _verbs(access, boris) == set()


async def test_local_is_everyone_only_where_authentication_is_off() -> None:
    access, books = _access()
    with pytest.raises(Unauthenticated):
        await access.rights(LOCAL)
    assert (await Access(books, everyone_is_admin=True).rights(LOCAL)).projects(Verb.WORKLOADS_READ) is None


async def test_a_refusal_does_not_tell_what_is_hidden() -> None:
    rights = await _access()[0].rights(Caller("anna", (), "https://one"))
    with pytest.raises(PermissionDenied, match=r"anna may not do workloads.delete in project 'vision'"):
        rights.require(Verb.WORKLOADS_DELETE, project="vision")
    with pytest.raises(NotFound, match="project 'speech' does not exist"):
        rights.require(Verb.WORKLOADS_DELETE, project="speech")
    with pytest.raises(NoSuchWorkload, match="w-1"):
        rights.require(Verb.WORKLOADS_READ, project="speech", absent=NoSuchWorkload("w-1 does not exist"))
    rights.require(Verb.WORKLOADS_READ, project="vision")
    with pytest.raises(PermissionDenied, match="whole tenant"):
        rights.require(Verb.DEPARTMENTS_CREATE)
    assert rights.anywhere(Verb.TEMPLATES_READ)
    assert not rights.anywhere(Verb.TEMPLATES_WRITE)
    assert rights.departments(Verb.DEPARTMENTS_READ) == frozenset()
    assert rights.clusters(Verb.CLUSTERS_READ) is None


def test_two_callers_of_one_name_have_keys_of_their_own() -> None:
    assert Caller("anna", (), "a").key != Caller("anna", (), "b").key
    assert Caller("anna", (), "a", peer="x") == Caller("anna", (), "a", channel="rest")
