"""Writes of policies: all of a call or none, versions, sources, rights, and what other levels have against them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster_language import Kind
from muster_policy.domain.changes import Given, Outcome, Reach, Wanted
from muster_policy.domain.standing import Shelf
from muster_policy.errors import NoSuchPolicy, NoSuchUnit, PolicyChanged, PolicyForbidden, PolicyRefused
from muster_policy.handlers.standing import Loading
from muster_policy.handlers.writing import Done
from muster_policy.ports import Department, Project
from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.judging.judge import Rejected
from muster_policy_engine.policy import Dialect, Level, Scope
from tests.support.policy_books import MemoryService, no_unit, submission

NAMESPACES = {"science": "vision", "runai-speech": "speech", "runai-shop": "shop"}
NOW = datetime(2026, 11, 28, tzinfo=UTC)
EVERYWHERE = Reach(tenant=True)
TENANT = """\
kind: Policy
name: house
workload: training
scope: tenant
policy:
  rules: {backoffLimit: {max: 5}}
"""
PROJECT = """\
kind: Policy
workload: training
scope: {project: vision}
policy:
  defaults: {backoffLimit: 2}
"""


def service() -> MemoryService:
    made = MemoryService()
    made.books.departments["research"] = Department("research", 1, 3)
    for name, department, number in (("vision", "research", 7), ("speech", "research", 8), ("shop", "sales", 9)):
        namespace = "science" if name == "vision" else f"runai-{name}"
        made.books.known[name] = Project(name, 1, (), id=number, department=department, namespace=namespace)
    return made


def wanted(*texts: str, **fields: object) -> Wanted:
    given = []
    for text in texts:
        for document in read_policies(text, projects=NAMESPACES):
            assert document.violations == []
            given.append(Given(document, f"f.yaml:{document.line}"))
    made = Wanted(given, "anna", NOW, [f"id-{number}-{id(given)}" for number in range(len(given))], EVERYWHERE)
    return replace(made, **fields)  # type: ignore[arg-type]


async def apply(at: MemoryService, *texts: str, dry: bool = False, **fields: object) -> Done:
    return await at.writing.apply(no_unit(), wanted(*texts, **fields), "grpc", "because", dry=dry)


def outcomes(done: Done) -> list[tuple[str, Outcome, int]]:
    return [(str(each.row.scope), each.outcome, each.row.version) for each in done.changes]


async def test_a_write_makes_changes_or_leaves() -> None:
    at = service()
    done = await apply(at, TENANT, PROJECT)
    assert outcomes(done) == [("tenant", Outcome.CREATED, 1), ("project vision", Outcome.CREATED, 1)]
    assert [each.row.name for each in done.changes] == ["house", "vision-training"]
    assert done.revision == 1
    again = await apply(at, TENANT.replace("max: 5", "max: 4"), PROJECT)
    assert outcomes(again) == [("tenant", Outcome.CHANGED, 2), ("project vision", Outcome.UNCHANGED, 1)]
    assert again.revision == 2
    assert again.changes[0].row.id == done.changes[0].row.id
    assert (await apply(at, TENANT.replace("max: 5", "max: 4"))).revision == 2
    assert [(each.row.version, each.author, each.reason) for each in at.store.history] == [
        (1, "anna", "because"),
        (1, "anna", "because"),
        (2, "anna", "because"),
    ]


async def test_a_dry_run_writes_nothing() -> None:
    at = service()
    assert outcomes(await apply(at, TENANT, dry=True)) == [("tenant", Outcome.CREATED, 1)]
    assert (at.store.number, at.store.rows) == (0, {})


async def test_one_clash_refuses_the_whole_call() -> None:
    at = service()
    await apply(at, TENANT)
    ruled = PROJECT.replace("defaults: {backoffLimit: 2}", "rules: {backoffLimit: {max: 3}}")
    other = PROJECT.replace("vision", "shop")
    with pytest.raises(PolicyRefused) as refused:
        await apply(at, other, ruled)
    assert [(each.field, each.description) for each in refused.value.violations] == [
        ("f.yaml:1: rules.backoffLimit", 'Field "backoffLimit" already has rules in tenant')
    ]
    assert len(at.store.rows) == 1


async def test_a_rule_in_a_department_is_named_by_its_id() -> None:
    at = service()
    department = TENANT.replace("scope: tenant", "scope: {department: research}")
    await apply(at, department)
    with pytest.raises(PolicyRefused, match='already has rules in department: "3"'):
        await apply(at, TENANT)
    ruled = PROJECT.replace("defaults: {backoffLimit: 2}", "rules: {backoffLimit: {max: 3}}")
    with pytest.raises(PolicyRefused):
        await apply(at, ruled)
    await apply(at, ruled.replace("vision", "shop"))  # of another department


@pytest.mark.parametrize(
    ("reach", "scope", "allowed"),
    [
        (Reach(projects=frozenset({"vision"})), "{project: vision}", True),
        (Reach(projects=frozenset({"vision"})), "{project: speech}", False),
        (Reach(projects=frozenset({"vision"})), "{department: research}", False),
        (Reach(departments=frozenset({"research"})), "{department: research}", True),
        (Reach(departments=frozenset({"research"})), "{project: speech}", True),
        (Reach(departments=frozenset({"research"})), "{project: shop}", False),
        (Reach(departments=frozenset({"research"})), "tenant", False),
        (Reach(departments=frozenset({"research"})), "{cluster: east}", False),
        (Reach(tenant=True), "{cluster: east}", True),
    ],
)
async def test_who_may_write_where(reach: Reach, scope: str, allowed: bool) -> None:
    at = service()
    text = PROJECT.replace("{project: vision}", scope)
    if allowed:
        assert (await apply(at, text, reach=reach)).revision == 1
        return
    with pytest.raises(PolicyForbidden, match=r"policies\.write"):
        await apply(at, text, reach=reach)
    assert at.store.number == 0


async def test_a_scope_that_does_not_exist() -> None:
    at = service()
    for text in (PROJECT.replace("vision", "visoin"), PROJECT.replace("project: vision", "department: serach")):
        with pytest.raises(NoSuchUnit):
            await apply(at, text)


async def test_the_version_that_the_caller_has_seen() -> None:
    at = service()
    with pytest.raises(PolicyChanged, match="there is none"):
        await apply(at, TENANT, expected=1)
    await apply(at, TENANT)
    await apply(at, TENANT.replace("5", "6"), expected=1)
    with pytest.raises(PolicyChanged, match="it has version 2"):
        await apply(at, TENANT.replace("5", "7"), expected=1)


async def test_prune_removes_what_the_source_no_longer_has_and_nothing_else() -> None:
    at = service()
    await apply(at, TENANT, PROJECT, source="git")
    await apply(at, PROJECT.replace("vision", "shop"))
    await apply(at, PROJECT.replace("vision", "speech"), source="other")
    done = await apply(at, TENANT, source="git", prune=True)
    assert outcomes(done) == [("tenant", Outcome.UNCHANGED, 1), ("project vision", Outcome.REMOVED, 2)]
    left = {str(each.row.scope) for each in (await at.loading.seen(no_unit())).all()}
    assert left == {"tenant", "project shop", "project speech"}


async def test_an_empty_folder_removes_everything_only_where_that_is_meant() -> None:
    at = service()
    await apply(at, TENANT, source="git")
    with pytest.raises(PolicyRefused, match="all 1 of git would go"):
        await apply(at, source="git", prune=True)
    done = await apply(at, source="git", prune=True, allow_empty=True)
    assert outcomes(done) == [("tenant", Outcome.REMOVED, 2)]


async def test_a_policy_of_another_source_is_taken_over_only_where_that_is_meant() -> None:
    at = service()
    await apply(at, TENANT)
    await apply(at, TENANT, source="git")  # nothing had applied it but a person
    with pytest.raises(PolicyRefused, match=r"belongs to the source 'git'"):
        await apply(at, TENANT, source="other")
    done = await apply(at, TENANT.replace("5", "6"))
    assert done.changes[0].row.source == "git"  # a change by hand drifts, and stays git's
    done = await apply(at, TENANT, source="other", take_ownership=True)
    assert done.changes[0].row.source == "other"


async def test_a_policy_goes_and_comes_again_as_another_one() -> None:
    at = service()
    first = (await apply(at, TENANT)).changes[0].row
    key = (Kind.TRAINING, Scope())
    gone = await at.writing.remove(no_unit(), key, wanted(), "grpc", "over")
    assert outcomes(gone) == [("tenant", Outcome.REMOVED, 2)]
    with pytest.raises(NoSuchPolicy):
        await at.writing.remove(no_unit(), first.id, wanted(), "grpc", "")
    again = (await apply(at, TENANT)).changes[0]
    assert again.outcome is Outcome.CREATED
    assert again.row.id != first.id
    with pytest.raises(PolicyForbidden):
        await at.writing.remove(no_unit(), key, wanted(reach=Reach()), "grpc", "")


async def test_what_a_project_moved_into_is_judged_as_it_is_now() -> None:
    at = service()
    department = TENANT.replace("scope: tenant", "scope: {department: research}")
    ruled = PROJECT.replace("defaults: {backoffLimit: 2}", "rules: {backoffLimit: {max: 3}}").replace("vision", "shop")
    await apply(at, department, ruled)
    at.books.known["shop"] = replace(at.books.known["shop"], department="research")
    with pytest.raises(PolicyRefused):  # what clashes since is refused at the next write of either
        await apply(at, ruled.replace("max: 3", "max: 2"))
    assert Scope(Level.PROJECT, "shop") in {each.row.scope for each in (await at.loading.seen(no_unit())).all()}


def v1(namespace: str = "runai", limit: int = 5, name: str = "trainings") -> str:
    metadata = f"{{name: {name}, namespace: {namespace}}}"
    return f"""\
