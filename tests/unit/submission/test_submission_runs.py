"""The run that a rule would start: for whom, with what of the event, and why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from muster.options.v1 import options_pb2
from muster.tenancy.v1.tenancy_pb2 import Project
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.errors import NotFound, PermissionDenied, Unauthenticated
from muster_chassis.rpc import Caller
from muster_submission.adapters import cel
from muster_submission.domain.access import TENANT, Binding, Grants, Role, Scope, ScopeKind, Verb
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.expressions import Answer, Broken, Question, Schema
from muster_submission.domain.triggers import Choice, Rule
from muster_submission.errors import DraftRefused, NoSuchTemplate
from muster_submission.handlers.access import Rights
from muster_submission.handlers.drafts import Drafts, Refusal
from muster_submission.handlers.runs import Failed, Passed, Run, Runs, fields
from muster_submission.handlers.triggers import Rules
from muster_submission.ports import Base
from muster_submission.trigger_ports import StoredRule

RULE = Rule("p", "r", "base", "t", event_sources=("/s",))
OWNER = wl.Owner(subject="ada", issuer="idp", groups=["g"])


class Cel:
    """Expressions, in this process."""

    def __init__(self) -> None:
        self.runaway = False

    async def evaluate(self, question: Question, project: str, rule: str) -> Answer:
        return Broken("too much", runaway=True) if self.runaway else cel.evaluate(question)

    async def check(
        self, expressions: Mapping[str, str], schema: Schema | None, project: str, rule: str
    ) -> Mapping[str, str]:
        return cel.problems(expressions, schema)


class Tenancy:
    """Two projects."""

    async def project(self, name: str) -> Project | None:
        return Project(name=name, namespace=f"runai-{name}") if name in {"p", "q"} else None

    async def project_of_namespace(self, namespace: str) -> Project | None:
        return next((Project(name=one, namespace=f"runai-{one}") for one in "pq" if namespace == f"runai-{one}"), None)

    async def some_names(self, unit: Any = None) -> list[str]:
        return ["p", "q"]


class Templates:
    """The template `base` in every project."""

    def __init__(self, spec: wl.WorkloadSpec) -> None:
        self.spec = spec

    async def find(self, wanted: Any) -> dict[tuple[str, str], Base]:
        return {(p, n): Base("id", 1, n, p, self.spec) for p, n in wanted if n == "base"}


class Everyone:
    """Grants by subject or application, and who was asked for."""

    def __init__(self, **grants: Grants) -> None:
        self.grants = grants
        self.asked: list[Caller] = []

    async def rights(self, who: Caller) -> Rights:
        self.asked.append(who)
        return Rights(who, self.grants.get(who.subject, Grants([], {})))

    async def of_application(self, application: str) -> Rights:
        if application not in self.grants:
            raise Unauthenticated(f"application {application} was revoked")
        return await self.rights(Caller(application, credential=1))

    async def of_recorded(self, subject: str, groups: Sequence[str], issuer: str) -> Rights:
        return await self.rights(Caller(subject, tuple(groups), issuer))


def grants(role: Role, *projects: str) -> Grants:
    return Grants([Binding(role, Scope(ScopeKind.PROJECT, one)) for one in projects], {"p": "d", "q": "d"})


def template(**more: Any) -> wl.WorkloadSpec:
    given: dict[str, Any] = {"kind": options_pb2.KIND_TRAINING, "command": "true"}
    return wl.WorkloadSpec(**(given | more))


def runs(everyone: Everyone, spec: wl.WorkloadSpec | None = None, expressions: Cel | None = None) -> Runs:
    drafts = Drafts(cast("Any", Tenancy()), cast("Any", Templates(spec or template())))
    return Runs(expressions or Cel(), drafts, everyone)


def event(data: bytes = b"{}", source: str = "/s") -> CloudEvent:
    attributes = {"specversion": "1.0", "id": "1", "source": source, "type": "t"}
    return CloudEvent("1", source, "t", "", attributes, data)


def stored(rule: Rule = RULE) -> StoredRule:
    return StoredRule(rule, OWNER, 0, 1)


RESEARCHER = Everyone(
    ada=grants(Role.RESEARCHER, "p"),
    robot=grants(Role.RESEARCHER, "p", "q"),
    night=grants(Role.RESEARCHER, "p"),
    root=Grants([Binding(Role.SYSTEM_ADMIN, TENANT)], {}),
)
ROBOT = "application/robot"


async def test_a_run_is_for_the_rules_identity() -> None:
    found = await runs(RESEARCHER).of(stored(), event())
    assert isinstance(found, Run)
    assert (found.owner.subject, found.owner.issuer, found.owner.trigger) == ("ada", "idp", "p/r")
    assert RESEARCHER.asked[-1] == Caller("ada", ("g",), "idp")
    acting = await runs(RESEARCHER).of(stored(replace(RULE, run_as=ROBOT)), event())
    assert isinstance(acting, Run)
    assert (acting.owner.subject, acting.owner.issuer) == ("robot", "")
    for run_as, why in (
        ("application/gone", "was revoked"),
        ("robot", "never for another person"),
    ):
        tried = await runs(RESEARCHER).of(stored(replace(RULE, run_as=run_as)), event())
        assert isinstance(tried, Failed)
        assert why in tried.why
    viewer = Everyone(ada=grants(Role.VIEWER, "p"))
    denied = await runs(viewer).of(stored(), event())
    assert isinstance(denied, Failed)
    assert "may not do workloads.create" in denied.why


async def test_rights_count_where_the_run_would_be() -> None:
    chosen = replace(RULE, choices=(Choice("project", "data.p", ("p", "q")),))
    both = Everyone(ada=grants(Role.RESEARCHER, "p", "q"), robot=grants(Role.RESEARCHER, "p", "q"))
    there = await runs(both).of(stored(replace(chosen, run_as=ROBOT)), event(b'{"p": "q"}'))
    assert isinstance(there, Run)
    assert there.draft.project.name == "q"
    hidden = await runs(RESEARCHER).of(stored(chosen), event(b'{"p": "q"}'))
    assert isinstance(hidden, Failed)
    missing = await runs(RESEARCHER).of(stored(replace(RULE, project="x")), event())
    assert isinstance(missing, Failed)
    assert "'x' does not exist" in missing.why


async def test_what_the_event_gives_becomes_the_runs_own_layer() -> None:
    rule = replace(
        RULE,
        environment={"A": "data.a"},
        arguments=("data.a",),
        choices=(Choice("image", "data.i", ("x:1",)), Choice("cpu", "data.c", ("2", "0.5"))),
    )
    spec = template(kind=options_pb2.KIND_DISTRIBUTED, args="-v", master_spec=wl.WorkloadSpec(args="-m"))
    found = await runs(RESEARCHER, spec).of(stored(rule), event(b'{"a": "one two", "i": "x:1", "c": 0.5}'))
    assert isinstance(found, Run)
    own = found.draft.spec
    assert (own.base_workload, own.image, own.args, own.master_spec.args) == (
        "base",
        "x:1",
        "-v 'one two'",
        "-m 'one two'",
    )
    assert [(one.label, one.value) for one in own.environment] == [("A", "one two")]
    assert own.HasField("cpu")
    named = found.named(rule, event(), 2)
    assert named.spec.name.startswith("base-")
    assert named.spec.name != found.named(rule, event(), 3).spec.name
    assert not own.HasField("name"), "another number needs it as it was"


@pytest.mark.parametrize(
    ("more", "data", "args", "why"),
    [
        ({"environment": {"A": "data.a"}}, b"{}", "", "environment.A"),
        ({"environment": {"A": "data.a"}}, b'{"a": "SECRET:x,y"}', "", "may not reach for a secret"),
        ({"arguments": ("'x'",)}, b"{}", "it's", "cannot be split into words"),
        ({"template": "gone"}, b"{}", "", "exists neither in project p nor globally"),
        ({"choices": (Choice("cpu", "data.c", ("many",)),)}, b'{"c": "many"}', "", "cpu"),
        ({"choices": (Choice("image", "data.c", ("x",)),)}, b'{"c": "y"}', "", "allowed are 'x'"),
        (
            {"environment": {f"V{n}": "data.a" for n in range(9)}},
            b'{"a": "%s"}' % (b"x" * 60_000),
            "",
            "at most 262144",
        ),
    ],
)
async def test_why_no_run_can_be_made(more: dict[str, Any], data: bytes, args: str, why: str) -> None:
    found = await runs(RESEARCHER, template(args=args)).of(stored(replace(RULE, **more)), event(data))
    assert isinstance(found, Failed)
    assert why in found.why
    assert not found.runaway


async def test_what_a_rule_does_not_take_it_lets_pass() -> None:
    assert isinstance(await runs(RESEARCHER).of(stored(), event(source="/other")), Passed)
    assert isinstance(await runs(RESEARCHER).of(stored(replace(RULE, condition="1 == 2")), event()), Passed)
    away = Cel()
    away.runaway = True
    found = await runs(RESEARCHER, expressions=away).of(stored(), event())
    assert found == Failed("too much", runaway=True)


def test_fields_are_read_as_a_documents_are() -> None:
    kind = options_pb2.KIND_TRAINING
    assert fields(kind, {}) == wl.WorkloadSpec()
    read = fields(kind, {"image": 'a"b\\n: {c}', "command": "1"})
    assert isinstance(read, wl.WorkloadSpec)
    assert (read.image, read.command) == ('a"b\\n: {c}', "1")
    assert isinstance(fields(kind, {"no such": "x"}), str)
    assert isinstance(fields(kind, {"ports": "x"}), str)


async def test_an_application_that_gets_more_rights_later_gives_the_rule_none_of_them() -> None:
    chosen = replace(RULE, run_as=ROBOT, choices=(Choice("project", "data.p", ("p", "q")),))
    beyond = await runs(RESEARCHER).of(stored(chosen), event(b'{"p": "q"}'))
    assert isinstance(beyond, Failed)
    assert "does not exist" in beyond.why
    gone = Everyone(robot=grants(Role.RESEARCHER, "p"))
    left = await runs(gone).of(stored(replace(RULE, run_as=ROBOT)), event())
    assert isinstance(left, Failed)


async def test_an_application_that_wrote_its_own_rule_is_asked_once() -> None:
    asked = Everyone(robot=grants(Role.RESEARCHER, "p"))
    owned = StoredRule(replace(RULE, run_as=ROBOT), wl.Owner(subject="robot", issuer="muster"), 0, 1)
    assert isinstance(await runs(asked).of(owned, event()), Run)
    assert asked.asked == [Caller("robot", credential=1)]


def rules(everyone: Everyone) -> Rules:
    drafts = Drafts(cast("Any", Tenancy()), cast("Any", Templates(template())))
    return Rules(cast("Any", None), cast("Any", None), drafts, Cel(), runs(everyone))


async def test_nobody_writes_a_rule_that_could_do_more_than_they() -> None:
    admin = Rights(Caller("ada"), grants(Role.PROJECT_ADMIN, "p"))
    here = rules(RESEARCHER)
    assert (await here.check(RULE, admin)).run_as == ""
    assert (await here.check(replace(RULE, run_as="ada"), admin)).run_as == ""
    night = "application/night"
    assert (await here.check(replace(RULE, run_as=night), admin)).run_as == night
    for run_as in (ROBOT, "application/root", "application/gone", "robot"):
        with pytest.raises(PermissionDenied):
            await here.check(replace(RULE, run_as=run_as), admin)
    everything = Rights(Caller("root"), Grants([Binding(Role.SYSTEM_ADMIN, TENANT)], {}))
    assert (await here.check(replace(RULE, run_as="application/root"), everything)).run_as == "application/root"
    with pytest.raises(NotFound):
        await here.check(replace(RULE, choices=(Choice("project", "data.p", ("q",)),)), admin)
    for role in (Role.RESEARCHER, Role.VIEWER):
        with pytest.raises(PermissionDenied):
            await here.check(RULE, Rights(Caller("eve"), grants(role, "p")))
    application = Rights(Caller("app", credential=3), grants(Role.PROJECT_ADMIN, "p"))
    for run_as in ("", "application/app"):
        assert (await here.check(replace(RULE, run_as=run_as), application)).run_as == "application/app"
    assert Verb.ACCESS_WRITE in {verb for verb in Verb if admin.allows(verb, project="p")}


async def test_rules_with_a_mistake_are_not_written() -> None:
    admin = Rights(Caller("ada"), grants(Role.PROJECT_ADMIN, "p"))
    here = rules(RESEARCHER)
    for wrong, path in (
        (replace(RULE, name="Bad"), "trigger.name"),
        (replace(RULE, condition="1 +"), "trigger.condition"),
        (replace(RULE, choices=(Choice("name", "data.n", ("x",)),)), "trigger.fields.name"),
        (replace(RULE, choices=(Choice("gpu", "data.n", ("lots",)),)), "trigger.fields.gpu"),
    ):
        with pytest.raises(DraftRefused) as refused:
            await here.check(wrong, admin)
        assert [one.path for one in refused.value.problems] == [path]
    with pytest.raises(NoSuchTemplate):
        await here.check(replace(RULE, template="gone"), admin)


@pytest.mark.parametrize(
    ("name", "namespace", "hint"),
    [
        ("new", "", "`muster projects create new` makes it"),
        ("", "runai-new", "`muster projects create new` makes it"),
        ("", "lab", "`muster projects create NAME --namespace lab` makes it"),
        ("", "runai-", "`muster projects create NAME --namespace runai-` makes it"),
        ("", "p", "'p' is a project's name: its namespace goes here, or its name as the project"),
    ],
)
async def test_a_project_that_is_missing_is_told_with_what_makes_it(name: str, namespace: str, hint: str) -> None:
    drafts = Drafts(cast("Any", Tenancy()), cast("Any", Templates(wl.WorkloadSpec())))
    answer = await drafts.project(name, namespace, Rights(Caller("ada"), grants(Role.PROJECT_ADMIN, "p")))
    assert isinstance(answer, Refusal)
    assert answer.message.endswith(f"; there are p. {hint}")
