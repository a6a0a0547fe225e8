"""Departments, projects and node pools on the command line, and the documents that make them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.rpc import code_pb2, error_details_pb2

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.org_files import records
from muster_client.errors import InvalidInput
from tests.support.plane_world import Failure, World

DOCS = Path(__file__).parents[3] / "docs"
KINDS = {"Department": "departments", "Project": "projects", "NodePool": "node-pools"}


def told() -> dict[str, str]:
    """The documents of the guide, by kind."""
    text = (DOCS / "guides" / "organisation.md").read_text()
    found = re.findall(r"^```yaml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return {str(re.search(r"^kind: (\w+)", one, flags=re.MULTILINE)[1]): one for one in found}  # type: ignore[index]


@pytest.mark.parametrize(("kind", "noun"), KINDS.items())
def test_the_guides_documents(muster: Callable[..., Any], tmp_path: Path, kind: str, noun: str) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(told()[kind])
    first = muster(noun, "apply", "-f", str(path))
    assert (first.code, "version 1" in first.out or "deserves" in first.out) == (0, True)
    assert "version 2" in muster(noun, "apply", "-f", str(path)).out
    (shown,) = json.loads(muster(noun, "apply", "-f", str(path), "--json").out)
    assert shown["version"] == 3


def test_a_document_says_everything_in_the_accounts_units(tmp_path: Path) -> None:
    path = tmp_path / "project.yaml"
    path.write_text(told()["Project"])
    (written,) = records([path], tenancy_pb2.Project)
    project = written.record
    quota = project.quotas[0]
    assert (quota.gpu_deserved, quota.gpu_limit, quota.over_quota_weight_milli) == (28_000, 59_500, 2000)
    assert (quota.cpu_milli_deserved, quota.memory_bytes_deserved) == (64_000, 256 << 30)
    assert (project.user_limits[0].workload_limit, project.rules.interactive_idle_limit_seconds) == (10, 3600)
    assert list(project.default_node_pools) == ["h100", "default"]


def test_a_pool_says_whether_memory_comes_as_slices(tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text("kind: NodePool\ncluster: east\nname: mig\nmemoryAsSlices: true\n")
    (written,) = records([path], tenancy_pb2.NodePool)
    assert written.record.memory_as_slices
    path.write_text("kind: NodePool\ncluster: east\nname: mig\nmemoryAsSlices: 1\n")
    with pytest.raises(InvalidInput) as refused:
        records([path], tenancy_pb2.NodePool)
    assert [each.path for each in refused.value.violations] == ["memoryAsSlices"]


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "kind: Department\nname: a\nqoutas: []\nquotas:\n- {pool: 7, gpus: -1}\n- 3\nrules: 5\nrank: true\n"
        "---\nkind: Project\n"
    )
    with pytest.raises(InvalidInput) as refused:
        records([path], tenancy_pb2.Department)
    assert {(one.path, one.line, one.column) for one in refused.value.violations} == {
        ("qoutas", 3, 1),
        ("quotas.0.pool", 5, 10),
        ("quotas.0.gpus", 5, 19),
        ("quotas.1", 6, 3),
        ("rules", 7, 8),
        ("rank", 8, 7),
        ("kind", 10, 7),
        ("name", 10, 1),
    }
    for text in ("", "a: [", "[" * 5000):
        path.write_text(text)
        with pytest.raises(InvalidInput):
            records([path], tenancy_pb2.Department)
    with pytest.raises(InvalidInput):
        records([tmp_path / "missing.yaml"], tenancy_pb2.Department)


def test_what_is_no_yaml_is_told_by_file_and_line(muster: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("kind: Project\nname: a\nquotas: [\n")
    told = muster("projects", "apply", "-f", str(path))
    assert told.code == 2
    assert told.err.startswith(f"{path}:4:1: this is not YAML: while parsing a flow node")
    assert "unicode string" not in told.err


QUOTA = ("quotas.1.node_pool", "no cluster has a node pool 'x'")
RULE = ("rules.training_time_limit_seconds", "61 loosens the department's rule")


def refusing(message: str, *found: tuple[str, str]) -> Failure:
    bad = error_details_pb2.BadRequest()
    for path, told in found:
        bad.field_violations.add(field=path, description=told)
    return Failure(code_pb2.INVALID_ARGUMENT, message, [bad])


def test_a_refusal_names_the_options_of_the_verb(muster: Callable[..., Any], world: World) -> None:
    said = f"the project is refused: {QUOTA[0]}: {QUOTA[1]}; {RULE[0]}: {RULE[1]}"
    world.failures["CreateProject"] = [refusing(said, QUOTA, RULE)]
    told = muster("projects", "create", "vision", "--quota", "1")
    assert (told.code, "quotas.1" in told.err, "rules." in told.err) == (2, False, False)
    assert f"--quota: {QUOTA[1]}" in told.err
    assert f"--rule trainingTimeLimitSeconds: {RULE[1]}" in told.err


def test_a_refusal_of_a_document_names_its_keys_and_lines(
    muster: Callable[..., Any], world: World, tmp_path: Path
) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(
        "kind: Project\nname: a\nquotas:\n- {gpus: 1}\n- {gpus: 2, pool: x}\nrules: {trainingTimeLimitSeconds: 61}\n"
    )
    world.failures["CreateProject"] = [refusing("refused", QUOTA, RULE)]
    told = muster("projects", "apply", "-f", str(path))
    assert told.code == 2
    assert f"{path}:5:19: quotas.1.pool: {QUOTA[1]}" in told.err
    assert f"{path}:6:35: rules.trainingTimeLimitSeconds: {RULE[1]}" in told.err


def test_departments(muster: Callable[..., Any]) -> None:
    assert "no departments" in muster("departments").out
    made = muster("departments", "create", "research", "--quota", "8", "--rank", "2", "--description", "all of it")
    assert made.out == "department research: deserves 8 GPUs in default\n"
    heading, row = muster("departments").out.splitlines()
    assert (heading.split()[0], row.split()) == ("NAME", ["research", "default", "8", "-", "1", "2"])
    assert "all of it" in muster("departments", "get", "research").out
    assert "deserves 9.5 GPUs in h100" in muster("departments", "set-quota", "research", "9.5", "--pool", "h100").out
    muster("departments", "set-quota", "research", "1", "--pool", "lab")
    assert "Quota       lab: 1 GPU, " in muster("departments", "get", "research").out
    assert muster("departments", "set-quota", "research", "x").code == 2
    named = muster("departments", "set-quota", "research", "h100=4").err
    assert "a node pool is named by an option: 4 --pool h100" in named
    for much in ("1e400", "1e999999999", "1e99999999999999999999", "10000001"):
        refused = muster("departments", "set-quota", "research", much)
        assert (refused.code, f"{much!r} is not a number of GPUs" in refused.err) == (2, True)
    assert "is not a weight" in muster("departments", "set-quota", "research", "1", "--weight", "1e400").err
    assert muster("departments", "create", "x", "--rank", "-1").code == 2
    assert json.loads(muster("departments", "get", "research", "--json").out)["name"] == "research"
    assert muster("departments", "delete", "research").out == "department research is gone\n"
    assert muster("departments", "get", "research").code != 0


def test_projects_are_shown_and_go(muster: Callable[..., Any]) -> None:
    muster("projects", "create", "vision", "--quota", "4")
    assert "Namespace   runai-vision" in muster("projects", "get", "vision").out
    assert muster("projects", "delete", "vision").out == "project vision is gone\n"
    assert muster("projects", "delete", "vision").code != 0


def test_node_pools(muster: Callable[..., Any]) -> None:
    assert "no node pools" in muster("node-pools").out
    asked = ("node-pools", "create", "east", "h100", "--label", "gpu=h100", "--gpu-placement", "foresight")
    assert muster(*asked).out == "node pool h100 of cluster east: nodes with gpu=h100\n"
    assert muster("node-pools").out.splitlines()[1].split() == ["h100", "east", "foresight", "binpack", "gpu=h100"]
    made = muster("node-pools", "create", "east", "mig", "--label", "gpu=mig", "--memory-as-slices", "--json")
    assert json.loads(made.out)["memoryAsSlices"] is True
    assert muster(*asked[:4], "--label", "gpu").code == 2
    assert muster(*asked[:6], "--cpu-placement", "most").code == 2
    assert muster("node-pools", "delete", "east", "h100").out == "node pool h100 of cluster east is gone\n"


@pytest.mark.parametrize("noun", ["departments", "projects"])
def test_parts_are_changed_and_the_others_stay(muster: Callable[..., Any], noun: str) -> None:
    muster(noun, "create", "vision", "--quota", "4")
    asked = (noun, "update", "vision", "--rank", "3", "--rule", "trainingTimeLimitSeconds=60", "--description", "eyes")
    first = json.loads(muster(*asked, "--json").out)
    assert (first["rank"], first["description"], first["version"]) == (3, "eyes", 2)
    assert first["rules"]["trainingTimeLimitSeconds"] in {60, "60"}
    second = json.loads(muster(noun, "update", "vision", "--rule", "trainingTimeLimitSeconds=none", "--json").out)
    assert (second["rank"], second.get("rules", {}), second["version"]) == (3, {}, 3)
    assert json.loads(muster(noun, "update", "vision", "--json").out)["version"] == 3
    for wrong in (("--rank", "-1"), ("--rule", "speed=3"), ("--rule", "trainingTimeLimitSeconds=soon")):
        assert muster(noun, "update", "vision", *wrong).code == 2


def test_default_node_pools_are_replaced(muster: Callable[..., Any]) -> None:
    muster("projects", "create", "vision", "--node-pool", "old")
    changed = muster("projects", "update", "vision", "--node-pool", "h100", "--node-pool", "default")
    assert "Node pools  h100, default" in changed.out
