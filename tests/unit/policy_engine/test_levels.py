"""How the levels of a branch stand to each other: what a write is refused for, with the sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_language import Kind
from muster_policy_engine.levels import Clash, Tenancy, clashes
from muster_policy_engine.policy import Dialect, Level, Policy, Scope
from tests.support.policy_engine import HOME, RESEARCH, TENANT, VISION, policy

SPEECH = Scope(Level.PROJECT, "speech")
SALES = Scope(Level.DEPARTMENT, "sales")
AWAY = Scope(Level.CLUSTER, "away")
TENANCY = Tenancy({"vision": "research", "speech": "sales"}, {RESEARCH: "3", VISION: "17", HOME: "a-uuid"})


def written(new: Policy, *standing: Policy) -> list[Clash]:
    return clashes([new], [*standing, new], TENANCY)


def said(new: Policy, *standing: Policy) -> list[tuple[str, str]]:
    return [(each.path, each.message) for each in written(new, *standing)]


RULE = "rules: {compute.gpuDevicesRequest: {max: 8}}"


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (TENANT, RESEARCH, 'department: "3"'),
        (RESEARCH, TENANT, "tenant"),
        (VISION, RESEARCH, 'department: "3"'),
        (RESEARCH, VISION, 'project: "17"'),
        (VISION, HOME, 'cluster: "a-uuid"'),
        (HOME, VISION, 'project: "17"'),
        (SALES, AWAY, 'cluster: "away"'),
        (SPEECH, TENANT, "tenant"),
    ],
)
def test_a_field_has_rules_at_one_level_of_a_branch(one: Scope, other: Scope, where: str) -> None:
    message = f'Field "compute.gpuDevicesRequest" already has rules in {where}'
    assert said(policy(RULE, one), policy(RULE, other)) == [("rules.compute.gpuDevicesRequest", message)]


@pytest.mark.parametrize(
    ("one", "other"), [(RESEARCH, SALES), (VISION, SPEECH), (HOME, AWAY), (SPEECH, RESEARCH), (SALES, VISION)]
)
def test_units_that_share_no_branch_may_each_rule_a_field(one: Scope, other: Scope) -> None:
    assert said(policy(RULE, one), policy(RULE, other)) == []


def test_all_fields_and_all_levels_at_once() -> None:
    two = "rules: {image: {required: true}, backoffLimit: {max: 1}}"
    found = written(policy(two, VISION), policy(two), policy("rules: {image: {required: true}}", RESEARCH))
    assert [(each.path, each.by.scope if each.by else None) for each in found] == [
        ("rules.image", TENANT),
        ("rules.image", RESEARCH),
        ("rules.backoffLimit", TENANT),
    ]


def test_instances_attributes_and_sides_are_fields_of_their_own() -> None:
    assert (
        said(
            policy("rules: {ports.instances: {canAdd: false}}", VISION),
            policy("rules: {ports.attributes.container: {min: 1}}"),
        )
        == []
    )
    worker = policy("rules: {worker.image: {required: true}}", TENANT, Kind.DISTRIBUTED)
    master = policy("rules: {master.image: {required: true}}", VISION, Kind.DISTRIBUTED)
    assert said(master, worker) == []


def test_each_kind_has_levels_of_its_own() -> None:
    assert said(policy(RULE, VISION), policy(RULE, TENANT, Kind.WORKSPACE)) == []


def test_two_written_together_clash_both() -> None:
    pair = [policy(RULE), policy(RULE, VISION)]
    assert [each.policy.scope for each in clashes(pair, pair, TENANCY)] == [TENANT, VISION]


@pytest.mark.parametrize("rule", ["canEdit: false", "blocked: true"])
def test_a_lower_default_of_a_closed_field(rule: str) -> None:
    above = policy(f"rules: {{backoffLimit: {{{rule}}}}}", RESEARCH)
    message = 'the policy of the department research prohibits changing "backoffLimit"'
    assert said(policy("defaults: {backoffLimit: 2}", VISION), above) == [("defaults.backoffLimit", message)]
    assert said(policy("defaults: {backoffLimit: 2}"), above) == []
    assert said(policy("defaults: {backoffLimit: 2}", SPEECH), above) == []


def test_a_lower_default_of_a_locked_item() -> None:
    above = policy("defaults: {labels.instances: [{name: a, value: b}]}\nrules: {labels.instances: {locked: [a]}}")
    message = "the policy of the tenant prohibits changing \"labels.instances\" 'a'"
    for item in ("{name: a, value: c}", "{name: a, exclude: true}"):
        below = policy(f"defaults: {{labels.instances: [{item}]}}", VISION)
        assert said(below, above) == [("defaults.labels.instances", message)]


def test_a_field_may_be_closed_above_defaults_that_stand() -> None:
    assert said(policy("rules: {backoffLimit: {canEdit: false}}"), policy("defaults: {backoffLimit: 2}", VISION)) == []


def test_reserved_paths_bind_lower_levels() -> None:
    above = policy("reserved: {rules: [security], defaults: [nodePools, storage.hostPath]}", RESEARCH)
    below = policy(
        "defaults: {nodePools: [a], storage.hostPath.instances: [{name: a, path: /a, mountPath: /a}]}\n"
        "rules: {security: {hostIpc: {canEdit: false}}, nodePools: {required: true}}",
        VISION,
    )
    start = "the policy of the department research reserves"
    assert said(below, above) == [
        ("rules.security.hostIpc", f'{start} "security.hostIpc": lower levels give no rules for it'),
        ("defaults.nodePools", f'{start} "nodePools": lower levels give no defaults for it'),
        (
            "defaults.storage.hostPath.instances",
            f'{start} "storage.hostPath.instances": lower levels give no defaults for it',
        ),
    ]
    assert said(replace(below, scope=TENANT), above) == []
    assert said(above, below) == []


def test_a_reserved_path_is_a_path_and_not_a_beginning() -> None:
    above = policy("reserved: {rules: [image]}")
    assert said(policy("rules: {imagePullPolicy: {required: true}}", VISION), above) == []


def test_a_branch_speaks_one_dialect() -> None:
    old = replace(policy("rules: {image: {required: true}}", VISION), dialect=Dialect.V1)
    message = (
        "a v1 policy of this kind stands at the project vision: "
        "a branch speaks one dialect; `muster policies convert` turns v1 into v2"
    )
    assert said(policy(RULE), old) == [("", message)]
    assert said(policy(RULE, RESEARCH), old) == [("", message)]
    assert said(policy(RULE, SPEECH), old) == []
    assert said(policy(RULE, TENANT, Kind.WORKSPACE), old) == []
    ((path, back),) = said(old, policy(RULE))
    assert path == ""
    assert back.startswith("a v2 policy of this kind stands at the tenant")


def test_v1_documents_replace_each_other() -> None:
    one, other = (replace(policy(RULE, scope), dialect=Dialect.V1) for scope in (TENANT, VISION))
    assert said(one, other) == said(other, one) == []


def worked_out(target: str, source: str, scope: Scope = TENANT) -> Policy:
    return policy(f"rules: {{{target}: {{defaultFrom: {{field: {source}, factor: 1}}}}}}", scope)


def test_a_default_never_comes_back_to_itself() -> None:
    request, limit = "compute.cpuCoreRequest", "compute.cpuCoreLimit"
    ((path, message),) = said(worked_out(request, limit), worked_out(limit, request, VISION))
    assert path == f"rules.{request}"
    assert message == f"defaultFrom comes back to its own field: {request} from {limit} from {request}"
    alone = policy(
        f"rules: {{{request}: {{defaultFrom: {{field: {limit}, factor: 1}}}},"
        f" {limit}: {{defaultFrom: {{field: {request}, factor: 1}}}}}}"
    )
    assert [path for path, _ in said(alone)] == [f"rules.{request}", f"rules.{limit}"]


def test_a_cycle_over_three_levels() -> None:
    fields = ["backoffLimit", "completions", "parallelism"]
    tenant = worked_out(fields[0], fields[1])
    department = worked_out(fields[1], fields[2], RESEARCH)
    project = worked_out(fields[2], fields[0], VISION)
    for new, others in (
        (tenant, [department, project]),
        (department, [tenant, project]),
        (project, [tenant, department]),
    ):
        assert len(said(new, *others)) == 1
    elsewhere = worked_out(fields[2], fields[0], SPEECH)
    assert said(elsewhere, tenant, department) == []
    assert said(tenant, department, elsewhere) == []
    assert said(tenant, department) == []


def test_thousands_of_projects_are_looked_at_once_each() -> None:
    units = [str(number) for number in range(3_000)]
    tenancy = Tenancy(dict.fromkeys(units, "research"), {})
    step = worked_out("completions", "parallelism")
    projects = [replace(step, scope=Scope(Level.PROJECT, unit)) for unit in units]
    tenant = worked_out("backoffLimit", "completions")
    assert clashes([tenant, *projects], [tenant, *projects], tenancy) == []
