"""Departments, projects and node pools on the command line, and the documents that make them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.org_files import records
from muster_client.errors import InvalidInput

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
    ((_, project),) = records([path], tenancy_pb2.Project)
    quota = project.quotas[0]
    assert (quota.gpu_deserved, quota.gpu_limit, quota.over_quota_weight_milli) == (28_000, 59_500, 2000)
    assert (quota.cpu_milli_deserved, quota.memory_bytes_deserved) == (64_000, 256 << 30)
    assert (project.user_limits[0].workload_limit, project.rules.interactive_idle_limit_seconds) == (10, 3600)
    assert list(project.default_node_pools) == ["h100", "default"]


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "kind: Department\nname: a\nqoutas: []\nquotas:\n- {pool: 7, gpus: -1}\n- 3\nrules: 5\nrank: true\n"
        "---\nkind: Project\n"
    )
    with pytest.raises(InvalidInput) as refused:
        records([path], tenancy_pb2.Department)
    assert {one.path for one in refused.value.violations} == {
        "0.qoutas",
        "0.quotas.0.pool",
        "0.quotas.0.gpus",
        "0.quotas.1",
        "0.rules",
        "0.rank",
        "1.kind",
        "1.name",
    }
    for text in ("", "a: [", "[" * 5000):
        path.write_text(text)
        with pytest.raises(InvalidInput):
            records([path], tenancy_pb2.Department)
    with pytest.raises(InvalidInput):
        records([tmp_path / "missing.yaml"], tenancy_pb2.Department)


def test_departments(muster: Callable[..., Any]) -> None:
    assert "no departments" in muster("departments").out
    made = muster("departments", "create", "research", "--quota", "8", "--rank", "2", "--description", "all of it")
    assert made.out == "department research: deserves 8 GPUs in default\n"
    heading, row = muster("departments").out.splitlines()
    assert (heading.split()[0], row.split()) == ("NAME", ["research", "default", "8", "-", "1", "2"])
    assert "all of it" in muster("departments", "get", "research").out
    assert "deserves 9.5 GPUs in h100" in muster("departments", "set-quota", "research", "9.5", "--pool", "h100").out
    assert muster("departments", "set-quota", "research", "x").code == 2
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
    asked = ("node-pools", "create", "east", "h100", "--label", "gpu=h100", "--gpu-placement", "spread")
    assert muster(*asked).out == "node pool h100 of cluster east: nodes with gpu=h100\n"
    assert muster("node-pools").out.splitlines()[1].split() == ["h100", "east", "spread", "binpack", "gpu=h100"]
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
