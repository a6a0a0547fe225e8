"""`muster policies` about one policy or a list: what it shows, what it asks, and what it refuses to guess."""

from __future__ import annotations

import json

import pytest

from muster.api.v1 import policies_pb2 as api
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

TENANT = """kind: Policy
name: house
workload: training
scope: tenant
policy:
  defaults:
    imagePullPolicy: IfNotPresent
  rules:
    compute.gpuDevicesRequest: {max: 8}
    environmentVariables.instances: {canAdd: false}
"""
RESEARCH = """kind: Policy
name: research-trainings
workload: training
scope: {department: research}
policy:
  defaults:
    compute: {cpuCoreRequest: 1}
    environmentVariables: {instances: [{name: HF_HOME, value: /models}]}
  rules:
    backoffLimit: {max: 6}
"""


@pytest.fixture
def two(muster: Command, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tenant's policy and that of a department."""
    folder = tmp_path_factory.mktemp("policies")
    (folder / "a.yaml").write_text(f"{TENANT}---\n{RESEARCH}")
    assert muster("policies", "apply", "-f", str(folder), "--reason", "first").code == 0


def test_policies_are_listed_by_what_they_rule(two: None, muster: Command, world: World) -> None:
    for words in (["policies", "list"], ["policies"]):
        head, *rows = muster(*words).out.splitlines()
        assert head.split() == ["WORKLOAD", "SCOPE", "NAME", "VERSION", "AGE", "SOURCE"]
        assert [row.split()[:4] for row in rows] == [
            ["training", "tenant", "house", "1"],
            ["training", "department", "research", "research-trainings"],
        ]
    listed = json.loads(muster("policies", "list", "--department", "research", "--json").out)
    assert [each["name"] for each in listed] == ["research-trainings"]
    assert muster("policies", "list", "--workload", "inference").out.startswith("no policies")
    assert muster("policies", "list", "--source", "git").out.startswith("no policies")
    assert muster("policies", "list", "-p", "vision").out.startswith("no policies")
    asked = [(each.workload, each.scope.level, each.scope.unit, each.source) for each in world.asked("ListPolicies")]
    assert asked[-4:] == [
        ("", "department", "research", ""),
        ("inference", "", "", ""),
        ("", "", "", "git"),
        ("", "project", "vision", ""),
    ]


def test_pages_are_put_together(two: None, muster: Command, world: World) -> None:
    (known,) = (each for each in world.shelf.policies.values() if each.name == "house")
    for number in range(4):
        more = api.Policy()
        more.CopyFrom(known)
        more.id, more.scope.level, more.scope.unit = f"more-{number}", "project", f"p{number}"
        world.shelf.policies[more.id] = more
    assert len(json.loads(muster("policies", "list", "--json").out)) == 6
    assert [each.page_token for each in world.asked("ListPolicies")] == ["", "2", "4"]


def test_one_policy_is_shown_as_its_document_or_as_a_whole(two: None, muster: Command, world: World) -> None:
    named = ["policies", "get", "training", "--department", "research"]
    assert muster(*named, "-o", "yaml").out == RESEARCH
    shown = muster(*named).out
    assert shown.startswith(
        "training policy of department research: research-trainings, version 1\n  id       0192d3c4"
    )
    assert "\n  source   applied by hand\n" in shown
    assert shown.endswith(f"\n\n{RESEARCH}")
    found = json.loads(muster(*named, "-o", "json").out)
    assert found == json.loads(muster("policies", "get", found["id"], "--json").out)
    assert (found["scope"], found["version"]) == ({"level": "department", "unit": "research"}, 1)
    missing = muster("policies", "get", "inference", "--tenant")
    assert (missing.code, missing.err) == (3, "muster: there is no policy inference\n")


@pytest.mark.parametrize("verb", [["get"], ["delete"], ["history"], ["rollback", "--to", "1"]])
def test_a_policy_is_never_guessed(two: None, muster: Command, world: World, verb: list[str]) -> None:
    before = len(world.calls)
    nowhere = muster("policies", *verb, "training")
    assert (nowhere.code, nowhere.err) == (
        2,
        "muster: training: which scope? one of --tenant, --cluster C, --department D or -p P is expected\n",
    )
    several = muster("policies", *verb, "training", "--tenant", "--department", "research")
    assert (several.code, several.err) == (
        2,
        "muster: a policy has one scope, and --tenant and --department are given\n",
    )
    mistyped = muster("policies", *verb, "trainings", "--tenant")
    assert mistyped.code == 2
    assert "did you mean training?" in mistyped.err
    assert len(world.calls) == before


def test_a_project_of_the_environment_is_a_scope(
    two: None, muster: Command, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_PROJECT", "vision")
    assert muster("policies", "get", "training").code == 3
    assert muster("policies", "get", "training", "--tenant").code == 0
    scopes = [(each.key.scope.level, each.key.scope.unit) for each in world.asked("GetPolicy")]
    assert scopes == [("project", "vision"), ("tenant", "")]


def test_what_holds_is_shown_with_the_policy_that_it_is_from(two: None, muster: Command, world: World) -> None:
    shown = muster("policies", "get", "training", "-p", "vision", "--effective").out
    rows = [row.split() for row in shown.splitlines()]
    assert rows[:2] == [
        ["PATH", "RULE", "VALUE", "POLICY"],
        ["backoffLimit", "max", "6", "research-trainings", "v1,", "department", "research"],
    ]
    assert ["compute.gpuDevicesRequest", "max", "8", "house", "v1,", "tenant"] in rows
    assert ["environmentVariables.instances", "canAdd", "false", "house", "v1,", "tenant"] in rows
    assert ["PATH", "ITEM", "DEFAULT", "POLICY"] in rows
    assert ["imagePullPolicy", "-", "IfNotPresent", "house", "v1,", "tenant"] in rows
    assert "environmentVariables.instances  HF_HOME  value: /models" in shown
    told = json.loads(muster("policies", "get", "training", "-p", "vision", "--effective", "--json").out)
    rule = told["rules"][0]
    assert (rule["path"], rule["rule"], rule["value"]) == ("backoffLimit", "max", "6")
    assert (rule["policy"]["name"], rule["policy"]["unit"], rule["policy"]["version"]) == (
        "research-trainings",
        "research",
        1,
    )
    assert [each["item"] for each in told["defaults"]] == ["", "HF_HOME", ""]


def test_what_holds_is_asked_of_the_place_that_is_named(two: None, muster: Command, world: World) -> None:
    (research,) = (each.id for each in world.shelf.policies.values() if each.name == "research-trainings")
    for words in (
        ["training", "-p", "vision", "--cluster", "north"],
        ["training", "--department", "research"],
        ["training", "--tenant", "-p", "vision"],
        ["training"],
        [research],
    ):
        assert muster("policies", "get", *words, "--effective").code == 0
    asked = [(each.workload, each.project, each.department, each.cluster) for each in world.asked("GetEffectivePolicy")]
    assert asked == [
        ("training", "vision", "", "north"),
        ("training", "", "research", ""),
        ("training", "", "", ""),
        ("training", "", "", ""),
        ("training", "", "research", ""),
    ]
    nothing = muster("policies", "get", "inference", "--effective")
    assert nothing.out == "no policy gives a rule or a default here\n"
    both = muster("policies", "get", "training", "--effective", "-o", "yaml")
    assert (both.code, "-o table" in both.err) == (2, True)


def test_a_default_that_does_not_count_is_said(
    muster: Command, world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It stood before the rule above it: a write that brings it about is refused."""
    folder = tmp_path_factory.mktemp("policies")
    (folder / "a.yaml").write_text(RESEARCH)
    assert muster("policies", "apply", "-f", str(folder)).code == 0
    closed = TENANT.replace("compute.gpuDevicesRequest: {max: 8}", "compute.cpuCoreRequest: {canEdit: false}")
    above = api.Policy(id="above", name="house", workload="training", version=1, document=closed)
    above.scope.level = "tenant"
    world.shelf.policies["above"] = above
    ran = muster("policies", "get", "training", "-p", "vision", "--effective")
    assert "compute.cpuCoreRequest does not count" in " ".join(ran.err.split())


def test_a_policy_is_removed_once_that_is_meant(two: None, muster: Command, world: World) -> None:
    words = ["policies", "delete", "training", "--tenant"]
    dry = muster(*words, "--dry-run")
    assert (dry.code, dry.out) == (0, "training policy of tenant (house) would be removed\n")
    assert len(world.shelf.policies) == 2
    gone = muster(*words, "--reason", "no longer needed")
    assert (gone.code, gone.out) == (0, "training policy of tenant (house) is gone\n")
    asked = world.asked("DeletePolicy")
    assert [(each.validate_only, each.reason) for each in asked] == [(True, ""), (False, "no longer needed")]
    assert len({each.idempotency_key for each in asked} - {""}) == 2
    assert muster(*words).code == 3
    told = json.loads(muster("policies", "delete", "training", "--department", "research", "--json").out)
    assert (told["deleted"]["name"], told["dryRun"]) == ("research-trainings", False)
    assert not world.shelf.policies


def test_versions_are_listed_and_an_older_one_is_written_again(
    two: None, muster: Command, world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("second") / "p.yaml"
    file.write_text(TENANT.replace("max: 8", "max: 4"))
    assert muster("policies", "apply", "-f", str(file), "--source", "git", "--reason", "fewer GPUs").code == 0
    named = ["training", "--tenant"]
    title, head, *rows = muster("policies", "history", *named).out.splitlines()
    assert title.startswith("training policy of tenant: house (0192d3c4-")
    assert head.split() == ["VERSION", "WHEN", "AUTHOR", "CHANNEL", "SOURCE", "REASON"]
    assert [row.split()[0] for row in rows] == ["2", "1"]
    assert rows[0].endswith("git     fewer GPUs")
    assert rows[1].endswith("-       first")
    dry = muster("policies", "rollback", *named, "--to", "1", "--dry-run")
    assert dry.out == "training policy of tenant: would be changed (house, version 3)\n"
    done = muster("policies", "rollback", *named, "--to", "1", "--reason", "too few")
    assert done.out == "training policy of tenant: changed (house, version 3)\n"
    assert muster("policies", "get", *named, "-o", "yaml").out == TENANT
    versions = json.loads(muster("policies", "history", *named, "--json").out)
    assert [(each["version"], each["reason"]) for each in versions] == [(3, "too few"), (2, "fewer GPUs"), (1, "first")]
    told = json.loads(muster("policies", "rollback", *named, "--to", "2", "--json").out)
    assert (told["outcome"], told["policy"]["version"], told["dryRun"]) == ("changed", 4, False)
    assert muster("policies", "rollback", *named, "--to", "9").code == 3
    wrong = muster("policies", "rollback", *named, "--to", "0")
    assert (wrong.code, wrong.err) == (
        2,
        "muster: --to 0: the number of a version is expected, 1 or more\n",
    )


def test_the_removal_is_a_version_too(muster: Command, world: World) -> None:
    policy = api.Policy(id="x", name="house", workload="training")
    policy.scope.level = "tenant"
    world.shelf.policies["x"] = policy
    world.shelf.versions["x"] = [
        api.PolicyVersion(version=1, document="text", reason="made"),
        api.PolicyVersion(version=2, reason="over"),
        api.PolicyVersion(version=3),
    ]
    rows = muster("policies", "history", "training", "--tenant").out.splitlines()[2:]
    assert [row.split("  ")[-1].strip() for row in rows] == ["removed", "removed: over", "made"]


def test_names_from_others_do_not_reach_the_terminal_raw(muster: Command, world: World) -> None:
    policy = api.Policy(id="x", name="a\x1b[2J\nb", workload="training", source="\u202egit", version=1)
    policy.scope.level, policy.scope.unit = "project", "p\x07"
    policy.warnings.append("read\nthis\x1b")
    policy.document = "text: \x1b[31m\n"
    world.shelf.policies["x"] = policy
    ran = muster("policies", "list")
    shown = ran.out + ran.err + muster("policies", "get", "training", "-p", "p\x07").out
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "a\\x1b[2J\\nb" in shown
    assert ran.err.splitlines() == ["muster: training policy of project p\\x07: read\\nthis\\x1b"]
