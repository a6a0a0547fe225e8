"""Questions about workloads that nobody makes: what policy hears of them, and what an answer may tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from muster.api.v1 import explain_pb2, policies_pb2, workloads_pb2
from muster.events.v1 import policy_pb2
from muster.options.v1 import options_pb2
from muster.policy.v1.policy_pb2 import ComplianceIssue
from muster.tenancy.v1.tenancy_pb2 import Project
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.errors import NotFound, PermissionDenied
from muster_chassis.rpc import LOCAL
from muster_kernel.ids import is_uuid
from muster_language.sensitive import MASK
from muster_submission.domain.access import Binding, Grants, Role, Scope, ScopeKind
from muster_submission.errors import BadQuestion, DraftRefused, NameTaken
from muster_submission.handlers.access import Rights
from muster_submission.handlers.asking import MOST, Asking
from muster_submission.handlers.drafts import Drafts
from muster_submission.ports import Base
from muster_submission.rpc.explain import free, readable, whole

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = wl.Owner(subject="ada")


class Tenancy:
    """Two projects."""

    async def project(self, name: str) -> Project | None:
        known = {"p", "q"}
        return Project(name=name, namespace=f"runai-{name}", department="d", version=7) if name in known else None

    async def some_names(self, unit: Any = None) -> list[str]:
        return ["p", "q"]


class Templates:
    """The template `base` in every project; it has a credential."""

    async def find(self, wanted: Any) -> dict[tuple[str, str], Base]:
        spec = wl.WorkloadSpec(kind=options_pb2.KIND_WORKSPACE, notebook_token="hidden")
        return {(p, n): Base("id", 1, n, p, spec) for p, n in wanted}


def rights(role: Role = Role.RESEARCHER, *projects: str) -> Rights:
    bindings = [Binding(role, Scope(ScopeKind.PROJECT, one)) for one in projects or ("p",)]
    return Rights(LOCAL, Grants(bindings, {"p": "d", "q": "d"}))


def draft(project: str = "p", **more: Any) -> workloads_pb2.WorkloadDraft:
    given: dict[str, Any] = {"kind": options_pb2.KIND_TRAINING, "command": "true"} | (more or {"name": "new"})
    return workloads_pb2.WorkloadDraft(project=project, cluster="east", spec=wl.WorkloadSpec(**given))


async def asked(*drafts: workloads_pb2.WorkloadDraft, of: Rights | None = None) -> list[Any]:
    asking = Asking(Drafts(cast("Any", Tenancy()), cast("Any", Templates())))
    return [told for told, _ in await asking.submitted(drafts, of or rights(), OWNER, NOW)]


async def test_policy_hears_what_a_submission_would_tell() -> None:
    first, second = await asked(draft(), draft(name_prefix="run"))
    assert (first.project, first.department, first.namespace, first.asked_cluster) == ("p", "d", "runai-p", "east")
    assert (first.name, second.name) == ("new", "run")
    assert (first.generation, first.tenancy_version, first.owner.subject) == (1, 7, "ada")
    assert first.submitted_at.ToDatetime(UTC) == NOW
    assert is_uuid(first.workload_id)
    assert first.workload_id < second.workload_id


async def test_no_credential_leaves_with_a_question() -> None:
    secret = "very secret"
    given = draft(name="new", kind=options_pb2.KIND_WORKSPACE, notebook_token=secret, base_workload="base")
    (told,) = await asked(given)
    assert told.spec.notebook_token == told.base_spec.notebook_token == MASK
    assert secret.encode() not in told.SerializeToString()
    assert given.spec.notebook_token == secret


async def test_only_who_could_submit_may_ask() -> None:
    with pytest.raises(PermissionDenied):
        await asked(draft(), of=rights(Role.VIEWER))
    with pytest.raises(NotFound):
        await asked(draft(project="q"))
    with pytest.raises(DraftRefused):
        await asked(draft(), draft(name="Not A Name"))


async def test_a_cluster_in_which_the_workload_may_not_run_is_refused_at_once() -> None:
    here, there = draft(name="new"), draft(name="new")
    here.spec.clusters.values.extend(["north", "east"])
    there.spec.clusters.values.extend(["north", "south"])
    (told,) = await asked(here)
    assert (told.asked_cluster, list(told.spec.clusters.values)) == ("east", ["north", "east"])
    with pytest.raises(DraftRefused) as refused:
        await asked(there)
    ((violation),) = refused.value.violations
    assert violation.field == "spec.clusters"
    assert violation.description == (
        "cluster east was asked for, but the workload may run in north, south only: "
        "ask for one of these or for none, or add east to clusters"
    )
    here.spec.preferred_clusters.values.extend(["east", "west"])
    with pytest.raises(DraftRefused) as refused:
        await asked(here)
    assert [each.field for each in refused.value.violations] == ["spec.preferredClusters"]


@pytest.mark.parametrize("count", [0, MOST + 1])
async def test_a_question_has_its_bounds(count: int) -> None:
    with pytest.raises(BadQuestion, match="1 to 100"):
        await asked(*[draft()] * count)


def test_a_name_that_a_submission_would_be_refused_for_is_refused_in_a_question_too() -> None:
    """It was answered as if the workload of that name and the one asked about could run beside each other."""
    free([("p", "a"), ("p", "b"), ("q", "a")], {("q", "b")})
    for names in ([("q", "b")], [("p", "a"), ("p", "a")]):
        with pytest.raises(NameTaken, match="is taken in project"):
            free(names, {("q", "b")})


def test_what_policy_refuses_stands_in_its_place() -> None:
    issue = ComplianceIssue(path="gpu", details="too many")
    judgements = [
        policies_pb2.Judgement(rejected=policy_pb2.WorkloadRejected(name="bad", project="p", issues=[issue])),
        policies_pb2.Judgement(admitted=policy_pb2.WorkloadAdmitted(name="good", warnings=["careful"])),
    ]
    answer = explain_pb2.WhatIfResponse(
        prospects=[explain_pb2.Prospect(name="good", outlook=explain_pb2.OUTLOOK_STARTS_AFTER)],
        displaced=[explain_pb2.Displaced(name="v", project="p", by=1), explain_pb2.Displaced(name="o", by=0)],
        unfinished=True,
    )
    told = whole(answer, judgements, rights())
    assert [(each.name, each.outlook) for each in told.prospects] == [
        ("bad", explain_pb2.OUTLOOK_REFUSED),
        ("good", explain_pb2.OUTLOOK_STARTS_AFTER),
    ]
    assert told.prospects[0].issues[0] == issue
    assert list(told.prospects[1].warnings) == ["careful"]
    assert [each.by for each in told.displaced] == [2, 0]
    assert told.unfinished


def test_a_victim_that_the_caller_may_not_see_has_no_name() -> None:
    victims = [
        explain_pb2.Displaced(
            workload_id=one, name=one, project=project, gpu_charge=7000, replicas_given_up=1, replicas=3
        )
        for one, project in (("mine", "p"), ("theirs", "q"))
    ]
    told = whole(explain_pb2.WhatIfResponse(displaced=victims), [], rights())
    assert [(each.workload_id, each.name, each.project, each.gpu_charge) for each in told.displaced] == [
        ("mine", "mine", "p", 7000),
        ("", "", "", 0),
    ]
    assert [(each.replicas_given_up, each.replicas) for each in told.displaced] == [(1, 3), (0, 0)]


def test_an_answer_may_name_the_workloads_that_the_caller_may_read() -> None:
    assert readable(rights(Role.RESEARCHER, "q", "p")) == explain_pb2.Readable(projects=["p", "q"])
    everywhere = Grants([Binding(Role.RESEARCHER, Scope(ScopeKind.TENANT))], {"p": "d"})
    assert readable(Rights(LOCAL, everywhere)) == explain_pb2.Readable(everything=True)