apiVersion: run.ai/v2alpha1
kind: TrainingPolicy
metadata: {metadata}
spec:
  backoffLimit: {{rules: {{max: {limit}}}}}
"""


async def refused_of(at: MemoryService, project: str, backoff_limit: int) -> bool:
    given = submission(project=project, backoff_limit=backoff_limit)
    (judged,) = await at.judging.consider(no_unit(), [given])
    return isinstance(judged.verdict, Rejected)


async def test_a_v1_document_of_a_project_replaces_the_tenants_whole() -> None:
    at = service()
    done = await apply(at, v1(limit=5), v1("science", limit=9))
    assert outcomes(done) == [("tenant", Outcome.CREATED, 1), ("project vision", Outcome.CREATED, 1)]
    assert [each.row.name for each in done.changes] == ["trainings", "trainings"]
    assert not await refused_of(at, "vision", 7)
    assert await refused_of(at, "vision", 10)
    assert await refused_of(at, "speech", 7)
    await at.writing.remove(no_unit(), (Kind.TRAINING, Scope(Level.PROJECT, "vision")), wanted(), "grpc", "")
    assert await refused_of(at, "vision", 7)


async def test_a_v1_document_is_read_again_whatever_became_of_the_namespace() -> None:
    at = service()
    await apply(at, v1("science", limit=9))
    at.books.known["vision"] = replace(at.books.known["vision"], namespace="moved")
    at.books.known["other"] = Project("other", 1, (), namespace="science")
    again = Loading(Shelf(), at.store)
    (standing,) = (await again.seen(no_unit())).all()
    assert standing.policy is not None
    assert standing.policy.scope == Scope(Level.PROJECT, "vision")
    assert standing.policy.dialect is Dialect.V1


async def test_another_name_in_the_namespace_of_a_v1_document_is_refused() -> None:
    at = service()
    await apply(at, v1(), v1("science"))
    for text in (v1(name="other"), v1("science", name="other")):
        with pytest.raises(PolicyRefused, match="is 'trainings': one document for each namespace"):
            await apply(at, text)
    assert outcomes(await apply(at, v1(limit=6))) == [("tenant", Outcome.CHANGED, 2)]


@pytest.mark.parametrize(
    ("reach", "allowed"),
    [
        (Reach(projects=frozenset({"vision"})), False),
        (Reach(departments=frozenset({"research"})), False),
        (Reach(tenant=True), True),
    ],
)
async def test_a_v1_document_of_a_project_takes_the_right_at_the_tenant(reach: Reach, allowed: bool) -> None:
    at, project = service(), (Kind.TRAINING, Scope(Level.PROJECT, "vision"))
    if not allowed:
        with pytest.raises(PolicyForbidden, match="policies of: tenant;"):
            await apply(at, v1("science"), reach=reach)
        await apply(at, v1("science"))
        with pytest.raises(PolicyForbidden, match="policies of: tenant;"):
            await apply(at, PROJECT, reach=reach)  # it switches the tenant's on again
        with pytest.raises(PolicyForbidden, match="policies of: tenant;"):
            await at.writing.remove(no_unit(), project, wanted(reach=reach), "grpc", "")
        return
    await apply(at, v1("science"), reach=reach)
    assert outcomes(await at.writing.remove(no_unit(), project, wanted(reach=reach), "grpc", "")) == [
        ("project vision", Outcome.REMOVED, 2)
    ]


async def test_a_branch_speaks_one_dialect() -> None:
    at = service()
    await apply(at, v1())
    with pytest.raises(PolicyRefused, match="a v1 policy of this kind stands at the tenant"):
        await apply(at, PROJECT)
    await apply(at, TENANT, PROJECT)  # a branch changes over in one call
    with pytest.raises(PolicyRefused, match="a v2 policy of this kind stands at the tenant"):
        await apply(at, v1("science"))
    await apply(at, v1(), v1("science"))
